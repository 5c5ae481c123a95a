/* Extend: one round that sets the lock's ttl on the nodes that still have its token. */
#include "src/client/extend.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/clock.h"
#include "src/core/result.h"

struct extend {
    struct rl_operation base;
    struct rl_lease *lease;
    redlock_callback callback;
    void *arg;
};

static void decided(struct rl_round *round)
{
    struct extend *extend = round->owner;
    rl_lease_extended(extend->lease, &round->rules);
    /* A loss or release meanwhile is final, even if the round has won. */
    bool over = atomic_load(&extend->lease->loss) || !extend->lease->listed;
    rl_operation_complete(&extend->base, over ? REDLOCK_LOST : rl_result_status(round->rules.verdict));
}

static void stop(struct rl_operation *operation)
{
    if (operation->round)
        rl_round_cancel(operation->round);
}

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct extend *extend = (struct extend *)operation;
    redlock_client *client = operation->client;
    redlock_callback callback = extend->callback;
    void *arg = extend->arg;
    result->validity_ms = (int64_t)(rl_lease_validity(extend->lease) / QUORUM_MILLISECOND);
    rl_lease_unref(extend->lease);
    callback(client, result, arg);
}

static void drop(struct rl_operation *operation)
{
    struct extend *extend = (struct extend *)operation;
    rl_lease_unref(extend->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

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
                                             rl_lease_is_plain(lease) ? RL_ASK_EXTEND : RL_ASK_KEEP, &terms);
    /* Send the fencing token again: with each further node that stores it, one more node may lose its data. */
    if (round)
        round->fence = rl_lease_own_fence(lease);
    return round;
}

static void begin(struct extend *extend, uint32_t ttl_ms)
{
    struct rl_operation *operation = &extend->base;
    if (rl_lease_validity(extend->lease) == 0) {
        rl_operation_complete(operation, REDLOCK_LOST);
        return;
    }
    operation->round = rl_extend_round(extend->lease, ttl_ms);
    if (!operation->round) {
        rl_operation_complete(operation, REDLOCK_NO_MEMORY);
        return;
    }
    operation->attempts = 1;
    operation->round->owner = extend;
    operation->round->decided = decided;
    rl_round_start(operation->round);
}

int rl_extend_start(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg)
{
    struct rl_lease *lease = lock->lease;
    redlock_client *client = lease->locks->client;
    redlock_result why;
    int created;
    struct extend *extend = (struct extend *)rl_operation_create(client, &type, sizeof *extend, &created);
    if (!extend)
        return created;
    extend->lease = rl_lease_ref(lease);
    extend->callback = callback;
    extend->arg = arg;
    ttl_ms = ttl_ms ? ttl_ms : lease->ttl_ms;
    if (rl_options_check_ttl(&client->core.options, ttl_ms, 1, &why))
        rl_operation_refuse(&extend->base, &why);
    else
        begin(extend, ttl_ms);
    return REDLOCK_OK;
}
