/* Extend: one round that sets the lock's ttl on the nodes that still have its token. Downgrade: one round that turns the
 * writer's key into a reader's where it still has the token. */
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/result.h"

/* A loss or release meanwhile is final, even if the round has won. */
static void end_unless_lost(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    const struct rl_lease *lease = operation->lease;
    bool over = atomic_load(&lease->loss) || !lease->links.listed;
    rl_operation_complete(operation, over ? REDLOCK_LOST : rl_result_status(round->rules.verdict));
}

static void extend_decided(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    rl_lease_extended(operation->lease, &round->rules);
    end_unless_lost(round);
}

/* The requests are on their way: a majority that replies later still extends the lock. */
static void extend_stop(struct rl_operation *operation)
{
    if (!operation->round)
        return;
    operation->round->decided = NULL;
    rl_round_stop_waiting(operation->round, "no reply when the call ended");
}

static void extend_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    (void)returned;
    if (operation->lease) /* it was started */
        result->validity_ms = (int64_t)(rl_lease_validity(operation->lease) / QUORUM_MILLISECOND);
}

static void extend_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_lease *lease = arguments->lock->lease;
    uint32_t ttl_ms = arguments->ttl_ms ? arguments->ttl_ms : rl_lease_ttl_ms(lease);
    redlock_result why;
    operation->lease = rl_lease_ref(lease);
    if (rl_options_check_ttl(&operation->client->core.options, ttl_ms, 1, &why))
        rl_operation_refuse(operation, &why);
    else if (rl_lease_validity(lease) == 0)
        rl_operation_complete(operation, REDLOCK_LOST);
    else
        rl_operation_start_round(operation, rl_round_create_extension(lease, ttl_ms), extend_decided);
}

const struct rl_operation_type rl_extend = {
    .size = sizeof(struct rl_operation), .start = extend_start, .stop = extend_stop, .report = extend_report};

/* Why the lease cannot be a reader's: no other holder of it may rely on being alone. */
static int check_downgrade(const struct rl_lease *lease, redlock_result *why)
{
    if (lease->permits)
        return rl_result_fail(why, REDLOCK_INVALID, "a permit cannot be downgraded: a semaphore has no readers");
    if (!lease->shared && lease->handles.count > 1)
        return rl_result_fail(why, REDLOCK_INVALID,
                              "the owner holds the lock %u times, and each of them relies on a writer's; release the "
                              "others first",
                              lease->handles.count);
    if (!lease->shared && atomic_load(&lease->handles.passed_on))
        return rl_result_fail(why, REDLOCK_INVALID,
                              "the token was adopted, or read by redlock_lock_token(): another process may rely on a "
                              "writer's lock; release it, then acquire it shared");
    return REDLOCK_OK;
}

/*
 * From here on the lock is a reader's: a node may execute the request, and let other readers in, before it replies, or
 * without a reply. It is valid as long as it was: each node excludes writers for as long as it would have, whether it
 * executes the request or not. So its replies change nothing, there is nothing to undo, and whatever the lock sends from
 * now on, renewals too, turns a writer's key that is left on a node into a reader's.
 */
static void downgrade_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_lease *lease = arguments->lock->lease;
    redlock_result why;
    operation->lease = rl_lease_ref(lease);
    if (rl_lease_validity(lease) == 0) {
        rl_operation_complete(operation, REDLOCK_LOST);
        return;
    }
    if (check_downgrade(lease, &why)) {
        rl_operation_refuse(operation, &why);
        return;
    }
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .validity_end = atomic_load_explicit(&lease->validity_end, memory_order_acquire),
    };
    bool was_shared = lease->shared, was_downgraded = lease->downgraded;
    lease->downgraded = was_downgraded || !was_shared;
    lease->shared = true;
    struct rl_round *round = rl_round_create(lease, RL_COMMAND_DOWNGRADE, terms);
    if (!round) { /* no node was sent anything */
        lease->shared = was_shared;
        lease->downgraded = was_downgraded;
    }
    rl_operation_start_round(operation, round, end_unless_lost);
}

const struct rl_operation_type rl_downgrade = {
    .size = sizeof(struct rl_operation), .start = downgrade_start, .stop = extend_stop, .report = extend_report};
