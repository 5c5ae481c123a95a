/* One client that holds and renews many locks: bench-hold NODES LOCKS SECONDS TTL_MS.
 *
 * First the client is idle, then it acquires the locks, then it holds them. In the first and the last phase a probe
 * acquires and releases one more lock every few milliseconds. Memory is counted by the allocator callbacks. Prints
 * one line; times in ns. */
#include <ev.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/redlock.h>

#include "clock.h"
#include "counting.h"
#include "histogram.h"

enum {
    READY_TIMEOUT_MS = 10000,
    IN_FLIGHT = 200,
    PROBE_MS = 10,
    NODE_TIMEOUT_MS = 1000,
    IDLE_MOST_S = 30,
    BEAT_S = 20
};

struct phase {
    struct histogram acquire; /* of the probe */
    uint64_t failures;        /* of the probe */
    uint64_t cpu, wall;
};

static struct ev_loop *loop;
static redlock_client *client;
static redlock_lock **locks;
static unsigned wanted, asked, held, answered, not_released;
static uint64_t lost, failing;
static struct phase idle, holding, *phase;
static uint64_t probe_started;
static bool probing;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "hold: %s: %s\n", what, why);
    exit(1);
}

/* ------------------------------------------------------------------------------------------------------------ probe */

static void on_probe_released(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from, (void)data;
    phase->failures += result->status != REDLOCK_OK;
    probing = false;
}

static void on_probe_acquired(redlock_client *from, redlock_lock *lock, const redlock_result *result, void *data)
{
    (void)from, (void)result, (void)data;
    histogram_add(&phase->acquire, clock_now() - probe_started);
    if (lock && redlock_release_async(&lock, NULL, on_probe_released, NULL) == REDLOCK_OK)
        return;
    phase->failures++;
    probing = false;
}

/* Between half a period and one and a half. A fixed period could always, or never, coincide with the client's own. */
static double next_probe(void)
{
    static uint32_t random = 1;
    random = random * 1664525u + 1013904223u;
    return PROBE_MS / 1000.0 * (0.5 + random / 4294967296.0);
}

static void on_probe_due(struct ev_loop *on, ev_timer *timer, int events)
{
    static unsigned number;
    char resource[40];
    (void)events;
    timer->repeat = next_probe();
    ev_timer_again(on, timer);
    if (probing)
        return;
    snprintf(resource, sizeof resource, "/0000/probe/%u", number++);
    probing = true;
    probe_started = clock_now();
    if (redlock_acquire_async(client, resource, NULL, on_probe_acquired, NULL) != REDLOCK_OK)
        fail("the probe", "an acquire is not accepted");
}

static void on_over(struct ev_loop *on, ev_timer *timer, int events)
{
    (void)timer, (void)events;
    ev_break(on, EVBREAK_ALL);
}

/* Shows the reader of our output that this process is alive. */
static void on_beat(struct ev_loop *on, ev_timer *timer, int events)
{
    (void)on, (void)timer, (void)events;
    puts("holding");
    fflush(stdout);
}

static void watch(struct phase *watched, double seconds)
{
    ev_timer probe, over, beat;
    ev_timer_init(&beat, on_beat, BEAT_S, BEAT_S);
    ev_timer_init(&probe, on_probe_due, PROBE_MS / 1000.0, PROBE_MS / 1000.0);
    ev_timer_init(&over, on_over, seconds, 0);
    phase = watched;
    uint64_t cpu = clock_cpu(), wall = clock_now();
    ev_now_update(loop);
    ev_timer_start(loop, &probe);
    ev_timer_start(loop, &over);
    ev_timer_start(loop, &beat);
    ev_run(loop, 0);
    ev_timer_stop(loop, &probe);
    ev_timer_stop(loop, &beat);
    phase->cpu = clock_cpu() - cpu;
    phase->wall = clock_now() - wall;
    while (probing)
        ev_run(loop, EVRUN_ONCE);
}

/* -------------------------------------------------------------------------------------------------------- the locks */

static void on_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *data)
{
    (void)lock, (void)loss, (void)validity_ms, (void)data;
    lost += event == REDLOCK_EVENT_LOST;
    failing += event == REDLOCK_EVENT_RENEWAL_FAILING;
}

static void acquire_next(void);

