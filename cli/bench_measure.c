#include "bench.h"

#include "command.h"
#include "message.h"
#include "moment.h"
#include "session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* PAUSE: after a failure, so that the bench does not spin. */
enum { PAUSE_US = 10000, SECOND_US = 1000000 };

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_US + (uint64_t)now.tv_nsec / 1000;
}

static bool is_over(int64_t deadline_ms)
{
    return cli_interrupted() != 0 || cli_now_ms() >= deadline_ms;
}

/* A name that no other client uses: a lock of that name cannot be held. */
static void make_name(const struct cli_bench *bench, char name[CLI_BENCH_NAME_SIZE], unsigned number)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, CLI_BENCH_NAME_SIZE, "%s:%" PRIx64 ":%x:%u", bench->prefix,
             (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, (unsigned)getpid(), number);
}

/* --- Round trips --- */

static void note_reply(struct cli_bench_node *node, const redlock_node_result *result)
{
    if (result->outcome == REDLOCK_NODE_GRANTED && result->latency_us > 0) {
        cli_samples_add(&node->round_trip, result->latency_us);
        return;
    }
    node->failures++;
    snprintf(node->error, sizeof(node->error), "%s", *result->text != '\0' ? result->text : "no reply in time");
}

/* A query waits for every node, and changes nothing. */
static void measure_round_trips(struct cli_bench *bench, int64_t deadline_ms)
{
    char name[CLI_BENCH_NAME_SIZE];
    redlock_state state;
    redlock_result result;

    make_name(bench, name, 0);
    do {
        if (redlock_query(bench->client, name, 0, NULL, &state, &result) != REDLOCK_OK)
            usleep(PAUSE_US);
        for (uint32_t i = 0; i < result.nodes; i++)
            note_reply(&bench->node[i], &result.node[i]);
    } while (!is_over(deadline_ms));
}

/* --- Locks --- */

static int acquire(const struct cli_bench *bench, const char *name, redlock_lock **lock, redlock_result *result)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = bench->ttl_ms;
    options.no_renewal = 1;
    return redlock_acquire(bench->client, name, &options, lock, result);
}

static void note_failure(struct cli_bench *bench, const redlock_result *result)
{
    bench->failed++;
    bench->failure = *result;
}

/* The last of the counted replies decided. */
static void note_acquire(struct cli_bench *bench, const redlock_result *result, uint64_t took_us)
{
    uint32_t last_us = 0;
    uint32_t last = 0;

    for (uint32_t i = 0; i < result->nodes; i++)
        if (result->node[i].outcome == REDLOCK_NODE_GRANTED && result->node[i].latency_us > last_us) {
            last_us = result->node[i].latency_us;
            last = i;
        }
    bench->node[last].decided++;
    cli_samples_add(&bench->acquire, took_us);
    cli_samples_add(&bench->wait, last_us < took_us ? last_us : took_us);
}

static void measure_one(struct cli_bench *bench, const char *name)
{
    redlock_lock *lock;
    redlock_result result;
    uint64_t began = now_us();

    if (acquire(bench, name, &lock, &result) != REDLOCK_OK) {
        note_failure(bench, &result);
        usleep(PAUSE_US);
        return;
    }
    uint64_t acquired = now_us();
    note_acquire(bench, &result, acquired - began);
    redlock_release(&lock, NULL, NULL);
    cli_samples_add(&bench->release, now_us() - acquired);
}

static void measure_alone(struct cli_bench *bench, int64_t deadline_ms)
{
    char name[CLI_BENCH_NAME_SIZE];

    make_name(bench, name, 1);
    do
        measure_one(bench, name);
    while (!is_over(deadline_ms));
}

/* --- Many at once --- */

struct worker {
    pthread_t thread;
    struct cli_bench part; /* its own counts */
    int64_t deadline_ms;
    unsigned number;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    char name[CLI_BENCH_NAME_SIZE];

    make_name(&worker->part, name, worker->number);
    do
        measure_one(&worker->part, name);
    while (!is_over(worker->deadline_ms));
    return NULL;
}

static void collect(struct cli_bench *bench, struct worker *worker)
{
    bench->locks += worker->part.acquire.count;
    cli_samples_join(&bench->parallel, &worker->part.acquire);
    cli_samples_free(&worker->part.wait);
    cli_samples_free(&worker->part.release);
    if (worker->part.failed > 0)
        bench->failure = worker->part.failure;
    bench->failed += worker->part.failed;
}

static int measure_parallel(struct cli_bench *bench, int64_t deadline_ms)
{
    struct worker *workers = calloc(bench->threads, sizeof(*workers));
    unsigned started = 0;
    uint64_t began = now_us();

    for (; workers != NULL && started < bench->threads; started++) {
        struct worker *worker = &workers[started];
        worker->part = (struct cli_bench){.client = bench->client, .prefix = bench->prefix, .ttl_ms = bench->ttl_ms};
        worker->deadline_ms = deadline_ms;
        worker->number = started + 2;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        collect(bench, &workers[i]);
    }
    bench->parallel_us = now_us() - began;
    free(workers);
    if (started == bench->threads)
        return CLI_OK;
    return cli_fail(CLI_SYSTEM, "cannot start %u threads", bench->threads);
}

/* --- All phases --- */

static int connect_majority(struct cli_bench *bench)
{
    redlock_result result;

    if (redlock_ready(bench->client, bench->ready_ms, &result) != REDLOCK_OK) {
        cli_say("no lock can be acquired: %s; redlock doctor shows the remedy", redlock_result_text(&result));
        return cli_exit_of(&result);
    }
    bench->nodes = result.nodes;
    bench->quorum = result.quorum;
    for (uint32_t i = 0; i < result.nodes; i++)
        bench->node[i].name = result.node[i].name;
    return CLI_OK;
}

int cli_bench_measure(struct cli_bench *bench)
{
    int status = connect_majority(bench);
    int64_t began_ms = cli_now_ms();

    if (status != CLI_OK)
        return status;
    measure_round_trips(bench, began_ms + bench->time_ms / 5);
    if (cli_interrupted() == 0)
        measure_alone(bench, began_ms + bench->time_ms * 3 / 5);
    if (cli_interrupted() == 0)
        status = measure_parallel(bench, began_ms + bench->time_ms);
    if (status != CLI_OK || cli_interrupted() != 0 || bench->acquire.count > 0)
        return status;
    cli_say("no lock was acquired: %s; redlock doctor shows the remedy", redlock_result_text(&bench->failure));
    return cli_exit_of(&bench->failure);
}

void cli_bench_free(struct cli_bench *bench)
{
    for (uint32_t i = 0; i < bench->nodes; i++)
        cli_samples_free(&bench->node[i].round_trip);
    cli_samples_free(&bench->acquire);
    cli_samples_free(&bench->wait);
    cli_samples_free(&bench->release);
    cli_samples_free(&bench->parallel);
}
