#include "src/client/posted.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/client/functions.h"
#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"

struct posted {
    struct rl_call call;
    struct rl_completion completion;
    struct rl_loop_thread *thread;
    struct rl_callback callback;
    redlock_acquire_options options; /* of an acquire or adopt */
    struct rl_lock_events *events;   /* the same; NULL without an event callback */
    struct rl_returned returned;
    redlock_state *state; /* of a query */
    void *result;         /* up to its last node; most of its 4 KiB are nodes that there are not */
    char *text;           /* the result's; NULL: "" */
    char *free;           /* while the arguments are copied: the bytes of the next one go here */
    uint64_t memory[];
};

/* ------------------------------------------------------------------------------------------------------- arguments */

/* A resource that is too long is not copied: its size suffices to refuse it. */
static size_t bytes_of(const char *bytes, size_t size, size_t most)
{
    if (!bytes || size > most)
        return 0;
    return size ? size : strnlen(bytes, most + 1);
}

static const char *posted_copy(struct posted *posted, const char *bytes, size_t size, size_t most)
{
    if (!bytes)
        return NULL;
    char *at = posted->free;
    size_t copied = bytes_of(bytes, size, most);
    memcpy(at, bytes, copied);
    at[copied] = '\0';
    posted->free += copied + 1;
    return at;
}

static size_t also_of(const redlock_acquire_options *options)
{
    return options && options->also && options->also_count < REDLOCK_RESOURCES_MAX ? options->also_count : 0;
}

static size_t resource_size(const struct rl_arguments *arguments)
{
    return arguments->options ? arguments->options->resource_size : arguments->size;
}

static size_t result_size(const redlock_client *client)
{
    return offsetof(redlock_result, node) + client->nodes->count * sizeof(redlock_node_result);
}

static size_t posted_memory(const struct rl_operation_type *type, const struct rl_arguments *arguments)
{
    const redlock_acquire_options *options = arguments->options;
    size_t also = also_of(options);
    size_t size = result_size(arguments->client) + also * sizeof(redlock_name);
    if (type->returns_state)
        size += sizeof(redlock_state);
    size += bytes_of(arguments->resource, resource_size(arguments), REDLOCK_RESOURCE_MAX) + 1;
    size += bytes_of(arguments->token, 0, REDLOCK_TOKEN_TEXT_SIZE) + 1;
    for (size_t i = 0; i < also; i++)
        size += bytes_of(options->also[i].bytes, options->also[i].size, REDLOCK_RESOURCE_MAX) + 1;
    return size;
}

static void posted_copy_also(struct posted *posted, redlock_name *names)
{
    redlock_acquire_options *options = &posted->options;
    size_t count = also_of(options);
    for (size_t i = 0; i < count; i++) {
        names[i] = options->also[i];
        names[i].bytes = posted_copy(posted, names[i].bytes, names[i].size, REDLOCK_RESOURCE_MAX);
    }
    if (count)
        options->also = names;
}

/* Parts the memory: what needs alignment comes first. */
static void posted_copy_arguments(struct posted *posted, const struct rl_arguments *given)
{
    struct rl_arguments *arguments = &posted->call.arguments;
    char *at = (char *)posted->memory;
    _Static_assert(offsetof(redlock_result, node) % sizeof(uint64_t) == 0 &&
                       sizeof(redlock_node_result) % sizeof(uint64_t) == 0,
                   "what follows the result is aligned");
    *arguments = *given;
    if (given->options) {
        posted->options = *given->options;
        arguments->options = &posted->options;
    }
    posted->result = at;
    at += result_size(given->client);
    redlock_name *names = (redlock_name *)(void *)at;
    at += also_of(given->options) * sizeof *names;
    if (posted->call.type->returns_state) {
        posted->state = memset(at, 0, sizeof *posted->state);
        posted->returned.state = posted->state;
        at += sizeof *posted->state;
    }
    posted->free = at;
    arguments->resource = posted_copy(posted, given->resource, resource_size(given), REDLOCK_RESOURCE_MAX);
    arguments->token = posted_copy(posted, given->token, 0, REDLOCK_TOKEN_TEXT_SIZE);
    posted_copy_also(posted, names);
}

