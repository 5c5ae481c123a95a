/* Waiting: an acquire's place in the queue, and its attempts without a message. */
#ifndef RL_ACQUIRE_WAIT_H
#define RL_ACQUIRE_WAIT_H

#include "quorum/retry.h"
#include "src/core/timer.h"
#include "src/lock/names.h"
#include "src/lock/queue.h"

struct rl_acquire;

struct rl_acquire_wait {
    struct rl_acquire *acquire;
    struct quorum_retry retry;
    struct rl_timer pause; /* until the next attempt */
    struct rl_waiter waiter;
    bool keep_waiting; /* although a majority is misconfigured */
};

/* Starts the wait of an acquire with this deadline. true: it must try at once; false: it is queued. */
bool rl_acquire_wait_begin(struct rl_acquire *acquire, quorum_time deadline, bool keep_waiting,
                           const struct rl_names *names);

/* The attempt has failed, and time is left: waits for the next one. */
void rl_acquire_wait_on(struct rl_acquire *acquire);

/* Stops the timer of the next attempt. */
void rl_acquire_wait_stop(struct rl_acquire *acquire);

/* Leaves the queue, with the round that acquired the lock or NULL. */
void rl_acquire_wait_leave(struct rl_acquire *acquire, const struct rl_round *won);

/* The queue that the acquire's attempts go through, or NULL. */
struct rl_queue *rl_acquire_queue(const struct rl_acquire *acquire);

#endif
