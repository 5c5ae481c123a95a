/*
 * Timers on the one clock. They are wake-ups only: who is woken reads the clock and decides again. All of a client's
 * timers share one timerfd, which counts suspend as ev_timer does not, and which is set at most once per loop turn, and
 * only when something is due earlier than it is set for: an operation that ends before its deadline costs no system
 * call.
 *
 * The order is kept in a pairing heap, whose links are in the timers: setting one cannot fail. (Fredman, Sedgewick,
 * Sleator, Tarjan, "The pairing heap", 1986.) Of those due at the very same moment only the first is in the heap, if it
 * is remembered by the time the others come: 100,000 locks that are renewed at a few thousand moments make a small
 * heap, and most are set and fired at the cost of a link in a list.
 */
#ifndef RL_TIMER_H
#define RL_TIMER_H

#include <stdbool.h>

#include "quorum/time.h"

#define RL_TIMER_MOMENTS 512

/* Of a follower next and previous are those in its leader's list, of which the first has the leader before it. */
struct rl_timer {
    struct rl_timer *child;    /* the first of those that are due later */
    struct rl_timer *next;     /* sibling */
    struct rl_timer *previous; /* sibling, or the parent of a first child; NULL for the root */
    struct rl_timer *follower; /* of a leader: the first that is due when it is, and not in the heap */
    quorum_time due;
    bool set;
    bool follows;                         /* is a follower */
    void (*fire)(struct rl_timer *timer); /* called once per setting, with the timer no longer set */
};

struct rl_timers {
    struct rl_timer *root;
    struct rl_timer *leader[RL_TIMER_MOMENTS]; /* by a hash of its moment: in the heap, or NULL */
    quorum_time firing;                        /* the time rl_timers_fire() was called with, while it runs; else 0 */
    quorum_time armed;                         /* what the descriptor is set for; QUORUM_NEVER: not set */
    int descriptor;                            /* timerfd, readable when something may be due */
};

/* false: no descriptor. */
bool rl_timers_open(struct rl_timers *timers);
void rl_timers_close(struct rl_timers *timers);

/* Sets, or moves. */
void rl_timer_set(struct rl_timers *timers, struct rl_timer *timer, quorum_time due);
void rl_timer_stop(struct rl_timers *timers, struct rl_timer *timer);

/* Fires what is due at `now`. Timers set meanwhile wait for the next call. */
void rl_timers_fire(struct rl_timers *timers, quorum_time now);

/* Sets the descriptor for the earliest timer. Called before the loop sleeps. */
void rl_timers_arm(struct rl_timers *timers);

#endif
