/* The functions of a client that is measured: acquire a lock on a fresh name, release it.
 *
 * Every kind of contender is a separate program: worker.c (communicates with the driver and records results), one runner,
 * and one file that defines the contender_ functions for that runner. */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

enum {
    LOCK_TTL_MS = 10000,
    /* A round that waits for it is much longer than any noise. */
    NODE_TIMEOUT_MS = 500,
    PATIENT_TIMEOUT_MS = 60000,
};

/* One lock at a time: acquire, release, next name. */
struct slot {
    char resource[40]; /* never used before */
    size_t resource_length;
    uint64_t started;  /* clock when the acquire was called */
    uint64_t acquired; /* clock when the lock was acquired */
    bool again;        /* the acquire needed more than one round over the nodes; the contender sets it */
    void *lock;        /* belongs to the contender */
};

/* Runner async.c: many slots on one event loop. An acquire ends with slot_acquired or slot_failed, a release with
 * slot_released. */
void contender_connect(struct ev_loop *loop, const char *nodes); /* runs the loop until every node is ready */
void contender_acquire(struct slot *slot);
void contender_release(struct slot *slot);
void contender_disconnect(struct ev_loop *loop);
void slot_acquired(struct slot *slot);
void slot_failed(struct slot *slot);
void slot_released(struct slot *slot);

/* A contender that does not wait on the event loop sets it when it connects: waits for replies once and handles them.
 * The runner calls it until the block is over. */
extern void (*contender_turn)(void);

/* Runner blocking.c: one thread per slot. Returns false if the lock was not acquired or not released. */
void contender_open(const char *nodes);
bool contender_lock(struct slot *slot);
bool contender_unlock(struct slot *slot);
void contender_close(void);

/* What it does differently from its default; "": nothing. The program's second argument. */
extern const char *contender_variant;

/* Its memory, without that of hiredis. */
struct contender_state {
    unsigned long long allocations;
    unsigned long long bytes, most_bytes; /* in use, and the maximum; only of the library */
    unsigned long long late_grants;       /* only of the library */
};

void contender_state(struct contender_state *state);

#endif
