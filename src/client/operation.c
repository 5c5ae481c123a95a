#include "src/client/operation.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/client/call.h"
#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/result.h"
#include "src/lock/held_by.h"
#include "src/lock/round_command.h"

/* Callbacks per turn of the loop, so that the host's other events get their turn. */
#define REPORTS_PER_TURN 1024

/* ----------------------------------------------------------------------------------------------------- early ends */

redlock_call_options rl_call_options_known(const redlock_call_options *given)
{
    redlock_call_options options = REDLOCK_CALL_OPTIONS_INIT;
    rl_struct_copy(&options, sizeof options, given);
    return options;
}

int rl_call_options_check(const redlock_client *client, const redlock_call_options *options, redlock_result *result)
{
    if (!rl_struct_size(options->struct_size, sizeof *options))
        return rl_struct_refuse(options->struct_size, "REDLOCK_CALL_OPTIONS_INIT or redlock_call_options_init()",
                                result);
    if (options->timeout_ms < REDLOCK_FOREVER)
        return rl_result_fail(result, REDLOCK_INVALID, "timeout_ms is %lld; it must be 0, more, or REDLOCK_FOREVER",
                              (long long)options->timeout_ms);
    if (options->cancellation && options->cancellation->wakeup != client->core.wakeup)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the cancellation belongs to another client; create one for this client");
    return REDLOCK_OK;
}

bool rl_cancellation_ends(const redlock_cancellation *cancellation, uint64_t changes)
{
    return cancellation && (changes % 2 == 1 || atomic_load(&cancellation->changes) != changes);
}

static bool operation_is_cancelled(const struct rl_operation *operation)
{
    return rl_cancellation_ends(operation->cancellation, operation->changes);
}

void rl_operation_cut(struct rl_operation *operation, int status)
{
    if (operation->completed) /* an acquire may have won before its caller knows */
        return;
    if (operation->type->stop)
        operation->type->stop(operation);
    else if (operation->round)
        rl_round_cancel(operation->round);
    rl_operation_complete(operation, status);
}

struct rl_operation *rl_operation_of_timer(struct rl_timer *timer)
{
    return (struct rl_operation *)(void *)((char *)timer - offsetof(struct rl_operation, timer));
}

static void operation_time_out(struct rl_timer *timer)
{
    rl_operation_cut(rl_operation_of_timer(timer), REDLOCK_TIMED_OUT);
}

/* Ends the operation if its time is over; otherwise sets its deadline. */
static void operation_set_deadline(struct rl_operation *operation, quorum_time due)
{
    if (operation->completed || due == QUORUM_NEVER)
        return;
    if (due <= rl_now())
        rl_operation_cut(operation, REDLOCK_TIMED_OUT);
    else
        rl_timer_set(&operation->client->core.timers, &operation->timer, due);
}

/* A release starts although it is cancelled: its handle has ended. */
static void operation_begin(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    redlock_result why;
    if (rl_call_options_check(operation->client, &arguments->call, &why)) {
        rl_operation_refuse(operation, &why);
        return;
    }
    operation->cancellation = arguments->call.cancellation;
    operation->changes = arguments->caller.changes;
    bool is_cancelled = operation_is_cancelled(operation);
    if (!is_cancelled || operation->type->is_release)
        operation->type->start(operation, arguments);
    if (is_cancelled)
        rl_operation_cut(operation, REDLOCK_CANCELLED);
    operation_set_deadline(operation, arguments->caller.due);
}

/* ----------------------------------------------------------------------------------------------------- start and end */

