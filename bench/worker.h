/* The contender's process as its runner sees it. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

struct slot;

/* One stretch of locking and unlocking. */
struct block {
    unsigned in_flight;  /* slots */
    uint64_t end;        /* no lock is started after this clock */
    uint64_t operations; /* no thread starts more locks than this; 0: no bound */
};

/* What one thread saw of a block. */
struct record {
    struct histogram acquire; /* asked for until held */
    struct histogram both;    /* asked for until given back */
    uint64_t started;         /* locks */
    uint64_t failed;          /* of them, not acquired or not released */
    uint64_t again;           /* of them, acquired in more than one round over the nodes */
    uint64_t first;           /* clock when the first one was held */
};

/* The runner offers: */
void runner_connect(const char *nodes);
void runner_serve(void); /* hands every line of standard input to worker_command; returns at its end */
void runner_start(const struct block *block); /* ends, now or later, by worker_block_over */

/* The worker offers: */
void worker_command(const char *line);
void worker_block_over(const struct record *record);

/* Names the slot anew and starts its clock; false when the block is over. */
bool record_next(struct record *record, const struct block *block, struct slot *slot);
void record_acquired(struct record *record, struct slot *slot);
void record_released(struct record *record, const struct slot *slot);

#endif
