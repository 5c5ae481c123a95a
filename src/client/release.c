/* Releases a handle, or a lock by its token: compare-and-delete on every node that may have the token; on a
 * disconnected one later. */
#include <stddef.h>
#include <stdio.h>

#include "src/client/client.h"
#include "src/client/release.h"
#include "src/core/clock.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/lock/detached.h"

struct release {
    struct rl_operation base;
    struct rl_lease *lease;    /* a reference */
    redlock_callback callback; /* may be NULL */
    void *arg;
};

static struct rl_round *create_round(struct rl_lease *lease)
{
    const struct quorum_terms terms = {.kind = QUORUM_RELEASE, .nodes = lease->locks->nodes->count};
    return rl_round_create(lease->locks, lease, RL_ASK_RELEASE, &terms);
}

static void decided(struct rl_round *round)
{
    struct release *release = round->owner;
    rl_operation_complete(&release->base, rl_result_status(round->rules.verdict));
}

/*
 * The release of a late node is on its way. So the operation waits for the node, until it has been silent for
 * silence_limit_ms, which breaks its connection, and at most until the key has expired.
 */
static void on_expiry(struct rl_timer *timer)
{
    struct rl_operation *operation =
        (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
    rl_round_stop_waiting(operation->round);
}

static void overdue(struct rl_round *round)
{
    struct release *release = round->owner;
    struct rl_operation *operation = &release->base;
    uint32_t ttl_ms = release->lease->ttl_ms;
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

static void tell(struct rl_operation *operation, redlock_result *result)
{
    struct release *release = (struct release *)operation;
    redlock_client *client = operation->client;
    redlock_callback callback = release->callback;
    void *arg = release->arg;
    client->core.statistics.released += result->status == REDLOCK_OK;
    rl_lease_unref(release->lease);
    if (callback)
        callback(client, result, arg);
}

static void drop(struct rl_operation *operation)
{
    struct release *release = (struct release *)operation;
    rl_lease_unref(release->lease);
}

static const struct rl_operation_type type = {stop, tell, NULL, NULL, drop};

/* Waits for every node, so that no request is in flight when the callback runs. */
static struct rl_round *create_token_round(struct rl_lease *lease)
{
    const struct quorum_terms terms = {
        .kind = QUORUM_RELEASE, .nodes = lease->locks->client->nodes->count, .all_answers = true};
    return rl_round_create(lease->locks, lease, RL_ASK_RELEASE, &terms);
}

static void begin_token(struct release *release, const char *resource, size_t size, struct rl_text token)
{
    int status = REDLOCK_NO_MEMORY;
    struct rl_operation *operation = &release->base;
    release->lease = rl_lease_create_of(&operation->client->locks, resource, size, token, &status);
    if (release->lease)
        operation->round = create_token_round(release->lease);
    if (!operation->round) {
        rl_operation_complete(operation, status);
        return;
    }
    operation->attempts = 1;
    operation->round->owner = release;
    operation->round->decided = decided;
    operation->round->overdue = overdue;
    rl_round_start(operation->round);
}

int rl_release_token_start(redlock_client *client, const char *resource, size_t size, const char *text,
                           redlock_callback callback, void *arg)
{
    int created;
    redlock_result why;
    char bytes[REDLOCK_TOKEN_MAX];
    struct rl_text token = {bytes, 0};
    struct release *release = (struct release *)rl_operation_create_always(client, &type, sizeof *release, &created);
    if (!release)
        return created;
    release->callback = callback;
    release->arg = arg;
    if (rl_resource_check(resource, &size, &why) || rl_token_read(text, bytes, &token.size, &why))
        rl_operation_refuse(&release->base, &why);
    else if (rl_leases_find_token(&client->locks, resource, size, token)) {
        rl_result_fail(&why, REDLOCK_INVALID, "this client has a handle of that lock: release the handle");
        rl_operation_refuse(&release->base, &why);
    } else
        begin_token(release, resource, size, token);
    return REDLOCK_OK;
}

/* Frees the lock after its last handle has ended. */
static void free_lock(struct release *release)
{
    struct rl_lease *lease = release->lease;
    struct rl_round *round = create_round(lease);
    rl_lease_invalidate(lease);
    if (!round) {
        rl_lease_release_detached(lease);
        rl_operation_complete(&release->base, REDLOCK_NO_MEMORY);
        return;
    }
    release->base.round = round;
    release->base.attempts = 1;
    round->owner = release;
    round->decided = decided;
    round->overdue = overdue;
    rl_round_start(round);
}

void rl_release_in_close(redlock_lock *lock)
{
    struct rl_lease *lease = lock->lease;
    rl_lease_end_handle(lock);
    rl_lease_unref(lease);
}

int rl_release_start(redlock_lock *lock, redlock_callback callback, void *arg)
{
    struct rl_lease *lease = lock->lease;
    int created;
    bool valid = rl_lease_validity(lease) > 0, lost = atomic_load(&lease->loss);
    rl_lease_end_handle(lock);
    struct release *release =
        (struct release *)rl_operation_create_always(lease->locks->client, &type, sizeof *release, &created);
    if (!release) {
        if (lease->holds == 0 && !lost)
            rl_lease_release_detached(lease);
        rl_lease_unref(lease);
        return created;
    }
    release->lease = lease; /* the handle's reference */
    release->callback = callback;
    release->arg = arg;
    if (lease->holds == 0 && !lost)
        free_lock(release);
    if (lost || !valid) /* its keys are being undone; those of the next holder are not touched */
        rl_operation_complete(&release->base, REDLOCK_LOST);
    else if (lease->holds > 0) {
        snprintf(release->base.text, sizeof release->base.text, "done: still held by its owner: hold count %u",
                 lease->holds);
        rl_operation_complete(&release->base, REDLOCK_OK);
    }
    return REDLOCK_OK;
}
