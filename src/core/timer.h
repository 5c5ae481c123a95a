/*
 * The library's only clock for durations: monotonic, and it counts suspend, as the nodes' ttls do. Each decision reads it
 * anew.
 *
 * And timers on it. A timer only wakes: its handler reads the clock and decides. All timers of a client
 * share one timerfd, because it counts suspend and ev_timer does not. It is set at most once per loop turn, and only if
 * a timer is due earlier than it is set for: an operation that ends before its deadline costs no system call.
 *
 * The timers form a pairing heap (Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap", 1986). Its links are part of
 * the timers, so setting one cannot fail.
 */
#ifndef RL_TIMER_H
#define RL_TIMER_H

#include <stdbool.h>

#include "quorum/time.h"

quorum_time rl_now(void);

struct rl_timer {
    quorum_time due;
    bool set;
    struct rl_timer *child;               /* the first child, due no earlier */
    struct rl_timer *next;                /* sibling */
    struct rl_timer *previous;            /* sibling; of a first child the parent; NULL in the root */
    void (*fire)(struct rl_timer *timer); /* called once each time it is set; the timer is no longer set then. NULL: the
                                             timer only starts a turn of the loop */
};

struct rl_timers {
    struct rl_timer *root;
    quorum_time firing; /* while rl_timers_fire() runs: its `now`; otherwise 0 */
    quorum_time armed;  /* the time that the descriptor is set for; QUORUM_NEVER: not set */
    int descriptor;     /* timerfd, readable when a timer may be due */
};

/* false: the system refused a descriptor. */
bool rl_timers_open(struct rl_timers *timers);
void rl_timers_close(struct rl_timers *timers);

/* Sets the timer, or moves it. QUORUM_NEVER: stops it. */
void rl_timer_set(struct rl_timers *timers, struct rl_timer *timer, quorum_time due);
void rl_timer_stop(struct rl_timers *timers, struct rl_timer *timer);

/* Fires the timers that are due at `now`. Timers that are set meanwhile wait for the next call. */
void rl_timers_fire(struct rl_timers *timers, quorum_time now);

/* Sets the descriptor for the earliest timer. Call it before the loop sleeps. */
void rl_timers_arm(struct rl_timers *timers);

#endif
