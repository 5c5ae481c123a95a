/*
 * Many processes acquire many resources with fencing tokens. Each process sets its own wall clock to a new value again
 * and again, while nodes are killed, restarted empty, or suspended. No two tokens of one resource may be equal. An
 * acquire that begins after another one has returned must get a larger token.
 *
 * REDLOCK_STORM_ACQUISITIONS: number of acquisitions, without a time limit. By default the test ends after 50,000
 * acquisitions or 15 seconds.
 */
#define _GNU_SOURCE
#include "real/held.h"

#include "src/core/clock.h"
#include "src/core/wall.h"
#include "support/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 16, RESOURCES = 64, TTL_MS = 1000, USUAL = 50000, USUAL_S = 15, LEAST = 2000, SET_EVERY = 100 };

static const int64_t hour_us = INT64_C(3600000000);

/* Memory that all processes share. */
struct record {
    _Atomic uint64_t largest[RESOURCES]; /* largest token that a client has received */
    _Atomic uint64_t acquisitions;
    _Atomic uint64_t raised; /* acquisitions with more than one round */
    _Atomic uint64_t refused_clock;
    _Atomic uint64_t equal, smaller; /* violations */
    atomic_bool over;
    uint64_t slots;           /* a power of two */
    _Atomic uint64_t token[]; /* a hash table; an entry combines token and resource */
};

static struct record *record;
static int64_t ahead_us;

uint64_t rl_wall_us(void)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)((int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000 + ahead_us);
}

static uint64_t wanted(void)
{
    const char *text = getenv("REDLOCK_STORM_ACQUISITIONS");

    return text ? strtoull(text, NULL, 10) : USUAL;
}

static void make_record(void)
{
    uint64_t slots = 1 << 16;

    while (slots < 4 * wanted())
        slots *= 2;
    size_t size = sizeof(*record) + slots * sizeof(record->token[0]);
    record = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(record, MAP_FAILED);
    record->slots = slots;
}

/* Returns false if the resource already had this token. */
static bool enter_token(unsigned resource, uint64_t token)
{
    uint64_t entry = token * RESOURCES + resource;

    for (uint64_t slot = entry * UINT64_C(0x9e3779b97f4a7c15);; slot++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&record->token[slot & (record->slots - 1)], &there, entry))
            return true;
        if (there == entry)
            return false;
    }
}

static void note(unsigned resource, uint64_t begun, const redlock_result *result)
{
    uint64_t token = result->fence, largest = atomic_load(&record->largest[resource]);

    atomic_fetch_add(&record->smaller, token <= begun);
    atomic_fetch_add(&record->equal, !enter_token(resource, token));
    atomic_fetch_add(&record->raised, result->attempts > 1);
    while (largest < token && !atomic_compare_exchange_weak(&record->largest[resource], &largest, token))
        ;
    if (atomic_fetch_add(&record->acquisitions, 1) + 1 >= wanted())
        atomic_store(&record->over, true);
}

static void acquire_one(redlock_client *client, unsigned resource)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_result result;
    redlock_lock *lock;
    char name[32];

    snprintf(name, sizeof(name), DEPLOYMENT_PREFIX "storm-%u", resource);
    options.fence = 1;
    uint64_t begun = atomic_load(&record->largest[resource]);
    if (redlock_acquire(client, name, &options, &lock, &result) == REDLOCK_OK) {
        note(resource, begun, &result);
        redlock_release(&lock, NULL);
    }
    atomic_fetch_add(&record->refused_clock, result.status == REDLOCK_CLOCK);
}

/* Runs in its own process. Sets the clock again and again, to a value from ten hours behind to ten hours ahead. */
static int acquire_many(const char *nodes, unsigned seed)
{
    redlock_options options = held_options(TTL_MS, 1);
    redlock_client *client;
    int failed = 0;

    options.max_ttl_ms = TTL_MS;
    failed += redlock_connect(nodes, &options, &client, NULL) != REDLOCK_OK;
    for (unsigned i = 0; !failed && !atomic_load(&record->over); i++) {
        if (i % SET_EVERY == 0)
            ahead_us = (int64_t)(rand_r(&seed) % 20001 - 10000) * hour_us / 1000;
        acquire_one(client, (unsigned)rand_r(&seed) % RESOURCES);
    }
    if (client)
        redlock_close(&client, NULL);
    return failed;
}

static void start(pid_t *pids, const char *nodes)
{
    pid_t parent = getpid();

    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? acquire_many(nodes, i + 1) : 1);
    }
}

static void trust(const char *nodes)
{
    redlock_options options = held_options(TTL_MS, 1);

    options.max_ttl_ms = TTL_MS;
    struct face *face = held_open_trusted(BLOCKING_FACE, nodes, &options);
    held_close(face);
}

static bool is_over(void *arg)
{
    (void)arg;
    return atomic_load(&record->over);
}

/* Disturbs one node after the other. Each one has time to vote again before the next. */
static unsigned trouble(struct cluster *cluster, uint64_t deadline)
{
    unsigned faults = 0;

    while (!is_over(NULL) && test_now_ns() < deadline) {
        size_t node = faults % HELD_NODES;
        if (faults++ % 3 == 2) {
            cluster_stop(cluster, node);
            wait_until(is_over, NULL, 700);
            cluster_resume(cluster, node);
            wait_until(is_over, NULL, 1000);
        } else {
            cluster_kill(cluster, node);
            wait_until(is_over, NULL, 200);
            cluster_start(cluster, node); /* empty: in quarantine for max_ttl and a second */
            wait_until(is_over, NULL, 3500);
        }
    }
    atomic_store(&record->over, true);
    return faults;
}

START_TEST(tokens_are_unique_and_grow)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    const char *nodes = cluster_nodes_string(cluster);
    bool usual = getenv("REDLOCK_STORM_ACQUISITIONS") == NULL;
    pid_t pids[PROCESSES];

    make_record();
    trust(nodes);
    start(pids, nodes);
    unsigned faults = trouble(cluster, usual ? test_deadline_ns(USUAL_S * 1000) : UINT64_MAX);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    uint64_t acquisitions = atomic_load(&record->acquisitions);
    printf("%llu acquisitions, %llu with more than one round, %llu refused for their clock, %u faults\n",
           (unsigned long long)acquisitions, (unsigned long long)atomic_load(&record->raised),
           (unsigned long long)atomic_load(&record->refused_clock), faults);
    fflush(stdout);
    ck_assert_uint_eq(atomic_load(&record->equal), 0);
    ck_assert_uint_eq(atomic_load(&record->smaller), 0);
    ck_assert_uint_eq(atomic_load(&record->refused_clock), 0);
    ck_assert_uint_ge(acquisitions, usual ? LEAST : wanted());
    ck_assert_uint_ge(atomic_load(&record->raised), PROCESSES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_storm");
    TCase *storm = real_bare_case(suite, "storm");

    tcase_set_timeout(storm, getenv("REDLOCK_STORM_ACQUISITIONS") ? 7200 : 60);
    tcase_add_test(storm, tokens_are_unique_and_grow);
    return real_run(suite, true);
}