static struct rl_operation *operation_create(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                                             struct rl_callback callback)
{
    redlock_client *client = arguments->client;
    struct rl_operations *operations = &client->operations;
    size_t extra = type->extra_size ? type->extra_size(arguments) : 0;
    assert(type->size >= sizeof(struct rl_operation));
    struct rl_operation *operation = rl_core_allocate(&client->core, type->size + extra);
    if (!operation) {
        rl_log(&client->core, REDLOCK_LOG_ERROR, "no memory for an operation");
        return NULL;
    }
    memset(operation, 0, type->size + extra);
    operation->type = type;
    operation->client = client;
    operation->callback = callback;
    operation->timer.fire = operation_time_out;
    operation->started = rl_now();
    operation->next = operations->first;
    if (operation->next)
        operation->next->previous = operation;
    operations->first = operation;
    operations->count++;
    return operation;
}

int rl_operation_start(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                       struct rl_callback callback, struct rl_operation **started)
{
    redlock_client *client = arguments->client;
    if (!type->is_release && client->operations.count >= client->core.options.operations_max) {
        rl_log(&client->core, REDLOCK_LOG_ERROR, "%s", RL_TOO_MANY_OPERATIONS);
        return REDLOCK_INVALID;
    }
    struct rl_operation *operation = operation_create(type, arguments, callback);
    if (started)
        *started = operation;
    if (operation)
        operation_begin(operation, arguments);
    else if (type->abandon)
        type->abandon(arguments);
    return operation ? REDLOCK_OK : REDLOCK_NO_MEMORY;
}

bool rl_operation_start_round(struct rl_operation *operation, struct rl_round *round,
                              void (*decided)(struct rl_round *round))
{
    assert(!operation->completed);
    operation->round = round;
    if (!round) {
        rl_operation_complete(operation, REDLOCK_NO_MEMORY);
        return false;
    }
    operation->attempts++;
    round->owner = operation;
    round->decided = decided;
    rl_round_start(round);
    return true;
}

void rl_operation_look(struct rl_operation *operation, struct rl_text resource, enum rl_command_kind command,
                       rl_round_replied *replied, void (*decided)(struct rl_round *round))
{
    int status;
    operation->lease = rl_lease_create_one(&operation->client->locks, resource.bytes, resource.size, &status);
    if (!operation->lease) {
        rl_operation_complete(operation, status);
        return;
    }
    struct rl_round *round = rl_round_create(operation->lease, command, (struct quorum_terms){.kind = QUORUM_LOOK});
    if (round)
        round->replied = replied;
    rl_operation_start_round(operation, round, decided);
}

void rl_operation_end_by_round(struct rl_round *round)
{
    rl_operation_complete(round->owner, rl_result_status(round->rules.verdict));
}

redlock_lock *rl_operation_hand_out(struct rl_operation *operation, redlock_lock *lock, redlock_result *result)
{
    assert(!lock || (lock->lease == operation->lease && operation->status == REDLOCK_OK));
    if (lock && operation->client->core.closing) {
        rl_lease_end_handle(lock);
        rl_lease_unref(operation->lease); /* the handle's reference */
        result->status = result->cause = REDLOCK_CANCELLED;
        result->text[0] = '\0'; /* of the grant */
        redlock_result_text(result);
        return NULL;
    }
    if (lock)
        rl_lease_give(lock);
    return lock;
}

void rl_operation_complete(struct rl_operation *operation, int status)
{
    struct rl_operations *operations = &operation->client->operations;
    assert(status <= 0 && status > -REDLOCK_STATUSES);
    if (operation->completed)
        return;
    operation->completed = true;
    operation->decided = rl_now();
    operation->status = (int16_t)status;
    if (status != REDLOCK_TIMED_OUT && status != REDLOCK_CANCELLED)
        operation->cause = (int16_t)status;
    rl_timer_stop(&operation->timer);
    *(operation->previous ? &operation->previous->next : &operations->first) = operation->next;
    if (operation->next)
        operation->next->previous = operation->previous;
    operation->next = NULL;
    *(operations->completed ? &operations->completed_last->next : &operations->completed) = operation;
    operations->completed_last = operation;
}

