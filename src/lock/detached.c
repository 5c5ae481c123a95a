#include "src/lock/detached.h"

#include <assert.h>
#include <stddef.h>

#include "src/core/clock.h"
#include "src/lock/lease.h"
#include "src/lock/locks.h"
#include "src/lock/round.h"

#define RETRY (10 * QUORUM_MILLISECOND)

/*
 * When a contended attempt fails, most of the other replies are on their way. They also say "held", and such a node
 * needs no undo. So the undos wait for a millisecond. They do not wait if an operation ends, because the loop may never
 * run again, or if a round starts, because the keys could block it.
 */
#define PATIENCE QUORUM_MILLISECOND

static bool try_to_release(struct rl_lease *lease)
{
    const struct quorum_terms terms = {.kind = QUORUM_RELEASE, .nodes = lease->locks->nodes->count};
    if (!lease->may_hold)
        return true;
    struct rl_round *round = rl_round_create(lease->locks, lease, RL_COMMAND_RELEASE, &terms);
    if (!round)
        return false;
    rl_round_begin(round);
    rl_round_leave(round);
    return true;
}

static void release_later(struct rl_lease *lease, quorum_duration delay)
{
    struct rl_locks *locks = lease->locks;
    if (lease->links.unreleased)
        return;
    lease->links.unreleased = true;
    lease->links.next_unreleased = locks->unreleased;
    locks->unreleased = rl_lease_ref(lease);
    if (!locks->release_timer.set)
        rl_timer_set(&locks->core->timers, &locks->release_timer, quorum_time_add(rl_now(), delay));
}

void rl_lease_release_detached(struct rl_lease *lease)
{
    rl_lease_invalidate(lease);
    if (!try_to_release(lease))
        release_later(lease, RETRY);
}

void rl_lease_undo_later(struct rl_lease *lease)
{
    release_later(lease, PATIENCE);
}

static struct rl_lease *take_unreleased(struct rl_locks *locks)
{
    struct rl_lease *lease = locks->unreleased;
    assert(lease->links.unreleased && lease->references > 0);
    locks->unreleased = lease->links.next_unreleased;
    lease->links.unreleased = false;
    return lease;
}

void rl_detached_retry(struct rl_locks *locks)
{
    while (locks->unreleased && try_to_release(locks->unreleased))
        rl_lease_unref(take_unreleased(locks));
    if (locks->unreleased)
        rl_timer_set(&locks->core->timers, &locks->release_timer, rl_now() + RETRY);
}

void rl_detached_on_timer(struct rl_timer *timer)
{
    rl_detached_retry((struct rl_locks *)(void *)((char *)timer - offsetof(struct rl_locks, release_timer)));
}

void rl_detached_drop(struct rl_locks *locks)
{
    while (locks->unreleased) {
        struct rl_lease *lease = take_unreleased(locks);
        locks->pending_undos += quorum_count(lease->may_hold);
        rl_lease_unref(lease);
    }
}
