/*
 * Calls of other threads to the loop's thread: of blocking functions, and of asynchronous ones on a client that owns its
 * loop's thread.
 *
 * In: any thread posts a call to a lock-free stack, and wakes the loop's thread if that polls. Out: the loop's thread
 * runs the calls at the beginning of its turn, oldest first; a call that starts an operation is finished when that has
 * ended, also in a close. What must never happen: a call that is neither run nor refused.
 */
#ifndef RL_CALL_H
#define RL_CALL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "src/client/operation.h"
#include "src/core/wakeup.h"

struct rl_call {
    struct rl_call *next;              /* in the stack */
    void (*run)(struct rl_call *call); /* on the loop's thread; by default rl_call_run_operation() */
    /* The call's end, on the loop's thread. */
    void (*finish)(struct rl_call *call, const struct rl_returned *returned, const redlock_result *result);
    /* Frees a call that will not finish, in a forked child. NULL: it is on the stack of the thread that waits for it. */
    void (*drop)(struct rl_call *call);
    const struct rl_operation_type *type;
    struct rl_arguments arguments;
};

struct rl_calls {
    _Atomic(struct rl_call *) newest; /* posted, newest first */
    struct rl_call *taken;            /* from the stack, oldest first; the loop's thread's */
    struct rl_call *gathered;         /* posted together at the end of a dispatch; newest first */
    struct rl_call *gathered_oldest;
    unsigned sleeps; /* how often the loop's thread fell asleep */
};

/* Posts a call, and wakes the loop's thread if it polls. false: no calls are taken any more. Any thread. */
bool rl_calls_post(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *call);

/* Gathers a call for rl_calls_flush(), so that the calls of one dispatch take one wake-up. The dispatching thread. */
void rl_calls_gather(struct rl_calls *calls, struct rl_call *call);
void rl_calls_flush(struct rl_calls *calls, struct rl_wakeup *wakeup);

/* The loop's thread is about to poll, or has polled. false: calls have not been run, so it must not sleep. */
bool rl_calls_fall_asleep(struct rl_calls *calls, struct rl_wakeup *wakeup);
void rl_calls_wake_up(struct rl_wakeup *wakeup);

/* Runs the posted calls, oldest first, up to a bound per turn. The loop's thread. */
void rl_calls_run(struct rl_calls *calls);

/* The same when the loop has ended: the calls are refused, and later ones cannot be posted. */
void rl_calls_close(struct rl_calls *calls);
bool rl_calls_are_closed(const struct rl_calls *calls);

/* Runs the calls that were gathered when the loop ended. The thread that frees the client. */
void rl_calls_run_gathered(struct rl_calls *calls);

/* Frees the calls that have a drop function and have not been run: in a forked child. The operations free the others. */
void rl_calls_drop(struct rl_calls *calls);

/* Starts the call's operation, which finishes the call. A client that is closing refuses it. */
void rl_call_run_operation(struct rl_call *call);

/* Finishes the call with a status other than OK and its text. */
void rl_call_fail(struct rl_call *call, int status, const char *text);

#endif
