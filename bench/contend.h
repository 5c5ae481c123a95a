/* The contest of bench-contend: what its parent (contend.c) and the clients that call in each way (contend_client.c) share. */
#ifndef BENCH_CONTEND_H
#define BENCH_CONTEND_H

#include <stdatomic.h>
#include <stdbool.h>

#include "histogram.h"
#include "standstill.h"

enum { PROCESSES_MAX = 64 };

/* The record of one process, which only that process writes. */
struct account {
    uint64_t acquired, hand_offs, lost_attempts, failures;
    uint64_t cpu;
    struct histogram waits, running; /* as measured; minus standstills */
    struct histogram hand_overs;     /* from the release by another process until acquired here */
};

struct arena {
    _Atomic unsigned ready;       /* processes that have connected */
    _Atomic uint64_t begin, end;  /* clock; 0: unknown yet */
    _Atomic unsigned holder;      /* the witness: 1 + number of the process that holds the lock, 0: none */
    _Atomic unsigned last_holder; /* 1 + number */
    _Atomic uint64_t released;    /* clock when the last release was called */
    _Atomic uint64_t overlaps;
    struct standstills standstills;
    struct account accounts[PROCESSES_MAX];
};

struct contest {
    const char *nodes;
    unsigned processes, number; /* of a process: its own */
    uint64_t duration, hold;    /* ns */
    enum { BLOCKING, ASYNCHRONOUS, DESCRIPTOR } api;
};

extern struct arena *arena; /* shared memory */

void sleep_until(uint64_t clock);

/* The body of a process: connects, waits for the beginning, and contends until the end. */
void contend(const void *contest);

#endif
