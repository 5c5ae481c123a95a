/* Many clients in one process: bench-fleet NODES COUNT attached|blocking, or bench-fleet NODES 1 trust|probe.
 *
 * Prints "ready BYTES" when all clients are ready: resident memory for each, threads included. Then it obeys the lines of
 * its input: "hold" acquires a lock for each client, and prints "held"; "latency" prints the probe's median and p99 since
 * the last such line, in ns, and the number of failures. The end of the input ends it. */
#include <ev.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <redlock/redlock.h>

#include "clock.h"
#include "histogram.h"

enum { PROBE_MS = 4 };

static struct ev_loop *loop; /* NULL: each client has its own */
static redlock_client **clients;
static redlock_lock **locks;
static unsigned count, awaited;
static struct histogram acquires; /* of the probe */
static uint64_t began, failures;
static bool probing;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "fleet: %s: %s\n", what, why);
    exit(1);
}

static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        fail("/proc/self/statm", "cannot be read");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

/* ---------------------------------------------------------------------------------------------------------- clients */

static void on_ready(redlock_client *client, const redlock_result *result, void *arg)
{
    redlock_result copy = *result;
    (void)client, (void)arg;
    if (result->status != REDLOCK_OK)
        fail("a client", redlock_result_text(&copy));
    if (--awaited == 0)
        ev_break(loop, EVBREAK_ALL);
}

static bool all_nodes_ready(void)
{
    redlock_node_status status;
    for (unsigned i = 0; i < count; i++)
        for (uint32_t node = 0; node < redlock_nodes(clients[i]); node++)
            if (redlock_node_status_get(clients[i], node, &status) != REDLOCK_OK || strcmp(status.state, "ready") != 0)
                return false;
    return true;
}

static void open_clients(const char *nodes)
{
    redlock_result result;
    for (unsigned i = 0; i < count; i++) {
        int status = loop ? redlock_attach(loop, nodes, NULL, &clients[i], &result)
                          : redlock_connect(nodes, NULL, &clients[i], &result);
        if (status != REDLOCK_OK)
            fail("a client", redlock_result_text(&result));
    }
    while (!all_nodes_ready())
        if (loop)
            ev_run(loop, EVRUN_ONCE);
        else
            usleep(1000);
}

static void on_held(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    redlock_result copy = *result;
    (void)client;
    if (!lock)
        fail("a lock", redlock_result_text(&copy));
    *(redlock_lock **)arg = lock;
    if (--awaited == 0)
        say("held");
}

static void hold(void)
{
    redlock_result result;
    char name[32];
    awaited = count;
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "/0000/fleet/%u/%d", i, (int)getpid());
        if (loop ? redlock_acquire_async(clients[i], name, NULL, on_held, &locks[i]) != REDLOCK_OK
                 : redlock_acquire(clients[i], name, NULL, &locks[i], &result) != REDLOCK_OK)
            fail("a lock", loop ? "an acquire is not accepted" : redlock_result_text(&result));
    }
    if (!loop)
        say("held");
}

/* ------------------------------------------------------------------------------------------------------------ probe */

static void on_released(redlock_client *client, const redlock_result *result, void *arg)
{
    (void)client, (void)arg;
    failures += result->status != REDLOCK_OK;
    probing = false;
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    (void)client, (void)arg, (void)result;
    histogram_add(&acquires, clock_now() - began);
    if (lock && redlock_release_async(&lock, NULL, on_released, NULL) == REDLOCK_OK)
        return;
    failures++;
    probing = false;
}

static void on_probe(struct ev_loop *on, ev_timer *timer, int events)
{
    static unsigned number;
    char name[32];
    (void)on, (void)timer, (void)events;
    if (probing)
        return;
    snprintf(name, sizeof name, "/0000/probe/%u", number++);
    probing = true;
    began = clock_now();
    if (redlock_acquire_async(clients[0], name, NULL, on_acquired, NULL) != REDLOCK_OK)
        fail("the probe", "an acquire is not accepted");
}

/* The servers are new and cannot have lost a lock. */
static void trust_nodes(void)
{
    awaited = 1;
    if (redlock_trust_async(clients[0], NULL, on_ready, NULL) != REDLOCK_OK)
        fail("the nodes", "they cannot be trusted");
    ev_run(loop, 0);
}

static void start_probe(void)
{
    static ev_timer timer;
    ev_timer_init(&timer, on_probe, 0, PROBE_MS / 1000.0);
    ev_timer_start(loop, &timer);
}

static void report_latency(void)
{
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", histogram_quantile(&acquires, 0.5),
           histogram_quantile(&acquires, 0.99), failures);
    fflush(stdout);
    histogram_clear(&acquires);
    failures = 0;
}

/* ----------------------------------------------------------------------------------------------------------- course */

static void obey(const char *line)
{
    if (strcmp(line, "hold\n") == 0)
        hold();
    else if (strcmp(line, "latency\n") == 0)
        report_latency();
    else
        fail("not understood", line);
}

static void on_input(struct ev_loop *on, ev_io *watcher, int events)
{
    static char line[32];
    static size_t used;
    (void)watcher, (void)events;
    ssize_t got = read(STDIN_FILENO, line + used, 1);
    if (got <= 0) {
        ev_break(on, EVBREAK_ALL);
    } else if (line[used++] == '\n' || used == sizeof line - 1) {
        line[used] = '\0';
        used = 0;
        obey(line);
    }
}

static void run(void)
{
    ev_io input;
    char line[32];
    while (!loop && fgets(line, sizeof line, stdin))
        obey(line);
    if (!loop)
        return;
    ev_io_init(&input, on_input, STDIN_FILENO, EV_READ);
    ev_io_start(loop, &input);
    ev_run(loop, 0);
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int arguments, char **argument)
{
    if (arguments != 4 || sscanf(argument[2], "%u", &count) != 1 || count == 0) {
        fprintf(stderr, "usage: %s NODES COUNT attached|blocking|trust|probe\n", argument[0]);
        return 2;
    }
    allow_descriptors();
    clients = calloc(count, sizeof(redlock_client *));
    locks = calloc(count, sizeof(redlock_lock *));
    if (strcmp(argument[3], "blocking") != 0)
        loop = ev_loop_new(EVFLAG_AUTO);
    long before = resident();
    open_clients(argument[1]);
    if (strcmp(argument[3], "trust") == 0)
        trust_nodes();
    if (strcmp(argument[3], "probe") == 0)
        start_probe();
    printf("ready %ld\n", (resident() - before) / (long)count);
    fflush(stdout);
    run();
    while (probing) /* it leaves no key */
        ev_run(loop, EVRUN_ONCE);
    return 0; /* the held locks expire with their ttl: nothing waits for them */
}
