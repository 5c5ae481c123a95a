/* Releases a handle, or a lock by its token: compare-and-delete on every node that may have the token; on a
 * disconnected one later. Before the end of at_least_ms the keys are set to expire then, instead of being deleted. */
#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/core/escape.h"
#include "src/core/result.h"

/*
 * The release of a late node is on its way. So the operation waits for the node, until it has been silent for
 * silence_limit_ms, which breaks its connection, and at most until the key has expired.
 */
static void release_on_expiry(struct rl_timer *timer)
{
    rl_round_stop_waiting(rl_operation_of_timer(timer)->round, "no reply before the key expired");
}

static void release_overdue(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    uint32_t ttl_ms = operation->lease->ttl_ms ? operation->lease->ttl_ms : operation->client->core.options.max_ttl_ms;
    quorum_time expiry = quorum_time_add(operation->started, ttl_ms * QUORUM_MILLISECOND);
    if (operation->timer.set && operation->timer.due <= expiry) /* the call's deadline, or set already */
        return;
    operation->timer.fire = release_on_expiry;
    rl_timer_set(&operation->client->core.timers, &operation->timer, expiry);
}

/* The handle has ended already. */
static void release_stop(struct rl_operation *operation)
{
    if (operation->round)
        rl_round_go_on(operation->round);
}

static void release_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    (void)returned;
    bool is_cut = operation->status == REDLOCK_TIMED_OUT || operation->status == REDLOCK_CANCELLED;
    size_t used = strlen(result->text);
    if (is_cut && operation->attempts && !operation->client->core.closing)
        snprintf(result->text + used, sizeof result->text - used, "; the release goes on in the background");
    if (operation->status == REDLOCK_OK && operation->lease && operation->attempts)
        result->remaining_ms = (int64_t)(rl_lease_rest(operation->lease) / QUORUM_MILLISECOND);
}

/* The release of one of several handles has no round, and is not one that a majority confirmed. */
static void release_drop(struct rl_operation *operation)
{
    operation->client->core.statistics.released += operation->status == REDLOCK_OK && operation->attempts > 0;
}

static void release_decided(struct rl_round *round)
{
    struct rl_operation *operation = round->owner;
    quorum_duration rest = rl_lease_rest(operation->lease);
    if (round->lease->queueing.awaited)
        rl_queue_expect(round->lease);
    if (round->rules.verdict == QUORUM_WON && rest)
        rl_operation_explain(operation, "done: no other client gets the lock for another %.1f s (at_least_ms)",
                             (double)rest / QUORUM_SECOND);
    rl_operation_end_by_round(round);
}

static bool release_leaves_free(const struct rl_lease *lease)
{
    struct rl_locks *locks = lease->locks;
    if (!rl_lease_is_plain(lease)) /* no node hands it over */
        return false;
    quorum_duration held = quorum_time_since(lease->queueing.held_since, rl_now());
    return quorum_waiting_leaves_free(held, rl_nodes_round_trip(locks->nodes), rl_random_u64(&locks->core->random));
}

/* false: no memory for the round; the operation has ended. */
static bool release_begin(struct rl_operation *operation, bool all_answers)
{
    const struct quorum_terms terms = {.kind = QUORUM_RELEASE, .all_answers = all_answers};
    struct rl_round *round = rl_round_create(operation->lease, RL_COMMAND_RELEASE, terms);
    if (round) {
        round->overdue = release_overdue;
        round->hands_over = !all_answers; /* not by token: the lock may not be held any more */
        round->leaves_free = !all_answers && release_leaves_free(operation->lease);
    }
    return rl_operation_start_round(operation, round, release_decided);
}

/* Waits for every node, so that no request is in flight when the callback runs. */
static void release_token_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    redlock_client *client = operation->client;
    size_t size = arguments->size;
    redlock_result why;
    char bytes[REDLOCK_TOKEN_MAX];
    struct rl_text token = {bytes, 0};
    int status = rl_lock_name_check(arguments->resource, &size, &client->core.options, &why);
    if (!status)
        status = rl_token_read(arguments->token, bytes, &token.size, &why);
    if (!status && rl_leases_find_token(&client->locks, arguments->resource, size, token))
        status = rl_result_fail(&why, REDLOCK_INVALID, "this client holds that lock: release its handle");
    if (status) {
        rl_operation_refuse(operation, &why);
        return;
    }
    operation->lease = rl_lease_create_of(&client->locks, arguments->resource, size, token, &status);
    if (operation->lease)
        release_begin(operation, true);
    else
        rl_operation_complete(operation, status);
}

const struct rl_operation_type rl_release_token = {.size = sizeof(struct rl_operation),
                                                   .is_release = true,
                                                   .start = release_token_start,
                                                   .stop = release_stop,
                                                   .report = release_report,
                                                   .drop = release_drop};

/* Without an operation's memory; or in a close, which has released the lock or leaves it to expire. */
static void release_abandon(const struct rl_arguments *arguments)
{
    struct rl_lease *lease = arguments->lock->lease;
    rl_lease_end_handle(arguments->lock);
    if (lease->handles.count == 0 && !atomic_load(&lease->loss)) {
        rl_lease_keep(lease);
        rl_lease_release_detached(lease);
    }
    rl_lease_unref(lease);
}

static void release_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct rl_lease *lease = arguments->lock->lease;
    bool valid = rl_lease_validity(lease) > 0, lost = atomic_load(&lease->loss);
    rl_lease_end_handle(arguments->lock);
    operation->lease = lease; /* the handle's reference */
    bool ended = lease->handles.count == 0;
    if (ended && !lost) {
        rl_lease_invalidate(lease);
        rl_lease_keep(lease);
        if (!release_begin(operation, false))
            rl_lease_release_detached(lease);
    }
    if (lost && operation->client->core.closing) {
        rl_operation_explain(operation, "%s", rl_client_close_text(operation->client));
        rl_operation_complete(operation, REDLOCK_CANCELLED);
    } else if (lost || !valid) { /* its keys are being undone; those of the next holder are not touched */
        rl_operation_complete(operation, REDLOCK_LOST);
    } else if (!ended) {
        rl_operation_explain(operation, "done: still held by its owner: hold count %u", lease->handles.count);
        rl_operation_complete(operation, REDLOCK_OK);
    }
}

const struct rl_operation_type rl_release = {.size = sizeof(struct rl_operation),
                                             .is_release = true,
                                             .start = release_start,
                                             .abandon = release_abandon,
                                             .stop = release_stop,
                                             .report = release_report,
                                             .drop = release_drop};