static void on_acquired(redlock_client *from, redlock_lock *lock, const redlock_result *result, void *data)
{
    redlock_result copy = *result;
    (void)from;
    if (!lock)
        fail("a lock was not acquired", redlock_result_text(&copy));
    *(redlock_lock **)data = lock;
    if (++held == wanted)
        ev_break(loop, EVBREAK_ALL);
    acquire_next();
}

static void acquire_next(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    char resource[40];
    if (asked == wanted)
        return;
    options.event = on_event;
    snprintf(resource, sizeof resource, "/0000/held/%08u", asked);
    if (redlock_acquire_async(client, resource, &options, on_acquired, &locks[asked++]) != REDLOCK_OK)
        fail("a lock", "an acquire is not accepted");
}

static void release_next(void);

static void on_released(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from, (void)data;
    not_released += result->status != REDLOCK_OK;
    if (++answered == wanted)
        ev_break(loop, EVBREAK_ALL);
    release_next();
}

static void release_next(void)
{
    if (held > 0 && redlock_release_async(&locks[--held], NULL, on_released, NULL) != REDLOCK_OK)
        fail("a lock", "a release is not accepted");
}

static void take_all(void)
{
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        acquire_next();
    ev_run(loop, 0);
}

static void give_all_back(void)
{
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        release_next();
    ev_run(loop, 0);
}

/* ----------------------------------------------------------------------------------------------------------- client */

static void on_answer(redlock_client *from, const redlock_result *result, void *data)
{
    redlock_result copy = *result;
    (void)from;
    if (result->status != REDLOCK_OK)
        fail(data, redlock_result_text(&copy));
    ev_break(loop, EVBREAK_ALL);
}

static void open_client(const char *nodes, uint32_t ttl_ms)
{
    static char not_ready[] = "the nodes are not ready", not_trusted[] = "the nodes are not trusted";
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_result result;
    options.ttl_ms = ttl_ms;
    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.guard = 1;
    options.allocator = counting_allocator();
    loop = ev_loop_new(EVFLAG_AUTO);
    if (!loop || redlock_attach(loop, nodes, &options, &client, &result) != REDLOCK_OK)
        fail("no client", loop ? redlock_result_text(&result) : "no loop");
    redlock_trust_async(client, NULL, on_answer, not_trusted); /* the servers are new and cannot have lost a lock */
    ev_run(loop, 0);
    redlock_ready_async(client, READY_TIMEOUT_MS, on_answer, not_ready);
    ev_run(loop, 0);
}

static void close_client(void)
{
    static char unconfirmed[] = "closing";
    redlock_close_async(&client, NULL, on_answer, unconfirmed);
    ev_run(loop, 0);
}

static void print_phase(const char *name, const struct phase *of)
{
    printf(" %s=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, name, histogram_quantile(&of->acquire, 0.5),
           histogram_quantile(&of->acquire, 0.99), of->failures, of->cpu, of->wall);
}

int main(int arguments, char **argument)
{
    double seconds;
    unsigned ttl_ms;
    if (arguments != 5 || sscanf(argument[2], "%u", &wanted) != 1 || sscanf(argument[3], "%lf", &seconds) != 1 ||
        sscanf(argument[4], "%u", &ttl_ms) != 1 || wanted == 0 || seconds <= 0) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...] LOCKS SECONDS TTL_MS\n", argument[0]);
        return 2;
    }
    locks = calloc(wanted, sizeof(redlock_lock *));
    if (!locks)
        fail("no memory", "for the handles");
    open_client(argument[1], ttl_ms);
    watch(&idle, seconds / 4 < IDLE_MOST_S ? seconds / 4 : IDLE_MOST_S);
    size_t before = atomic_load(&counting.bytes);
    uint64_t started = clock_now();
    take_all();
    uint64_t taken = clock_now() - started;
    atomic_store(&counting.most, atomic_load(&counting.bytes));
    watch(&holding, seconds);
    size_t most = atomic_load(&counting.most) - before;
    give_all_back();
    close_client();
    printf("hold locks=%u taken=%" PRIu64 " lost=%" PRIu64 " failing=%" PRIu64 " not_released=%u bytes=%zu leaked=%zu",
           wanted, taken, lost, failing, not_released, most, atomic_load(&counting.bytes));
    print_phase("idle", &idle);
    print_phase("holding", &holding);
    printf("\n");
    return 0;
}
