/*
 * The library's only clock for durations: monotonic, and it counts suspend, as the nodes' ttls do. Each decision reads it
 * anew.
 *
 * And timers on it. A timer only wakes: its handler reads the clock and decides. All timers of a client
 * share one timerfd, because it counts suspend and ev_timer does not. It is set at most once per loop turn, and only if
 * a timer is due earlier than it is set for: an operation that ends before its deadline costs no system call.
 *
 * The timers form a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem",
 * 1990): a timer is in the list of the highest digit (of five bits) in which its time differs from the heap's, and moves to
 * lower lists as that comes closer. Setting and stopping one reads only its neighbours in the list, however many there
 * are: the locks of a client, of which each has a timer, do not fit into the processor's caches. The links are part of
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
    struct rl_timer *next, **link;        /* in its list: the next one, and what points to this one */
    void (*fire)(struct rl_timer *timer); /* called once each time it is set; the timer is no longer set then. NULL: the
                                             timer only starts a turn of the loop */
};

/* Time is divided into blocks of 18 minutes, in which a time has 8 digits. Timers that are due in a later block than the
 * heap's time are in the last list: lists for all 13 digits of 64 bits would be 1.3 KB more for each client. */
#define RL_TIMER_DIGIT_BITS 5
#define RL_TIMER_DIGITS     8
#define RL_TIMER_LATER      (RL_TIMER_DIGITS << RL_TIMER_DIGIT_BITS)
#define RL_TIMER_LISTS      (RL_TIMER_LATER + 1)

struct rl_timers {
    struct rl_timer *list[RL_TIMER_LISTS];     /* by digit, and by its value; that of `base` and digit 0: due now */
    uint64_t used[(RL_TIMER_LISTS + 63) / 64]; /* a bit for each list that has a timer, or had one */
    quorum_time base;                          /* only timers that were overdue when they were set are due before it */
    quorum_time earliest;                      /* no timer is due before it; one that was may have been stopped */
    quorum_time firing;                        /* while rl_timers_fire() runs: its `now`; otherwise 0 */
    quorum_time armed;                         /* the time that the descriptor is set for; QUORUM_NEVER: not set */
    int descriptor;                            /* timerfd, readable when a timer may be due */
};

/* false: the system refused a descriptor. */
bool rl_timers_open(struct rl_timers *timers);
void rl_timers_close(struct rl_timers *timers);

/* Sets the timer, or moves it. QUORUM_NEVER: stops it. */
void rl_timer_set(struct rl_timers *timers, struct rl_timer *timer, quorum_time due);
void rl_timer_stop(struct rl_timer *timer);

/* Fires the timers that are due at `now`, in order; those that were overdue when they were set come first, in any order.
 * Timers that are set meanwhile wait for the next call. */
void rl_timers_fire(struct rl_timers *timers, quorum_time now);

/* Sets the descriptor for the earliest timer. Call it before the loop sleeps. */
void rl_timers_arm(struct rl_timers *timers);

#endif