/* ------------------------------------------------------------------------------------------------------ completion */

static struct posted *posted_of(struct rl_completion *completion)
{
    return (struct posted *)(void *)((char *)completion - offsetof(struct posted, completion));
}

static void posted_free(struct posted *posted)
{
    rl_lock_events_unref(posted->events);
    rl_free(&posted->thread->allocator, posted->text);
    rl_free(&posted->thread->allocator, posted);
}

static void posted_drop(struct rl_call *call)
{
    posted_free((struct posted *)call);
}

static void posted_end(struct rl_completion *completion)
{
    posted_free(posted_of(completion));
}

/* Without memory for the text it is formatted from the votes. */
static void posted_store_result(struct posted *posted, const redlock_result *result)
{
    memcpy(posted->result, result, result_size(posted->call.arguments.client));
    if (result->text[0])
        posted->text = rl_copy(&posted->thread->allocator, result->text, strlen(result->text));
}

static void posted_restore_result(const struct posted *posted, redlock_result *result)
{
    memcpy(result, posted->result, result_size(posted->call.arguments.client));
    snprintf(result->text, sizeof result->text, "%s", posted->text ? posted->text : "");
    if (result->status != REDLOCK_OK)
        redlock_result_text(result);
}

static void posted_finish(struct rl_call *call, const struct rl_returned *returned, const redlock_result *result)
{
    struct posted *posted = (struct posted *)call;
    if (posted->callback.kind == RL_NO_CALLBACK) {
        atomic_fetch_sub(&posted->thread->posted, 1);
        posted_free(posted);
        return;
    }
    posted_store_result(posted, result);
    if (returned->state)
        *posted->state = *returned->state;
    posted->returned.lock = returned->lock;
    if (returned->lock)
        atomic_store(&returned->lock->delivery, RL_ON_ITS_WAY); /* until its callback runs */
    if (returned->lock && posted->events)
        rl_lock_events_ref(posted->events); /* the handle's */
    rl_completions_add(&posted->thread->completions, &posted->completion);
}

/* If the client began to close since the grant, it releases the lock. */
static void posted_recall_if_closing(struct posted *posted, redlock_result *result)
{
    bool closing = atomic_load(&posted->thread->closing) != RL_OPEN;
    if (!posted->returned.lock || rl_lease_deliver(posted->returned.lock, closing ? RL_RECALLED : RL_DELIVERED))
        return;
    rl_lock_events_stop(posted->events);
    posted->returned.lock = NULL;
    result->status = result->cause = REDLOCK_CANCELLED;
    result->validity_ms = 0;
    result->fence = 0;
    result->text[0] = '\0'; /* of the grant */
    redlock_result_text(result);
}

/* The callback may start another call. */
static void posted_run(struct rl_completion *completion)
{
    redlock_result result;
    struct posted *posted = posted_of(completion);
    atomic_fetch_sub(&posted->thread->posted, 1);
    posted_restore_result(posted, &result);
    posted_recall_if_closing(posted, &result);
    rl_callback_call(&posted->callback, posted->call.arguments.client, &posted->returned, &result);
}

/* ----------------------------------------------------------------------------------------------------------- start */

static struct posted *posted_create(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                                    struct rl_callback callback)
{
    redlock_client *client = arguments->client;
    struct posted *posted = rl_core_allocate(&client->core, sizeof *posted + posted_memory(type, arguments));
    if (!posted)
        return NULL;
    memset(posted, 0, sizeof *posted);
    posted->thread = client->loop_thread;
    posted->callback = callback;
    posted->call.run = rl_call_run_operation;
    posted->call.finish = posted_finish;
    posted->call.drop = posted_drop;
    posted->call.type = type;
    posted->completion.run = posted_run;
    posted->completion.end = posted_end;
    posted_copy_arguments(posted, arguments);
    return posted;
}

