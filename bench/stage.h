/* One group of measurements. The contenders run many short blocks in turn, so that slow changes of the machine
 * affect all of them equally. */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "estimate.h"
#include "proxy.h"

enum { ENTRANTS_MAX = 32, ROUNDS_MAX = 200, LABEL_SIZE = 48, PROXIES_MAX = 2 };

/* A contender as its process is started. */
struct contender {
    char program[LABEL_SIZE]; /* and its variant */
    const char *nodes;
};

/* A contender's result for one block; times in ns. */
struct measurement {
    uint64_t operations, failed, wall, cpu;
    uint64_t acquire_p50, acquire_p99, acquire_worst;
    uint64_t both_p50, both_p99, both_worst;
    uint64_t first; /* CLOCK_MONOTONIC when the first lock was acquired */
    uint64_t again; /* operations whose acquire needed more than one round over the nodes */
};

/* A contender's process with a number of locks in flight. Several entrants may share a process. */
struct entrant {
    char label[LABEL_SIZE];
    unsigned in_flight;
    struct process *process;
    struct measurement rounds[ROUNDS_MAX];
};

struct stage {
    const char *name; /* the group's */
    const char *title;
    bool quick;
    double minutes; /* duration of a group that measures one long period; 0: its default */
    /* Number of rounds after which the contenders are started again; 0: never. Two processes of one program differ by
     * some percent, for as long as they live, because their memory lies elsewhere: small ratios need several. */
    unsigned fresh_every;
    unsigned entrant_count, process_count, round_count;
    struct servers servers; /* of groups that need only these */
    char nodes[NODE_LIST_SIZE];
    struct proxy proxies[PROXIES_MAX]; /* in front of them */
    unsigned proxy_count;
    unsigned long left_over_keys; /* keys that contenders left on the nodes when they ended */
    struct entrant entrants[ENTRANTS_MAX];
    struct process processes[ENTRANTS_MAX];
    struct contender contenders[ENTRANTS_MAX]; /* in these */
};

/* A figure of a block in the reader's unit: microseconds, locks per second. */
typedef double metric_function(const struct measurement *measurement);
metric_function acquire_p50, acquire_p99, acquire_worst, both_p50, both_p99, lock_rate, cpu_per_lock;

/* Starts `count` servers: stage->servers, stage->nodes. */
void stage_open(struct stage *stage, unsigned count);

/* The stage's servers as if each were its round trip (us) away. The list has room for NODE_LIST_SIZE. */
const struct proxy *stage_place(struct stage *stage, const unsigned *round_trips, char *nodes);

/* The same round trip for all servers. */
void stage_place_at(struct stage *stage, unsigned round_trip_us, char *nodes);

/* Starts a contender and waits until it is connected to all nodes. `program` may name a variant: "bench-floor-a",
 * "bench-redlock-async guard". `prefix`: words before the program, e.g. a tracer's, which a NULL ends; NULL: none. */
void contender_start(struct process *process, const char *const *prefix, const char *program, const char *nodes);

/* Starts the program, waits until it is connected to all nodes, and warms it up. `nodes` must stay until the stage is
 * closed. */
struct entrant *stage_enter(struct stage *stage, const char *label, const char *program, const char *nodes,
                            unsigned in_flight);

/* Adds an entrant in the same process, with another number of locks in flight. */
struct entrant *stage_enter_again(struct stage *stage, const char *label, const struct entrant *entrant,
                                  unsigned in_flight);

/* Runs a discarded block of every entrant, after the conditions have changed. */
void stage_warm_up(struct stage *stage);

/* Runs all entrants in turn, in an order that changes from round to round. Quick: a quarter of the rounds. */
void stage_play(struct stage *stage, unsigned rounds, unsigned block_ms);

/* Ends the contenders, counts the keys that they left on the stage's reachable servers, and ends these. The results
 * stay. The second call does nothing. */
void stage_close(struct stage *stage);

void entrant_block(const struct entrant *entrant, uint64_t microseconds, uint64_t operations,
                   struct measurement *measurement);
struct estimate entrant_estimate(const struct stage *stage, const struct entrant *entrant, metric_function *metric);

/* Computed per round, so that both sides of a ratio were measured at almost the same time. */
struct estimate entrant_ratio(const struct stage *stage, const struct entrant *entrant, const struct entrant *base,
                              metric_function *metric);
/* What the contender's process reports of itself: worker.c, contender_state(). */
struct entrant_state {
    long resident_kib;
    unsigned long long allocations, bytes, most_bytes, late_grants;
};

void entrant_state(const struct entrant *entrant, struct entrant_state *state);

uint64_t entrant_failures(const struct stage *stage, const struct entrant *entrant);

#endif
