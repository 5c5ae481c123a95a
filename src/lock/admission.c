#include "src/lock/admission.h"

#include <assert.h>

#include "src/core/clock.h"
#include "src/lock/locks.h"
#include "src/lock/round.h"

/* Nodes that hang send nothing that would start a turn of the loop. */
#define ADMISSION_CHECK (100 * QUORUM_MILLISECOND)

void rl_round_start(struct rl_round *round)
{
    struct rl_locks *locks = round->locks;
    if (rl_round_is_grant(round) && (locks->waiting.first || rl_nodes_are_crowded(locks->nodes)))
        rl_round_enlist(round, &locks->waiting);
    else
        rl_round_begin(round);
}

void rl_rounds_admit(struct rl_locks *locks)
{
    while (locks->waiting.first && !rl_nodes_are_crowded(locks->nodes)) {
        struct rl_round *round = locks->waiting.first;
        rl_round_enlist(round, NULL);
        rl_round_begin(round);
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
    assert(!locks->waiting.first); /* their operations have ended */
}
