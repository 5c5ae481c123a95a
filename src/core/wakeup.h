/*
 * An eventfd that any thread, and a signal handler, may write to wake a client's loop. It is reference-counted and
 * allocated with malloc(3), not with the client's allocator, because a resolver's thread, a cancellation, or a thread
 * that has just posted a call may outlive the client. So what these need of the client is here.
 */
#ifndef RL_WAKEUP_H
#define RL_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>

struct rl_wakeup {
    atomic_uint references;
    int descriptor;        /* eventfd, readable once signalled */
    atomic_uint sleep;     /* not 0: the loop's thread polls or is about to, and no posted call has woken it */
    atomic_bool cancelled; /* a cancellation has changed since the loop looked at its operations */
};

/* NULL: no memory or no descriptor. */
struct rl_wakeup *rl_wakeup_create(void);
struct rl_wakeup *rl_wakeup_ref(struct rl_wakeup *wakeup);
void rl_wakeup_unref(struct rl_wakeup *wakeup);

/* Async-signal-safe; preserves errno. Record the event first, then signal. */
void rl_wakeup_signal(struct rl_wakeup *wakeup);

/* Resets the eventfd. Check for events after this, not before: a later signal would be lost. */
void rl_wakeup_drain(struct rl_wakeup *wakeup);

#endif
