#include "src/client/reentry.h"

#include <assert.h>
#include <stdatomic.h>

#include "src/client/acquire.h"
#include "src/client/acquire_fence.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/core/result.h"

static void share(struct rl_acquire *acquire)
{
    assert(!acquire->lock && !acquire->permits);
    redlock_client *client = acquire->base.client;
    acquire->lock = rl_lease_share(acquire->base.lease, &acquire->terms);
    client->core.statistics.reentered += acquire->lock != NULL;
    if (acquire->lock && !acquire->base.round)
        rl_operation_explain(&acquire->base,
                             "done: this owner already holds the lock: hold count %u; no request was sent",
                             acquire->base.lease->handles.count);
    rl_operation_complete(&acquire->base, acquire->lock ? REDLOCK_OK : REDLOCK_NO_MEMORY);
}

static bool is_long_enough(const struct rl_acquire *acquire)
{
    return rl_lease_validity(acquire->base.lease) >= acquire->minimum_validity_ms * QUORUM_MILLISECOND;
}

static bool wants_token(const struct rl_acquire *acquire)
{
    return acquire->fence && !acquire->base.lease->fence;
}

static void extend_first(struct rl_acquire *acquire);

static void reentry_decided(struct rl_round *round)
{
    struct rl_acquire *acquire = round->owner;
    rl_lease_extended(acquire->base.lease, &round->rules);
    /* Lost, or all its handles were released meanwhile. */
    if (atomic_load(&acquire->base.lease->loss) || !acquire->base.lease->links.listed)
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
    else if (round->rules.verdict != QUORUM_WON)
        rl_operation_complete(&acquire->base, rl_result_status(round->rules.verdict));
    else if (wants_token(acquire) && !rl_acquire_fence_settle(acquire))
        extend_first(acquire);
    else if (!is_long_enough(acquire))
        rl_operation_complete(&acquire->base, REDLOCK_TOO_SLOW);
    else
        share(acquire);
}

static void extend_first(struct rl_acquire *acquire)
{
    struct rl_operation *operation = &acquire->base;
    rl_round_leave(operation->round);
    struct rl_round *round = rl_extend_round(operation->lease, acquire->terms.ttl_ms);
    if (round && wants_token(acquire)) {
        round->command = RL_COMMAND_KEEP;
        round->fence = acquire->fence->token;
        round->replied = rl_acquire_replied;
    }
    rl_operation_start_round(operation, round, reentry_decided);
}

/* The owner holds the lock already. Re-entry into a lost lock fails, because the outer section has lost its
 * protection. */
static void reenter(struct rl_acquire *acquire, struct rl_lease *lease)
{
    assert(rl_owner_is(lease->owner, acquire->terms.owner));
    rl_round_leave(acquire->base.round); /* of an attempt that has failed */
    acquire->base.round = NULL;
    rl_lease_unref(acquire->base.lease);
    acquire->base.lease = rl_lease_ref(lease);
    if (lease->shared && !acquire->shared) {
        rl_operation_explain(&acquire->base,
                             "an exclusive lock can never be granted: this owner holds it shared; release that first");
        rl_operation_complete(&acquire->base, REDLOCK_INVALID);
        return;
    }
    if (rl_lease_validity(lease) == 0) {
        rl_operation_complete(&acquire->base, REDLOCK_LOST);
        return;
    }
    if (is_long_enough(acquire) && acquire->terms.ttl_ms <= rl_lease_ttl_ms(lease) && !wants_token(acquire)) {
        share(acquire);
        return;
    }
    if (wants_token(acquire))
        rl_acquire_fence_propose(acquire);
    extend_first(acquire);
}

/* ------------------------------------------------------------------------------------ locks that the owner prevents */

/* Refuses a lock that another lock of the owner excludes: the owner would wait for itself. */
static void refuse_own(struct rl_acquire *acquire, const struct rl_lease *own, struct rl_text name)
{
    struct rl_operation *operation = &acquire->base;
    bool is_lost = rl_lease_validity(own) == 0;
    int shown = name.size > 64 ? 64 : (int)name.size;
    if (is_lost)
        rl_operation_explain(operation, "this owner lost its lock on '%.*s'; release the handles of that lock first",
                             shown, name.bytes);
    else
        rl_operation_explain(
            operation,
            "the lock can never be granted: this owner holds '%.*s'%s; release that first, or acquire all of the "
            "resources at once",
            shown, name.bytes, own->shared ? " shared" : "");
    rl_operation_complete(operation, is_lost ? REDLOCK_LOST : REDLOCK_INVALID);
}

static void refuse_permit(struct rl_acquire *acquire)
{
    rl_operation_explain(&acquire->base,
                         "no permit can ever be granted: this owner holds all %u permits; release one first",
                         acquire->permits);
    rl_operation_complete(&acquire->base, REDLOCK_INVALID);
}

bool rl_reentry_decides(struct rl_acquire *acquire, const struct rl_names *names)
{
    struct rl_locks *locks = &acquire->base.client->locks;
    struct rl_owner owner = acquire->terms.owner;
    struct rl_text name;
    if (owner.kind == RL_OWNER_NONE)
        return false;
    if (acquire->permits) { /* each acquire takes another permit */
        if (rl_leases_have_all_permits(locks, names->name[0], acquire->permits, owner))
            refuse_permit(acquire);
        return acquire->base.completed;
    }
    struct rl_lease *own = rl_leases_find_owned(locks, names, owner);
    if (own)
        reenter(acquire, own);
    else if ((own = rl_leases_find_obstacle(locks, names, owner, acquire->shared, &name)) != NULL)
        refuse_own(acquire, own, name);
    return own != NULL;
}
