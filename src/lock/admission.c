#include "src/lock/admission.h"

#include "src/core/clock.h"
#include "src/lock/locks.h"
#include "src/lock/round.h"

/* Nodes that hang send nothing that would start a turn of the loop. */
#define ADMISSION_CHECK (100 * QUORUM_MILLISECOND)

static void append(struct rl_round *round)
{
    struct rl_waiting_rounds *waiting = &round->locks->waiting;
    rl_fanout_ref(&round->fanout);
    round->next = NULL;
    *(waiting->first ? &waiting->last->next : &waiting->first) = round;
    waiting->last = round;
}

static struct rl_round *take(struct rl_locks *locks)
{
    struct rl_round *round = locks->waiting.first;
    locks->waiting.first = round->next;
    round->next = NULL;
    return round;
}

void rl_round_start(struct rl_round *round)
{
    struct rl_locks *locks = round->locks;
    if (rl_round_is_grant(round) && (locks->waiting.first || rl_nodes_are_crowded(locks->nodes)))
        append(round);
    else
        rl_round_begin(round);
}

void rl_rounds_admit(struct rl_locks *locks)
{
    while (locks->waiting.first && !rl_nodes_are_crowded(locks->nodes)) {
        struct rl_round *round = take(locks);
        if (round->owner && !quorum_round_over(&round->rules))
            rl_round_begin(round);
        rl_fanout_unref(&round->fanout);
    }
    if (locks->waiting.first && !locks->admission_timer.set)
        rl_timer_set(&locks->core->timers, &locks->admission_timer, rl_now() + ADMISSION_CHECK);
}

void rl_rounds_on_admission(struct rl_timer *timer)
{
    (void)timer; /* it only wakes the loop, which calls rl_rounds_admit() */
}

void rl_rounds_drop(struct rl_locks *locks)
{
    rl_timer_stop(&locks->core->timers, &locks->admission_timer);
    while (locks->waiting.first)
        rl_fanout_unref(&take(locks)->fanout);
}
