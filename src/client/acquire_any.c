/*
 * Acquire any of several locks: one acquire for each resource, all in progress at once.
 *
 * In: the options with `any`; the end of each of these acquires. Out: the first lock that one of them gets. Then the
 * others are cut, which undoes what they have sent. What must never happen: a lock that stays held without a handle of
 * the caller. So an acquire that got its lock before it could be cut gives it up when it reports.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/result.h"

struct acquire_any;

struct alternative {
    struct acquire_any *any;
    struct rl_operation *operation; /* NULL: not started, or it has reported */
};

struct acquire_any {
    struct rl_operation base; /* its lease is that of the lock */
    redlock_lock *lock;
    uint64_t fence;
    redlock_event_callback event;
    void *event_arg;
    unsigned waiting; /* alternatives that have not reported */
    struct alternative alternative[REDLOCK_RESOURCES_MAX];
};

/* An undo, which at_least_ms does not delay: the caller never had the lock. */
static void any_give_up(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    (void)client;
    (void)result;
    (void)arg;
    if (!lock)
        return;
    struct rl_lease *lease = lock->lease;
    rl_lease_end_handle(lock);
    if (lease->handles.count == 0 && !atomic_load(&lease->loss))
        rl_lease_release_detached(lease);
    rl_lease_unref(lease);
}

/* Their reports come later, when the memory of this operation may be free. */
static void any_cut_others(struct acquire_any *any)
{
    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX; i++) {
        struct rl_operation *other = any->alternative[i].operation;
        any->alternative[i].operation = NULL;
        if (!other)
            continue;
        other->callback = (struct rl_callback){RL_LOCK_CALLBACK, {.lock = any_give_up}, NULL};
        rl_operation_cut(other, REDLOCK_CANCELLED);
    }
}

static void any_keep_result(struct acquire_any *any, const redlock_result *result)
{
    struct rl_operation *operation = &any->base;
    if (!operation->finished)
        operation->finished = rl_core_allocate(&operation->client->core, sizeof *operation->finished);
    if (operation->finished)
        *operation->finished = *result;
    any->fence = result->fence;
}

/* The handle is the caller's only when this operation reports, with its events. */
static void any_won(struct acquire_any *any, redlock_lock *lock)
{
    rl_lease_take_back(lock);
    lock->event = any->event;
    lock->event_arg = any->event_arg;
    any->lock = lock;
    any->base.lease = rl_lease_ref(lock->lease);
    any_cut_others(any);
    rl_operation_complete(&any->base, REDLOCK_OK);
}

/* A bad argument, or a lock that the owner itself excludes, ends the wait for the others, too. */
static void any_on_reported(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct alternative *reported = arg;
    struct acquire_any *any = reported->any;
    (void)client;
    assert(!any->base.completed && any->waiting > 0);
    reported->operation = NULL;
    any->waiting--;
    any->base.attempts += result->attempts;
    if (!lock && any->waiting > 0 && result->status != REDLOCK_INVALID)
        return;
    any_keep_result(any, result);
    if (lock) {
        any_won(any, lock);
        return;
    }
    any->base.cause = (int16_t)result->cause;
    rl_operation_explain(&any->base, "%s", result->text);
    any_cut_others(any);
    rl_operation_complete(&any->base, result->status);
}

/* false: it was not started, and the operation has ended. */
static bool any_start_one(struct acquire_any *any, unsigned index, const struct rl_text *name,
                          redlock_acquire_options *options, const struct rl_caller *caller)
{
    struct alternative *one = &any->alternative[index];
    one->any = any;
    options->resource_size = name->size;
    const struct rl_arguments arguments = {.client = any->base.client,
                                           .resource = name->bytes,
                                           .options = options,
                                           .call = REDLOCK_CALL_OPTIONS_INIT,
                                           .caller = *caller};
    any->waiting++;
    int status =
        rl_operation_start(&rl_acquire, &arguments,
                           (struct rl_callback){RL_LOCK_CALLBACK, {.lock = any_on_reported}, one}, &one->operation);
    if (status == REDLOCK_OK)
        return true;
    any->waiting--;
    any_cut_others(any);
    if (status == REDLOCK_INVALID)
        rl_operation_explain(&any->base, "%s", RL_TOO_MANY_OPERATIONS);
    rl_operation_complete(&any->base, status);
    return false;
}

static void any_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct acquire_any *any = (struct acquire_any *)operation;
    redlock_acquire_options options;
    struct rl_names names;
    if (!rl_operation_read_acquire(operation, arguments, &options, &names))
        return;
    any->event = options.event;
    any->event_arg = options.event_arg;
    options.event = NULL;
    options.cancellation = NULL; /* it ends this operation, which cuts the others */
    options.also_count = options.any = 0;
    const struct rl_caller caller = {arguments->caller.owner, QUORUM_NEVER, 0};
    for (unsigned i = 0; i < names.count && any_start_one(any, i, &names.name[i], &options, &caller); i++)
        ;
}

static void any_stop(struct rl_operation *operation)
{
    any_cut_others((struct acquire_any *)operation);
}

static void any_fill(struct rl_operation *operation, redlock_result *result)
{
    if (operation->finished)
        rl_result_copy_votes(result, operation->finished);
}

static void any_report(struct rl_operation *operation, redlock_result *result, struct rl_returned *returned)
{
    struct acquire_any *any = (struct acquire_any *)operation;
    returned->lock = rl_operation_hand_out(operation, any->lock, result);
    if (!returned->lock)
        return;
    result->validity_ms = (int64_t)(rl_lease_validity(operation->lease) / QUORUM_MILLISECOND);
    result->fence = any->fence;
}

const struct rl_operation_type rl_acquire_any = {.size = sizeof(struct acquire_any),
                                                 .returns_lock = true,
                                                 .start = any_start,
                                                 .stop = any_stop,
                                                 .fill = any_fill,
                                                 .report = any_report};
