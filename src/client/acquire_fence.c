#include "src/client/acquire_fence.h"

#include <assert.h>

#include "src/client/acquire.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/core/wall.h"
#include "src/lock/detached.h"

void rl_acquire_fence_propose(struct rl_acquire *acquire)
{
    assert(acquire->fence);
    redlock_client *client = acquire->base.client;
    quorum_fence_init(acquire->fence, client->nodes->count, &client->fence_clock, rl_wall_us(), rl_now());
}

bool rl_acquire_fence_settle(struct rl_acquire *acquire)
{
    assert(acquire->fence);
    const struct quorum_fence_event event = {.type = QUORUM_FENCE_CONFIRMED};
    bool settled = quorum_fence_step(acquire->fence, &event) == QUORUM_FENCE_SETTLED;
    quorum_fence_learn(&acquire->base.client->fence_clock, acquire->fence);
    if (settled)
        acquire->base.lease->fence = acquire->fence->token;
    return settled;
}

/* Gives up a granted lock. The undo follows all its requests. */
static void give_up_lock(struct rl_acquire *acquire, int cause)
{
    acquire->raising = false;
    rl_lease_release_detached(acquire->base.lease);
    rl_acquire_lost(acquire, cause);
}

static void raised(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    quorum_duration least = acquire->minimum_validity_ms * QUORUM_MILLISECOND;
    enum quorum_verdict verdict = round->rules.verdict;
    if (verdict == QUORUM_LOST_GONE) /* it expired meanwhile */
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else if (verdict != QUORUM_WON)
        give_up_lock(acquire, rl_result_status(verdict));
    else if (quorum_time_until(round->rules.validity_end, rl_now()) < least)
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else
        rl_acquire_fence_confirm(acquire, round);
}

/* Sends the larger token with an extension. */
static void raise_token(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    struct rl_locks *locks = &operation->client->locks;
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .nodes = locks->nodes->count,
        .ttl = acquire->terms.ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = locks->core->options.drift_ppm,
        .validity_end = operation->round->rules.validity_end,
    };
    struct rl_round *round = rl_round_create(locks, operation->lease, RL_COMMAND_KEEP, &terms);
    acquire->raising = round != NULL;
    if (!round) {
        rl_lease_release_detached(operation->lease);
        rl_acquire_complete(acquire, REDLOCK_NO_MEMORY);
        return;
    }
    round->fence = acquire->fence->token;
    round->replied = rl_acquire_replied;
    rl_round_leave(operation->round);
    rl_operation_start_round(operation, round, raised);
}

void rl_acquire_fence_confirm(struct rl_acquire *acquire, const struct rl_round *round)
{
    assert(round->rules.verdict == QUORUM_WON);
    if (acquire->shared)
        acquire->base.lease->fence = acquire->record; /* readers get the last writer's token */
    if (!acquire->fence || rl_acquire_fence_settle(acquire))
        rl_acquire_won(acquire, round);
    else if (acquire->overdue) /* the deadline has passed while the last answers were awaited */
        give_up_lock(acquire, REDLOCK_TOO_SLOW);
    else
        raise_token(acquire);
}
