/* Extend: one round that sets the lock's ttl on the nodes that still have its token. */
#include "src/client/extend.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/clock.h"
#include "src/core/result.h"

static void extend_decided(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    struct rl_lease *lease = operation->lease;
    rl_lease_extended(lease, &round->rules);
    /* A loss or release meanwhile is final, even if the round has won. */
    bool over = atomic_load(&lease->loss) || !lease->links.listed;
    rl_operation_complete(operation, over ? REDLOCK_LOST : rl_result_status(round->rules.verdict));
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

struct rl_round *rl_extend_round(struct rl_lease *lease, uint32_t ttl_ms)
{
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .nodes = lease->locks->client->nodes->count,
        .ttl = ttl_ms * QUORUM_MILLISECOND,
        .drift_ppm = lease->locks->client->core.options.drift_ppm,
        .validity_end = atomic_load_explicit(&lease->validity_end, memory_order_acquire),
    };
    struct rl_round *round = rl_round_create(&lease->locks->client->locks, lease,
                                             rl_lease_is_plain(lease) ? RL_COMMAND_EXTEND : RL_COMMAND_KEEP, &terms);
    if (!round)
        return NULL;
    /* Send the fencing token again: with each further node that stores it, one more node may lose its data. */
    round->fence = rl_lease_own_fence(lease);
    rl_lease_note_ttl(lease, ttl_ms);
    return round;
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
        rl_operation_start_round(operation, rl_extend_round(lease, ttl_ms), extend_decided);
}

const struct rl_operation_type rl_extend = {
    .size = sizeof(struct rl_operation), .start = extend_start, .stop = extend_stop, .report = extend_report};
