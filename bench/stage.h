/* One group of measurements. The contenders run many short blocks in turn, so that slow changes of the machine
 * affect all of them equally. */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "estimate.h"
#include "process.h"

enum { ENTRANTS_MAX = 32, ROUNDS_MAX = 200, LABEL_SIZE = 48 };

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
    unsigned entrant_count, process_count, round_count;
    unsigned long left_over_keys; /* keys that contenders left on the nodes when they ended */
    struct entrant entrants[ENTRANTS_MAX];
    struct process processes[ENTRANTS_MAX];
};

/* A figure of a block in the reader's unit: microseconds, locks per second. */
typedef double metric_function(const struct measurement *measurement);
metric_function acquire_p50, acquire_p99, acquire_worst, both_p50, both_p99, lock_rate, cpu_per_lock;

/* Starts the program, waits until it is connected to all nodes, and warms it up. */
struct entrant *stage_enter(struct stage *stage, const char *label, const char *program, const char *nodes,
                            unsigned in_flight);

/* Adds an entrant in the same process, with another number of locks in flight. */
struct entrant *stage_enter_again(struct stage *stage, const char *label, const struct entrant *entrant,
                                  unsigned in_flight);

/* Runs a discarded block of every entrant, after the conditions have changed. */
void stage_warm_up(struct stage *stage);

/* Runs all entrants in turn, in an order that changes from round to round. Quick: a quarter of the rounds. */
void stage_play(struct stage *stage, unsigned rounds, unsigned block_ms);

/* Ends the processes. The results stay. */
void stage_close(struct stage *stage);

void entrant_block(const struct entrant *entrant, uint64_t microseconds, uint64_t operations,
                   struct measurement *measurement);
struct estimate entrant_estimate(const struct stage *stage, const struct entrant *entrant, metric_function *metric);

/* Computed per round, so that both sides of a ratio were measured at almost the same time. */
struct estimate entrant_ratio(const struct stage *stage, const struct entrant *entrant, const struct entrant *base,
                              metric_function *metric);
uint64_t entrant_failures(const struct stage *stage, const struct entrant *entrant);

#endif
