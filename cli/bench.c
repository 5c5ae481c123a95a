/* redlock bench: how long locks take on the user's own nodes, and why. */
#include "command.h"
#include "json.h"
#include "message.h"
#include "screen.h"
#include "session.h"
#include "settings.h"
#include "times.h"

#include <redlock/redlock.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_MS = 1000, MOST_MS = 60000, THREADS_MAX = 256, SUFFIX_MAX = 64, NAME_SIZE = REDLOCK_RESOURCE_MAX + 1 };

/* PAUSE: after a failure, so that the bench does not spin. */
enum { PAUSE_US = 10000, SECOND_US = 1000000, PERCENT = 100 };

static bool json;
static int64_t time_ms = 10000;
static struct cli_number threads = {16, 1, THREADS_MAX};

/* Durations that were measured. */
struct samples {
    uint32_t *us; /* microseconds */
    size_t count;
    size_t size;
};

struct bench_node {
    const char *name;
    struct samples round_trip; /* of queries */
    uint64_t failures;         /* queries without a reply in time */
    uint64_t decided;          /* acquires that its reply decided */
    char error[96];            /* of the last failure */
};

struct bench {
    redlock_client *client;
    const char *prefix; /* of the names: RESOURCE */
    redlock_acquire_options options;
    uint32_t nodes;
    uint32_t quorum;
    struct bench_node node[REDLOCK_NODES_MAX];

    /* One thread: each acquire, and the part of it until the reply that decided it; each release. The first two have
     * the same order until they are evaluated. */
    struct samples acquire;
    struct samples wait;
    struct samples release;
    /* The second as a part of the first, in percent: of all acquires, and of the slowest hundredth. */
    unsigned share;
    unsigned tail_share;

    /* Many threads, each with its own resource. */
    struct samples parallel;
    uint64_t parallel_us; /* duration of the phase */
    uint64_t locks;

    uint64_t failed;        /* acquires */
    redlock_result failure; /* the last one */
};

/* --- Samples --- */