/* Events of the lock take the same way as the completion. */
static bool posted_redirect_events(struct posted *posted)
{
    redlock_acquire_options *options = &posted->options;
    if (!posted->call.type->returns_lock || !options->event)
        return true;
    posted->events = rl_lock_events_create(posted->thread, options->event, options->event_arg);
    options->event = rl_lock_events_post;
    options->event_arg = posted->events;
    return posted->events;
}

static int posted_post(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                       struct rl_callback callback)
{
    struct posted *posted = posted_create(type, arguments, callback);
    int status = posted && posted_redirect_events(posted) ? REDLOCK_OK : REDLOCK_NO_MEMORY;
    if (!status && !rl_loop_thread_post(arguments->client, &posted->call))
        status = REDLOCK_INVALID;
    if (status && posted)
        posted_free(posted);
    return status;
}

static int posted_abandon(void *data)
{
    const struct rl_call *unposted = data;
    unposted->type->abandon(&unposted->arguments);
    return REDLOCK_OK;
}

int rl_posted_start(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                    struct rl_callback callback)
{
    struct rl_loop_thread *thread = arguments->client->loop_thread;
    if (atomic_fetch_add(&thread->posted, 1) >= arguments->client->core.options.operations_max && !type->is_release) {
        atomic_fetch_sub(&thread->posted, 1);
        rl_client_complain(arguments->client,
                           "more than operations_max operations that redlock_dispatch() has not completed");
        return REDLOCK_INVALID;
    }
    int status = posted_post(type, arguments, callback);
    if (status)
        atomic_fetch_sub(&thread->posted, 1);
    if (status == REDLOCK_NO_MEMORY && type->abandon) {
        struct rl_call unposted = {.type = type, .arguments = *arguments};
        rl_client_ask(arguments->client, posted_abandon, &unposted);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------------- dispatch */

static int dispatch_refuse(redlock_client *client, const char *text)
{
    rl_client_complain(client, text);
    return REDLOCK_INVALID;
}

int redlock_descriptor(redlock_client *client)
{
    if (!client || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    if (!client->loop_thread)
        return dispatch_refuse(client,
                               "redlock_descriptor(): the client is attached to a loop, which calls its callbacks; use "
                               "redlock_connect()");
    int descriptor = rl_completions_descriptor(&client->loop_thread->completions);
    return descriptor < 0 ? REDLOCK_SYSTEM : descriptor;
}

static int dispatch_enter(redlock_client *client)
{
    if (!client || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    struct rl_loop_thread *thread = client->loop_thread;
    if (!thread)
        return dispatch_refuse(client,
                               "redlock_dispatch(): the client is attached to a loop, which calls its callbacks; use "
                               "redlock_connect()");
    if (rl_loop_thread_is_current(client))
        return dispatch_refuse(client,
                               "redlock_dispatch(): called on the client's own thread; call it on a thread of yours");
    if (atomic_load(&thread->closing) == RL_CLOSING)
        return dispatch_refuse(
            client, "redlock_dispatch(): redlock_close() is closing the client, and calls the last callbacks");
    if (rl_completions_is_dispatcher(&thread->completions))
        return dispatch_refuse(client,
                               "redlock_dispatch(): called inside a callback of this client; return from it first");
    if (!rl_completions_enter(&thread->completions))
        return dispatch_refuse(client,
                               "redlock_dispatch(): another thread is dispatching this client; one thread at a time");
    return REDLOCK_OK;
}

/* Also if a callback ends its thread. */
static void dispatch_leave(void *data)
{
    redlock_client *client = data;
    struct rl_loop_thread *thread = client->loop_thread;
    if (rl_client_in_owner_process(client))
        rl_calls_flush(&thread->calls, client->core.wakeup);
    rl_completions_leave(&thread->completions);
}

int redlock_dispatch(redlock_client *client)
{
    int status = dispatch_enter(client);
    if (status)
        return status;
    volatile bool closed = false;
    int cancel = rl_thread_disable_cancel();
    pthread_cleanup_push(dispatch_leave, client);
    closed = rl_completions_run(&client->loop_thread->completions);
    pthread_cleanup_pop(1);
    if (closed)
        rl_loop_thread_end_async(client);
    rl_thread_restore_cancel(cancel);
    return REDLOCK_OK;
}
