/* The contender's process, for its runner. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

struct slot;

/* One period of acquiring and releasing locks. */
struct block {
    unsigned in_flight;  /* slots */
    uint64_t end;        /* no lock is started after this time */
    uint64_t operations; /* maximum number of locks that a thread starts; 0: no limit */
};

/* The results of one thread in a block. */
struct record {
    struct histogram acquire; /* from the call until the lock is held */
    struct histogram both;    /* from the call until the release */
    uint64_t started;         /* locks */
    uint64_t failed;          /* number of these that were not acquired or not released */
    uint64_t again;           /* number of these that needed more than one round over the nodes */
    uint64_t first;           /* clock when the first one was acquired */
};

/* Defined by the runner: */
void runner_connect(const char *nodes);
void runner_serve(void); /* passes every line of standard input to worker_command; returns at end of file */
void runner_start(const struct block *block); /* calls worker_block_over at its end, now or later */

/* Defined by the worker: */
void worker_command(const char *line);
void worker_block_over(const struct record *record);

/* Gives the slot a new name and starts its clock. Returns false if the block is over. */
bool record_next(struct record *record, const struct block *block, struct slot *slot);
void record_acquired(struct record *record, struct slot *slot);
void record_released(struct record *record, const struct slot *slot);

#endif
