/* The measurement of redlock bench, and its output. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "samples.h"

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

enum { CLI_BENCH_NAME_SIZE = REDLOCK_RESOURCE_MAX + 1 };

struct cli_bench_node {
    const char *name;
    struct cli_samples round_trip; /* of queries */
    uint64_t failures;             /* queries without a reply in time */
    uint64_t decided;              /* acquires that its reply decided */
    char error[96];                /* of the last failure */
};

struct cli_bench {
    redlock_client *client;
    const char *prefix; /* of the names: RESOURCE */
    int64_t time_ms;    /* for the whole measurement */
    int64_t ready_ms;   /* how long a majority may take to connect */
    unsigned threads;   /* of the last phase */
    uint32_t ttl_ms;
    uint32_t nodes;
    uint32_t quorum;
    struct cli_bench_node node[REDLOCK_NODES_MAX];

    /* One thread: each acquire, and the part of it until the reply that decided it; each release. The first two have
     * the same order. */
    struct cli_samples acquire;
    struct cli_samples wait;
    struct cli_samples release;

    /* Many threads, each with its own resource. */
    struct cli_samples parallel;
    uint64_t parallel_us; /* duration of the phase */
    uint64_t locks;

    uint64_t failed;        /* acquires */
    redlock_result failure; /* the last one */
};

/* Measures for time_ms; less if a signal has arrived. Leaves no key. CLI_OK, or the exit status after a message. */
int cli_bench_measure(struct cli_bench *bench);

void cli_bench_print(struct cli_bench *bench);
void cli_bench_write_json(struct cli_bench *bench);

void cli_bench_free(struct cli_bench *bench);

#endif