void rl_operation_wait(struct rl_operation *operation, int64_t wait_ms)
{
    if (operation->completed || wait_ms < 0)
        return;
    if (wait_ms == 0)
        rl_operation_cut(operation, REDLOCK_TIMED_OUT);
    else if ((uint64_t)wait_ms < QUORUM_NEVER / QUORUM_MILLISECOND)
        rl_timer_set(&operation->client->core.timers, &operation->timer,
                     quorum_time_add(operation->started, (quorum_duration)wait_ms * QUORUM_MILLISECOND));
}

static void operation_free_text(struct rl_operation *operation)
{
    rl_free(&operation->client->core.allocator, operation->text);
    operation->text = NULL;
}

void rl_operation_explain(struct rl_operation *operation, const char *format, ...)
{
    char text[sizeof((redlock_result *)NULL)->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    operation_free_text(operation);
    operation->text = rl_copy(&operation->client->core.allocator, text, strlen(text));
}

void rl_operation_refuse(struct rl_operation *operation, const redlock_result *why)
{
    assert(why->status != REDLOCK_OK);
    rl_operation_explain(operation, "%s", why->text);
    rl_operation_complete(operation, why->status);
}

bool rl_operation_read_acquire(struct rl_operation *operation, const struct rl_arguments *arguments,
                               redlock_acquire_options *options, struct rl_names *names)
{
    const redlock_options *defaults = &operation->client->core.options;
    redlock_result why;
    int status = rl_options_read_acquire(arguments->options, defaults, options, &why);
    if (!status)
        status = rl_names_read(names, arguments->resource, options, defaults, &why);
    if (status)
        rl_operation_refuse(operation, &why);
    return !status;
}

void rl_operation_keep_votes(struct rl_operation *operation)
{
    redlock_client *client = operation->client;
    if (!operation->finished)
        operation->finished = rl_core_allocate(&client->core, sizeof *operation->finished);
    if (!operation->finished)
        return;
    rl_result_clear(operation->finished, client->nodes->count);
    rl_round_fill(operation->round, operation->finished);
}

/* A round that a deadline or a cancellation has cut has few votes: those of the one before it say more. */
static void operation_fill_votes(const struct rl_operation *operation, redlock_result *result)
{
    const struct rl_round *round = operation->round;
    bool was_cut = round->rules.verdict == QUORUM_LOST_CANCELLED || !quorum_round_over(&round->rules);
    if (was_cut && operation->finished)
        rl_result_copy_votes(result, operation->finished);
    else
        rl_round_fill(round, result);
    if (was_cut)
        rl_held_by_fill(round->held_by, result); /* of the queue that it has left */
    if (result->cause != REDLOCK_HELD) {         /* the attempt before this one may have named a holder */
        result->holder.token[0] = result->holder.label[0] = '\0';
        result->remaining_ms = result->holder.since_s = 0;
    }
}

/* The holder may be this client itself, for another owner, or by another handle. */
static void operation_explain_own_lock(struct rl_operation *operation)
{
    bool is_late = operation->status == REDLOCK_TIMED_OUT && operation->cause == REDLOCK_HELD;
    if (operation->text || !operation->type->returns_lock || !operation->lease || operation->lease->permits ||
        !(is_late || operation->status == REDLOCK_HELD))
        return;
    const struct rl_names names = rl_lease_names(operation->lease);
    for (unsigned i = 0; i < names.count; i++) {
        const struct rl_text *name = &names.name[i];
        const struct rl_lease *own = rl_leases_find(&operation->client->locks, name->bytes, name->size);
        if (own && own != operation->lease && rl_lease_validity(own) > 0) {
            rl_operation_explain(operation, "%sthis client itself holds '%.*s', for another owner or handle",
                                 is_late ? "timed out: " : "", name->size > 64 ? 64 : (int)name->size, name->bytes);
            return;
        }
    }
}

static void operation_fill(struct rl_operation *operation, redlock_result *result)
{
    const redlock_client *client = operation->client;
    rl_result_clear(result, client->nodes->count);
    for (unsigned i = 0; i < client->nodes->count; i++)
        result->node[i].name = client->nodes->node[i].name;
    result->status = operation->status;
    result->cause = operation->cause ? operation->cause : operation->status;
    result->attempts = operation->attempts;
    result->elapsed_us = quorum_time_since(operation->started, operation->decided) / QUORUM_MICROSECOND;
    if (operation->type->fill)
        operation->type->fill(operation, result);
    else if (operation->round)
        operation_fill_votes(operation, result);
    operation_explain_own_lock(operation);
    if (operation->text)
        snprintf(result->text, sizeof result->text, "%s", operation->text);
    if (result->status != REDLOCK_OK)
        redlock_result_text(result); /* formats the text now: callbacks get a const result */
}

void rl_callback_call(const struct rl_callback *callback, redlock_client *client, const struct rl_returned *returned,
                      const redlock_result *result)
{
    switch (callback->kind) {
    case RL_NO_CALLBACK:
        break;
    case RL_RESULT_CALLBACK:
        callback->result(client, result, callback->arg);
        break;
    case RL_LOCK_CALLBACK:
        callback->lock(client, returned->lock, result, callback->arg);
        break;
    case RL_STATE_CALLBACK:
        callback->state(client, returned->state, result, callback->arg);
        break;
    case RL_CALL:
        callback->call->finish(callback->call, returned, result);
        break;
    }
}

static void operation_report(struct rl_operation *operation)
{
    redlock_result result;
    struct rl_returned returned = {.lock = NULL};
    if (operation->callback.kind == RL_NO_CALLBACK)
        return;
    operation_fill(operation, &result);
    rl_round_leave(operation->round);
    operation->round = NULL;
    if (operation->type->report)
        operation->type->report(operation, &result, &returned);
    rl_callback_call(&operation->callback, operation->client, &returned, &result);
}

static void operation_end(struct rl_operation *operation, bool reports)
{
    redlock_client *client = operation->client;
    assert(operation->completed && client->operations.count > 0);
    client->operations.count--; /* before the callback, which may start another operation */
    if (reports)
        operation_report(operation);
    else if (operation->callback.kind == RL_CALL && operation->callback.call->drop)
        operation->callback.call->drop(operation->callback.call);
    rl_round_leave(operation->round);
    if (operation->type->drop)
        operation->type->drop(operation);
    rl_lease_unref(operation->lease);
    operation_free_text(operation);
    rl_core_free(&client->core, operation->finished);
    rl_core_free(&client->core, operation);
}

void rl_operations_notify(redlock_client *client)
{
    struct rl_operations *operations = &client->operations;
    /* A callback may fork, and return in the child. */
    for (unsigned reports = 0; operations->completed && reports < REPORTS_PER_TURN && rl_process_is(client->core.owner);
         reports++) {
        struct rl_operation *operation = operations->completed;
        operations->completed = operation->next;
        operation_end(operation, true);
    }
}

/* Stopping one operation may end the next one, which then is in the list of completed ones. */
void rl_operations_cancel(redlock_client *client, bool all)
{
    struct rl_operation *next;
    for (struct rl_operation *operation = client->operations.first; operation; operation = next) {
        next = operation->next;
        if (!all && !operation_is_cancelled(operation))
            continue;
        rl_operation_cut(operation, REDLOCK_CANCELLED);
        if (next && next->completed)
            next = client->operations.first;
    }
}

void rl_operations_node_changed(redlock_client *client)
{
    struct rl_operation *next;
    for (struct rl_operation *operation = client->operations.first; operation; operation = next) {
        next = operation->next;
        if (operation->type->changed)
            operation->type->changed(operation);
    }
}

void rl_operations_free(redlock_client *client)
{
    struct rl_operations *operations = &client->operations;
    while (operations->first)
        rl_operation_complete(operations->first, REDLOCK_CANCELLED);
    while (operations->completed) {
        struct rl_operation *operation = operations->completed;
        operations->completed = operation->next;
        operation_end(operation, false);
    }
    assert(operations->count == 0);
}
