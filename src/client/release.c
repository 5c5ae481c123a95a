/* Releases a handle, or a lock by its token: compare-and-delete on every node that may have the token; on a
 * disconnected one later. */
#include "src/client/release.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/lock/detached.h"

static struct rl_round *create_round(struct rl_lease *lease, bool all_answers)
{
    const struct quorum_terms terms = {
        .kind = QUORUM_RELEASE, .nodes = lease->locks->nodes->count, .all_answers = all_answers};
    return rl_round_create(lease->locks, lease, RL_COMMAND_RELEASE, &terms);
}

static void decided(struct rl_round *round)
{
    rl_operation_complete(round->owner, rl_result_status(round->rules.verdict));
}

/*
 * The release of a late node is on its way. So the operation waits for the node, until it has been silent for
 * silence_limit_ms, which breaks its connection, and at most until the key has expired.
 */
static void on_expiry(struct rl_timer *timer)
{
    rl_round_stop_waiting(rl_operation_of_timer(timer)->round);
}

static void overdue(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    uint32_t ttl_ms = operation->lease->ttl_ms;
    if (operation->timer.set)
        return;
    operation->timer.fire = on_expiry;
    rl_operation_wait(operation, ttl_ms ? ttl_ms : operation->client->core.options.max_ttl_ms);
}

/* The handle has ended already: the round continues without the operation. */
static void stop(struct rl_operation *operation)
{
    if (operation->round)
        operation->round->decided = operation->round->overdue = NULL;
}

/* The release of one of several handles has no round, and is not one that a majority confirmed. */
static void drop(struct rl_operation *operation)
{
    operation->client->core.statistics.released += operation->status == REDLOCK_OK && operation->attempts > 0;
}

static const struct rl_operation_type type = {.size = sizeof(struct rl_operation), .stop = stop, .drop = drop};

/* false: no memory for the round; the operation has ended. */
static bool begin(struct rl_operation *operation, bool all_answers)
{
    struct rl_round *round = create_round(operation->lease, all_answers);
    if (round) {
        round->overdue = overdue;
        round->hands_over = !all_answers; /* not by token: the lock may not be held any more */
    }
    return rl_operation_start_round(operation, round, decided);
}

/* Waits for every node, so that no request is in flight when the callback runs. */
static void begin_token(struct rl_operation *operation, const char *resource, size_t size, struct rl_text token)
{
    int status;
    operation->lease = rl_lease_create_of(&operation->client->locks, resource, size, token, &status);
    if (operation->lease)
        begin(operation, true);
    else
        rl_operation_complete(operation, status);
}

int rl_release_token_start(redlock_client *client, const char *resource, size_t size, const char *text,
                           redlock_callback callback, void *arg)
{
    int created;
    redlock_result why;
    char bytes[REDLOCK_TOKEN_MAX];
    struct rl_text token = {bytes, 0};
    struct rl_operation *operation = rl_operation_create_always(client, &type, callback, arg, &created);
    if (!operation)
        return created;
    int status = rl_lock_name_check(resource, &size, &client->core.options, &why);
    if (!status)
        status = rl_token_read(text, bytes, &token.size, &why);
    if (!status && rl_leases_find_token(&client->locks, resource, size, token))
        status = rl_result_fail(&why, REDLOCK_INVALID, "this client holds that lock: release its handle");
    if (status)
        rl_operation_refuse(operation, &why);
    else
        begin_token(operation, resource, size, token);
    return REDLOCK_OK;
}

/* Frees the lock after its last handle has ended. */
static void free_lock(struct rl_operation *operation)
{
    rl_lease_invalidate(operation->lease);
    if (!begin(operation, false))
        rl_lease_release_detached(operation->lease);
}

void rl_release_lost(redlock_lock *lock)
{
    struct rl_lease *lease = lock->lease;
    rl_lease_end_handle(lock);
    rl_lease_unref(lease);
}

const char *rl_release_close_text(const redlock_client *client)
{
    return client->core.options.leave_locks ? "the client is being closed, which leaves the lock to expire"
                                            : "the client is being closed, which releases the lock";
}

int rl_release_start(redlock_lock *lock, redlock_callback callback, void *arg)
{
    struct rl_lease *lease = lock->lease;
    int created;
    bool valid = rl_lease_validity(lease) > 0, lost = atomic_load(&lease->loss);
    rl_lease_end_handle(lock);
    struct rl_operation *operation = rl_operation_create_always(lease->locks->client, &type, callback, arg, &created);
    bool ended = lease->handles.count == 0;
    if (!operation) {
        if (ended && !lost)
            rl_lease_release_detached(lease);
        rl_lease_unref(lease);
        return created;
    }
    operation->lease = lease; /* the handle's reference */
    if (ended && !lost)
        free_lock(operation);
    if (lost && lease->locks->core->closing) {
        rl_operation_explain(operation, "%s", rl_release_close_text(operation->client));
        rl_operation_complete(operation, REDLOCK_CANCELLED);
    } else if (lost || !valid) { /* its keys are being undone; those of the next holder are not touched */
        rl_operation_complete(operation, REDLOCK_LOST);
    } else if (!ended) {
        rl_operation_explain(operation, "done: still held by its owner: hold count %u", lease->handles.count);
        rl_operation_complete(operation, REDLOCK_OK);
    }
    return REDLOCK_OK;
}
