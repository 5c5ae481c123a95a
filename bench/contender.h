/* What a client must offer to be measured: take a lock on a fresh name, give it back.
 *
 * Every contender is a program of its own: worker.c (talks to the driver, keeps the record), one runner, and one file that
 * defines the contender_ functions of that runner. */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

enum {
    LOCK_TTL_MS = 10000,
    /* So long that a round that waits for it cannot be mistaken for noise. */
    NODE_TIMEOUT_MS = 500,
};

/* One lock at a time, again and again: take, give back, next name. */
struct slot {
    char resource[40]; /* never used before */
    size_t resource_length;
    uint64_t started;  /* clock when the acquire was asked for */
    uint64_t acquired; /* clock when the lock was held */
    bool again;        /* the acquire needed more than one round over the nodes; the contender says so */
    void *lock;        /* the contender's own */
};

/* Runner async.c: on an event loop, many slots at once. Acquire ends by slot_acquired or slot_failed, release by
 * slot_released. */
void contender_connect(struct ev_loop *loop, const char *nodes); /* runs the loop until every node is ready */
void contender_acquire(struct slot *slot);
void contender_release(struct slot *slot);
void contender_disconnect(struct ev_loop *loop);
void slot_acquired(struct slot *slot);
void slot_failed(struct slot *slot);
void slot_released(struct slot *slot);

/* Runner blocking.c: one thread per slot. False: not acquired, or not released. */
void contender_open(const char *nodes);
bool contender_lock(struct slot *slot);
bool contender_unlock(struct slot *slot);
void contender_close(void);

/* How often it has asked for memory itself; what hiredis asks for is not its own. */
unsigned long long contender_allocations(void);

#endif
