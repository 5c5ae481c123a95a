/*
 * The queue of calls from other threads to the loop's thread: of blocking functions, and of asynchronous functions on a
 * client that owns its loop's thread. A call has its arguments, and starts an operation on the loop's thread.
 */
#ifndef RL_CALLS_H
#define RL_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"
#include "src/client/operation.h"
#include "src/core/wakeup.h"

struct rl_call {
    struct rl_call *next;                /* in the queue, or of the started calls */
    struct rl_call *previous;            /* of the started calls */
    void (*start)(struct rl_call *call); /* runs on the loop's thread */
    /* The call's end, on the loop's thread. result: NULL for a call that waits for no node. */
    void (*finish)(struct rl_call *call, int status, const redlock_result *result);
    /* Frees a call that will not finish, in a forked child. NULL: it is on the stack of the thread that waits for it. */
    void (*drop)(struct rl_call *call);
    redlock_client *client;
    const char *resource;
    const char *token;
    size_t size;
    int64_t wait_ms;
    uint32_t ttl_ms;
    const redlock_acquire_options *options;
    struct rl_caller caller;
    redlock_lock *lock;   /* the argument; after an acquire the handle */
    redlock_state *state; /* of a query; may be NULL */
    int loss;             /* of a wait for a loss */
};

struct rl_calls {
    _Atomic(struct rl_call *) newest; /* a lock-free stack, newest first */
    atomic_bool asleep;               /* the loop's thread polls or is about to: a call must wake it */
    struct rl_call *gathered;         /* pushed together at the end of a dispatch; newest first */
    struct rl_call *gathered_oldest;
    struct rl_call *started; /* those with a drop function */
};

/* Queues a call, and wakes the loop's thread if it polls. false: the queue is closed. Any thread. */
bool rl_calls_push(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *call);

/* Keeps a call for rl_calls_flush(), so that the calls of one dispatch take one wake-up. The dispatching thread. */
void rl_calls_gather(struct rl_calls *calls, struct rl_call *call);
void rl_calls_flush(struct rl_calls *calls, struct rl_wakeup *wakeup);

/* The loop's thread is about to poll, or has polled. false: calls are queued, so it must not sleep. */
bool rl_calls_fall_asleep(struct rl_calls *calls);
void rl_calls_wake_up(struct rl_calls *calls);

/* Starts the queued calls, oldest first. The loop's thread. */
void rl_calls_start(struct rl_calls *calls);

/* The same when the loop has ended: the calls are refused, and later ones cannot be queued. */
void rl_calls_close(struct rl_calls *calls);
bool rl_calls_are_closed(const struct rl_calls *calls);

/* Starts the calls that were gathered when the queue was closed. The thread that frees the client. */
void rl_calls_start_gathered(struct rl_calls *calls);

/* A call with a drop function has finished. The loop's thread. */
void rl_calls_finished(struct rl_calls *calls, struct rl_call *call);

/* Frees the calls that have a drop function: in a forked child. */
void rl_calls_drop(struct rl_calls *calls);

/* The start functions of the operations. A client that is closing refuses them, except the release of a handle. */
void rl_call_ready(struct rl_call *call);
void rl_call_acquire(struct rl_call *call);
void rl_call_adopt(struct rl_call *call);
void rl_call_release_token(struct rl_call *call);
void rl_call_extend(struct rl_call *call);
void rl_call_release(struct rl_call *call);
void rl_call_trust(struct rl_call *call);
void rl_call_inspect(struct rl_call *call);
void rl_call_query(struct rl_call *call);
void rl_call_watch(struct rl_call *call);

/* Finishes the call with a status other than OK and its text. */
void rl_call_fail(struct rl_call *call, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