/* Drops it without memory, and beyond a million: enough for every quantile here. */
static void samples_add(struct samples *samples, uint64_t us)
{
    enum { FIRST_SIZE = 1024, SAMPLES_MAX = 1 << 20 };

    if (samples->count == samples->size) {
        size_t size = samples->size > 0 ? 2 * samples->size : FIRST_SIZE;
        uint32_t *larger = size <= SAMPLES_MAX ? realloc(samples->us, size * sizeof(*larger)) : NULL;
        if (larger == NULL)
            return;
        samples->us = larger;
        samples->size = size;
    }
    samples->us[samples->count++] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void samples_add_all(struct samples *samples, const struct samples *more)
{
    for (size_t i = 0; i < more->count; i++)
        samples_add(samples, more->us[i]);
}

static int compare_samples(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

static void samples_sort(struct samples *samples)
{
    if (samples->count > 0)
        qsort(samples->us, samples->count, sizeof(*samples->us), compare_samples);
}

/* Of sorted ones: the smallest duration that at least this share of them, from above 0 to 1, does not exceed; 0 without
 * samples. */
static uint64_t samples_quantile(const struct samples *samples, double share)
{
    if (samples->count == 0)
        return 0;
    double rank = ceil(share * (double)samples->count);
    return samples->us[(size_t)rank - 1];
}

static void samples_free(struct samples *samples)
{
    free(samples->us);
    *samples = (struct samples){0};
}

/* --- Time and names --- */

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
static void make_name(const struct bench *bench, char name[NAME_SIZE], unsigned number)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, NAME_SIZE, "%s:%" PRIx64 ":%x:%u", bench->prefix,
             (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, (unsigned)getpid(), number);
}

/* --- Round trips --- */

static void note_reply(struct bench_node *node, const redlock_node_result *result)
{
    if (result->outcome == REDLOCK_NODE_GRANTED && result->latency_us > 0) {
        samples_add(&node->round_trip, result->latency_us);
        return;
    }
    node->failures++;
    snprintf(node->error, sizeof(node->error), "%s", *result->text != '\0' ? result->text : "no reply in time");
}

/* A query waits for every node, and changes nothing. */
static void measure_round_trips(struct bench *bench, int64_t deadline_ms)
{
    char name[NAME_SIZE];
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

/* The last of the counted replies decided. */
static void note_acquire(struct bench *bench, const redlock_result *result, uint64_t took_us)
{
    uint32_t last_us = 0;
    uint32_t last = 0;

    for (uint32_t i = 0; i < result->nodes; i++)
        if (result->node[i].outcome == REDLOCK_NODE_GRANTED && result->node[i].latency_us > last_us) {
            last_us = result->node[i].latency_us;
            last = i;
        }
    bench->node[last].decided++;
    samples_add(&bench->acquire, took_us);
    samples_add(&bench->wait, last_us < took_us ? last_us : took_us);
}

static void measure_one(struct bench *bench, const char *name)
{
    redlock_lock *lock;
    redlock_result result;
    uint64_t began = now_us();

    if (redlock_acquire(bench->client, name, &bench->options, &lock, &result) != REDLOCK_OK) {
        bench->failed++;
        bench->failure = result;
        usleep(PAUSE_US);
        return;
    }
    uint64_t acquired = now_us();
    note_acquire(bench, &result, acquired - began);
    redlock_release(&lock, NULL, NULL);
    samples_add(&bench->release, now_us() - acquired);
}

static void measure_locks(struct bench *bench, unsigned number, int64_t deadline_ms)
{
    char name[NAME_SIZE];

    make_name(bench, name, number);
    do
        measure_one(bench, name);
    while (!is_over(deadline_ms));
}

/* --- Many at once --- */

struct worker {
    pthread_t thread;
    struct bench part; /* its own counts */
    int64_t deadline_ms;
    unsigned number;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    measure_locks(&worker->part, worker->number, worker->deadline_ms);
    return NULL;
}

static void collect(struct bench *bench, struct worker *worker)
{
    bench->locks += worker->part.acquire.count;
    samples_add_all(&bench->parallel, &worker->part.acquire);
    samples_free(&worker->part.acquire);
    samples_free(&worker->part.wait);
    samples_free(&worker->part.release);
    if (worker->part.failed > 0)
        bench->failure = worker->part.failure;
    bench->failed += worker->part.failed;
}

static int measure_parallel(struct bench *bench, int64_t deadline_ms)
{
    struct worker *workers = calloc((size_t)threads.value, sizeof(*workers));
    long started = 0;
    uint64_t began = now_us();

    for (; workers != NULL && started < threads.value; started++) {
        struct worker *worker = &workers[started];
        worker->part = (struct bench){.client = bench->client, .prefix = bench->prefix, .options = bench->options};
        worker->deadline_ms = deadline_ms;
        worker->number = (unsigned)started + 2;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
    }
    for (long i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        collect(bench, &workers[i]);
    }
    bench->parallel_us = now_us() - began;
    free(workers);
    if (started == threads.value)
        return CLI_OK;
    return cli_fail(CLI_SYSTEM, "cannot start %ld threads", threads.value);
}

/* --- All phases --- */

static int connect_majority(struct bench *bench, int64_t ready_ms)
{
    redlock_result result;

    if (redlock_ready(bench->client, ready_ms, &result) != REDLOCK_OK) {
        cli_say("no lock can be acquired: %s; redlock doctor shows the remedy", redlock_result_text(&result));
        return cli_exit_of(&result);
    }
    bench->nodes = result.nodes;
    bench->quorum = result.quorum;
    for (uint32_t i = 0; i < result.nodes; i++)
        bench->node[i].name = result.node[i].name;
    return CLI_OK;
}

static int measure(struct bench *bench, int64_t ready_ms)
{
    int status = connect_majority(bench, ready_ms);
    int64_t began_ms = cli_now_ms();

    if (status != CLI_OK)
        return status;
    measure_round_trips(bench, began_ms + time_ms / 5);
    if (cli_interrupted() == 0)
        measure_locks(bench, 1, began_ms + time_ms * 3 / 5);
    if (cli_interrupted() == 0)
        status = measure_parallel(bench, began_ms + time_ms);
    if (status != CLI_OK || cli_interrupted() != 0 || bench->acquire.count > 0)
        return status;
    cli_say("no lock was acquired: %s; redlock doctor shows the remedy", redlock_result_text(&bench->failure));
    return cli_exit_of(&bench->failure);
}

static void free_samples(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->nodes; i++)
        samples_free(&bench->node[i].round_trip);
    samples_free(&bench->acquire);
    samples_free(&bench->wait);
    samples_free(&bench->release);
    samples_free(&bench->parallel);
}

/* --- Evaluation --- */

static unsigned share_from(const struct bench *bench, uint64_t least_us)
{
    uint64_t waited = 0;
    uint64_t total = 0;

    for (size_t i = 0; i < bench->wait.count && i < bench->acquire.count; i++)
        if (bench->acquire.us[i] >= least_us) {
            waited += bench->wait.us[i];
            total += bench->acquire.us[i];
        }
    return total > 0 ? (unsigned)(waited * PERCENT / total) : 0;
}

/* Sorts a copy: the waits have the same order as the acquires. */
static uint64_t slowest_hundredth(const struct samples *samples)
{
    struct samples copy = {0};

    samples_add_all(&copy, samples);
    samples_sort(&copy);
    uint64_t us = samples_quantile(&copy, 0.99);
    samples_free(&copy);
    return us;
}

/* Sorts everything. */
static void evaluate(struct bench *bench)
{
    bench->share = share_from(bench, 0);
    bench->tail_share = share_from(bench, slowest_hundredth(&bench->acquire));
    for (uint32_t i = 0; i < bench->nodes; i++)
        samples_sort(&bench->node[i].round_trip);
    samples_sort(&bench->acquire);
    samples_sort(&bench->wait);
    samples_sort(&bench->release);
    samples_sort(&bench->parallel);
}

static const char *dominant(unsigned share)
{
    return share >= PERCENT / 2 ? "nodes" : "client";
}

/* The node whose reply decided most acquires. */
static const struct bench_node *deciding_node(const struct bench *bench)
{
    const struct bench_node *most = &bench->node[0];

    for (uint32_t i = 1; i < bench->nodes; i++)
        if (bench->node[i].decided > most->decided)
            most = &bench->node[i];
    return most;
}

static uint64_t locks_per_second(const struct bench *bench)
{
    return bench->parallel_us > 0 ? bench->locks * 1000000 / bench->parallel_us : 0;
}

/* --- For people --- */

static double quantile_ms(const struct samples *samples, double share)
{
    uint64_t us = samples_quantile(samples, share);

    return (double)us / 1e3;
}

static void print_nodes(const struct bench *bench)
{
    int width = (int)strlen("round trips");

    for (uint32_t i = 0; i < bench->nodes; i++)
        width = cli_wider(width, bench->node[i].name);
    printf("%-*s  %12s  %12s  %9s  %9s\n", width, "round trips", "p50", "p99", "replies", "decided");
    for (uint32_t i = 0; i < bench->nodes; i++) {
        const struct bench_node *node = &bench->node[i];
        printf("%-*s  %9.2f ms  %9.2f ms  %9zu  %9" PRIu64 "\n", width, node->name, quantile_ms(&node->round_trip, 0.5),
               quantile_ms(&node->round_trip, 0.99), node->round_trip.count, node->decided);
        if (node->failures > 0) {
            char text[160];
            snprintf(text, sizeof(text), "  %" PRIu64 " without a reply: %s\n", node->failures, node->error);
            cli_print(CLI_DOUBTFUL, 0, text);
        }
    }
}

static void print_row(const char *title, const struct samples *samples)
{
    printf("%-22s  %9.2f ms  %9.2f ms  %9.2f ms  %9.2f ms  %9zu\n", title, quantile_ms(samples, 0.5),
           quantile_ms(samples, 0.9), quantile_ms(samples, 0.99), quantile_ms(samples, 1), samples->count);
}

static void print_conclusion(const struct bench *bench)
{
    const char *name = deciding_node(bench)->name;

    if (bench->share >= PERCENT / 2)
        printf(
            "The nodes dominate: %u %% of an acquire is the wait for the reply that decides, number %u of %u, mostly "
            "of %s.\n",
            bench->share, bench->quorum, bench->nodes, name);
    else
        printf("This machine dominates: only %u %% of an acquire is the wait for replies. It may be busy, or have few "
               "processors.\n",
               bench->share);
    if (dominant(bench->tail_share) != dominant(bench->share))
        printf("In the slowest hundredth %s (%u %%).\n",
               bench->tail_share >= PERCENT / 2 ? "the nodes dominate"
                                                : "this machine dominates: the wait has a smaller part",
               bench->tail_share);
}

static void print_bench(struct bench *bench)
{
    char title[32];

    print_nodes(bench);
    printf("\n%-22s  %12s  %12s  %12s  %12s  %9s\n", "locks", "p50", "p90", "p99", "max", "number");
    print_row("acquire", &bench->acquire);
    print_row("  wait for replies", &bench->wait);
    print_row("release", &bench->release);
    if (bench->locks > 0) {
        snprintf(title, sizeof(title), "acquire, %ld at once", threads.value);
        print_row(title, &bench->parallel);
        printf("\n%ld at once: %" PRIu64 " locks per second\n", threads.value, locks_per_second(bench));
    }
    print_conclusion(bench);
    fflush(stdout);
    if (bench->failed > 0)
        cli_say("%" PRIu64 " acquires failed, the last one with: %s", bench->failed,
                redlock_result_text(&bench->failure));
}

/* --- For programs --- */

static void write_samples(const char *key, const struct samples *samples)
{
    cli_json_object(key);
    cli_json_number("count", (int64_t)samples->count);
    if (samples->count > 0) {
        cli_json_number("p50", (int64_t)samples_quantile(samples, 0.5));
        cli_json_number("p90", (int64_t)samples_quantile(samples, 0.9));
        cli_json_number("p99", (int64_t)samples_quantile(samples, 0.99));
        cli_json_number("max", (int64_t)samples_quantile(samples, 1));
    }
    cli_json_end();
}

static void write_nodes(const struct bench *bench)
{
    cli_json_array("nodes");
    for (uint32_t i = 0; i < bench->nodes; i++) {
        const struct bench_node *node = &bench->node[i];
        cli_json_object(NULL);
        cli_json_text("name", node->name);
        write_samples("round_trip_us", &node->round_trip);
        cli_json_number("decided", (int64_t)node->decided);
        cli_json_number("failures", (int64_t)node->failures);
        cli_json_text("error", node->error);
        cli_json_end();
    }
    cli_json_end();
}

static void write_bench(struct bench *bench)
{
    cli_json_object(NULL);
    cli_json_number("quorum", bench->quorum);
    write_nodes(bench);
    write_samples("acquire_us", &bench->acquire);
    write_samples("wait_us", &bench->wait);
    write_samples("release_us", &bench->release);
    cli_json_object("parallel");
    cli_json_number("threads", threads.value);
    cli_json_number("locks_per_second", (int64_t)locks_per_second(bench));
    write_samples("acquire_us", &bench->parallel);
    cli_json_end();
    cli_json_number("failed", (int64_t)bench->failed);
    cli_json_text("dominated_by", dominant(bench->share));
    cli_json_number("wait_percent", bench->share);
    cli_json_text("slowest_dominated_by", dominant(bench->tail_share));
    cli_json_number("slowest_wait_percent", bench->tail_share);
    cli_json_end();
}

/* --- The command --- */

static int check(const struct cli_arguments *arguments)
{
    if (arguments->count > 1)
        return cli_misused("at most one resource: the beginning of the names to lock");
    if (arguments->count == 1 && !cli_resource_read(arguments->words[0]))
        return CLI_USAGE;
    if (arguments->count == 1 && strlen(arguments->words[0]) > REDLOCK_RESOURCE_MAX - SUFFIX_MAX)
        return cli_misused("the resource's name must have at most %d bytes here", REDLOCK_RESOURCE_MAX - SUFFIX_MAX);
    if (time_ms < LEAST_MS || time_ms > MOST_MS)
        return cli_misused("--time must be from 1 s to 1 min");
    return CLI_OK;
}

static int use(redlock_client *client, const struct cli_arguments *arguments)
{
    static struct bench bench = {.options = REDLOCK_ACQUIRE_OPTIONS_INIT}; /* large */

    bench.client = client;
    bench.prefix = arguments->count == 1 ? arguments->words[0] : "redlock-bench";
    bench.options.ttl_ms = cli_settings.options.ttl_ms;
    bench.options.no_renewal = 1;
    cli_interrupts_catch();
    int status = measure(&bench, 2 * (int64_t)cli_settings.options.connect_timeout_ms + 1000); /* two attempts */
    if (bench.acquire.count > 0) {
        evaluate(&bench);
        (json ? write_bench : print_bench)(&bench);
    }
    free_samples(&bench);
    return status;
}

static const struct cli_option options[] = {
    {'t', "time", "TIME", "measure for this long, from 1s to 1m (10s)", .duration_ms = &time_ms},
    {'p', "parallel", "NUMBER", "threads of the last part, each with its own lock (16)", .number = &threads},
    {0, "json", NULL, "write an object, on one line; durations in microseconds", .flag = &json},
    {0},
};

const struct cli_command cli_command_bench = {
    .name = "bench",
    .arguments = "[RESOURCE]",
    .summary = "Measure round trips and locks on the nodes, and what takes the time",
    .help =
        "It acquires and releases locks of new names that begin with RESOURCE (redlock-bench), and leaves none of them.\n"
        "First it measures the round trip to each node, then the locks of one thread, then those of several at once: this\n"
        "last part loads the nodes.\n"
        "\n"
        "exit status: 0 measured; 69 no quorum of nodes; 78 misconfigured; 64 usage; 71 system error\n",
    .options = options,
    .run = check,
    .use = use,
};
