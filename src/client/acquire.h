/*
 * The acquire operation: attempts, each a round with a new lease, until one is won, the time is over, or waiting does
 * not help.
 *
 * Its files call each other: acquire makes the attempts; acquire_wait waits between them, and starts the next one;
 * acquire_fence settles the fencing token of an attempt that was granted; reentry answers an acquire by a lock that its
 * owner holds already.
 */
#ifndef RL_ACQUIRE_H
#define RL_ACQUIRE_H

#include "quorum/fence.h"
#include "quorum/permits.h"
#include "src/client/acquire_wait.h"
#include "src/client/operation.h"
#include "src/lock/lease.h"
#include "src/lock/round.h"

struct rl_acquire {
    struct rl_operation base; /* its lease is that of the attempt, then of the lock */
    redlock_lock *lock;       /* the handle; NULL until the lock is acquired */
    uint64_t record;          /* the largest fencing record of the nodes that granted */
    uint32_t minimum_validity_ms;
    uint8_t permits; /* of a semaphore; otherwise 0 */
    bool all_answers;
    bool shared;
    bool raising;                /* the attempt's round was won, and another one raises its fencing token */
    bool overdue;                /* the deadline has passed: this attempt is the last */
    bool spared;                 /* the deadline was postponed once, to read replies that had arrived */
    struct rl_lease_terms terms; /* of the lock */
    /* Behind the struct, if the acquire needs them: */
    struct rl_acquire_wait *wait; /* it waits */
    struct quorum_fence *fence;   /* of the attempt, if it wants a fencing token */
    struct quorum_permits *slots; /* of a semaphore */
};

/* For the files named above: */

/* Makes an attempt. */
void rl_acquire_attempt(struct rl_acquire *acquire);

/* The lock is granted: hands it out. */
void rl_acquire_won(struct rl_acquire *acquire, const struct rl_round *round);

/* A majority has handed the lock over to the round's lease. An attempt in progress is given up. */
void rl_acquire_handed(struct rl_acquire *acquire, struct rl_round *round);

/* The attempt has failed: another one follows, or the operation ends. */
void rl_acquire_lost(struct rl_acquire *acquire, int cause);

/* Ends the operation and its place in the queue. */
void rl_acquire_complete(struct rl_acquire *acquire, int status);

/* A node's reply, for a round's replied(). */
void rl_acquire_replied(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply);

#endif
