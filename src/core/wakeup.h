/*
 * A bell that any thread, and a signal handler, may ring to wake a client's loop. Counted, so that a ringer (a
 * resolver's thread, a cancellation) may outlive the client; its memory is therefore malloc's, not the client's.
 */
#ifndef RL_WAKEUP_H
#define RL_WAKEUP_H

#include <stdatomic.h>

struct rl_wakeup {
    atomic_uint references;
    int descriptor; /* eventfd, readable when rung */
};

/* NULL: no memory or no descriptor. */
struct rl_wakeup *rl_wakeup_create(void);
struct rl_wakeup *rl_wakeup_ref(struct rl_wakeup *wakeup);
void rl_wakeup_unref(struct rl_wakeup *wakeup);

/* Async-signal-safe; keeps errno. */
void rl_wakeup_signal(struct rl_wakeup *wakeup);

/* Makes it quiet again. What was to be seen by the ring is to be looked at after this. */
void rl_wakeup_drain(struct rl_wakeup *wakeup);

#endif
