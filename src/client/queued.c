#include "src/client/queued.h"

#include <stddef.h>
#include <string.h>

#include "src/client/blocking.h"
#include "src/client/client.h"
#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"
#include "src/core/memory.h"

/* A node's result without its text. */
struct node_result {
    const char *name;
    int32_t outcome;
    uint32_t latency_us;
};

#define FIELDS_SIZE offsetof(redlock_result, node)

/* Everything is allocated by the starting call, so that a completion cannot fail, except for the texts, which only a
 * failure has. */
struct queued {
    struct rl_call call;
    struct rl_completion completion;
    struct rl_loop_thread *thread;
    union {
        redlock_callback plain;
        redlock_acquire_callback acquire;
        redlock_query_callback query;
    } callback;
    bool reports; /* there is a callback */
    void *arg;
    redlock_acquire_options options;
    struct rl_lock_events *events; /* of an acquire; NULL without an event callback */
    void *fields;                  /* the result up to its nodes */
    struct node_result *node;      /* one per node */
    char *texts;                   /* the nodes' and the result's, each with its NUL; NULL: all are "" */
    char *free;                    /* copies the arguments' bytes to here */
    uint64_t memory[];
};

/* The arguments that need memory; the others are set in the call. */
struct arguments {
    const char *resource;
    size_t size;
    const char *token;
    const redlock_acquire_options *options;
    bool is_query;
    bool is_release; /* not limited by operations_max */
};

/* ------------------------------------------------------------------------------------------------------- arguments */

/* A resource that is too long is not copied: its size suffices to refuse it. */
static size_t bytes_of(const char *bytes, size_t size, size_t most)
{
    if (!bytes || size > most)
        return 0;
    return size ? size : strnlen(bytes, most + 1);
}

static const char *copy(struct queued *queued, const char *bytes, size_t size, size_t most)
{
    if (!bytes)
        return NULL;
    char *at = queued->free;
    size_t copied = bytes_of(bytes, size, most);
    memcpy(at, bytes, copied);
    at[copied] = '\0';
    queued->free += copied + 1;
    return at;
}

/* The options as far as the caller's header knows them; the rest is checked on the loop's thread. */
static redlock_acquire_options read_options(const redlock_acquire_options *given)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    if (given && (given->struct_size < sizeof given->struct_size || given->struct_size > sizeof options))
        options.struct_size = given->struct_size; /* it will be refused */
    else if (given) {
        memcpy(&options, given, given->struct_size);
        options.struct_size = sizeof options;
    }
    return options;
}

static size_t also_of(const redlock_acquire_options *options)
{
    return options->also && options->also_count < REDLOCK_RESOURCES_MAX ? options->also_count : 0;
}

static size_t result_size(const redlock_client *client)
{
    return FIELDS_SIZE + client->nodes->count * sizeof(struct node_result);
}

static size_t memory_for(const redlock_client *client, const struct arguments *arguments,
                         const redlock_acquire_options *options)
{
    size_t also = also_of(options);
    size_t size = result_size(client) + also * sizeof(redlock_name);
    if (arguments->is_query)
        size += sizeof(redlock_state);
    size += bytes_of(arguments->resource, arguments->size, REDLOCK_RESOURCE_MAX) + 1;
    size += bytes_of(arguments->token, 0, REDLOCK_TOKEN_TEXT_SIZE) + 1;
    for (size_t i = 0; i < also; i++)
        size += bytes_of(options->also[i].bytes, options->also[i].size, REDLOCK_RESOURCE_MAX) + 1;
    return size;
}

static void copy_also(struct queued *queued, redlock_name *names)
{
    size_t count = also_of(&queued->options);
    for (size_t i = 0; i < count; i++) {
        names[i] = queued->options.also[i];
        names[i].bytes = copy(queued, names[i].bytes, names[i].size, REDLOCK_RESOURCE_MAX);
    }
    if (count)
        queued->options.also = names;
}

/* Parts the memory: what needs alignment comes first. */
static void copy_arguments(struct queued *queued, const struct arguments *arguments)
{
    const redlock_client *client = queued->call.client;
    char *at = (char *)queued->memory;
    _Static_assert(FIELDS_SIZE % sizeof(uint64_t) == 0, "the nodes' results are aligned");
    queued->fields = at;
    queued->node = (struct node_result *)(void *)(at + FIELDS_SIZE);
    at += result_size(client);
    redlock_name *names = (redlock_name *)(void *)at;
    at += also_of(&queued->options) * sizeof *names;
    if (arguments->is_query) {
        queued->call.state = (redlock_state *)(void *)at;
        at += sizeof *queued->call.state;
    }
    queued->free = at;
    queued->call.resource = copy(queued, arguments->resource, arguments->size, REDLOCK_RESOURCE_MAX);
    queued->call.size = arguments->size;
    queued->call.token = copy(queued, arguments->token, 0, REDLOCK_TOKEN_TEXT_SIZE);
    copy_also(queued, names);
    if (arguments->options)
        queued->call.options = &queued->options;
}

/* ------------------------------------------------------------------------------------------------------ completion */

static struct queued *queued_of(struct rl_completion *completion)
{
    return (struct queued *)(void *)((char *)completion - offsetof(struct queued, completion));
}

static void free_queued(struct queued *queued)
{
    rl_lock_events_unref(queued->events);
    rl_free(&queued->thread->allocator, queued->texts);
    rl_free(&queued->thread->allocator, queued);
}

static void drop(struct rl_call *call)
{
    free_queued((struct queued *)call);
}

static void end(struct rl_completion *completion)
{
    free_queued(queued_of(completion));
}

static void run_acquire(struct rl_completion *completion);

static size_t texts_size(const redlock_result *result)
{
    size_t size = strlen(result->text) + 1;
    for (unsigned i = 0; i < result->nodes; i++)
        size += strlen(result->node[i].text) + 1;
    return size;
}

static char *add(char *at, const char *text)
{
    size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    return at + size;
}

/* Without memory there are no texts, and the result's is formatted from the votes. */
static void keep_texts(struct queued *queued, const redlock_result *result)
{
    size_t size = texts_size(result);
    if (size > result->nodes + 1) /* not only NULs */
        queued->texts = rl_allocate(&queued->thread->allocator, size);
    char *at = queued->texts;
    for (unsigned i = 0; at && i < result->nodes; i++)
        at = add(at, result->node[i].text);
    if (at)
        add(at, result->text);
}

static void keep_result(struct queued *queued, const redlock_result *result)
{
    memcpy(queued->fields, result, FIELDS_SIZE);
    for (unsigned i = 0; i < result->nodes; i++)
        queued->node[i] =
            (struct node_result){result->node[i].name, result->node[i].outcome, result->node[i].latency_us};
    keep_texts(queued, result);
}

static const char *take_text(const char *at, char *text)
{
    if (!at) {
        text[0] = '\0';
        return NULL;
    }
    size_t size = strlen(at) + 1;
    memcpy(text, at, size);
    return at + size;
}

static void restore_result(const struct queued *queued, redlock_result *result)
{
    const char *text = queued->texts;
    memcpy(result, queued->fields, FIELDS_SIZE);
    for (unsigned i = 0; i < result->nodes; i++) {
        result->node[i].name = queued->node[i].name;
        result->node[i].outcome = queued->node[i].outcome;
        result->node[i].latency_us = queued->node[i].latency_us;
        text = take_text(text, result->node[i].text);
    }
    take_text(text, result->text);
    if (result->status != REDLOCK_OK)
        redlock_result_text(result);
}

static void finish(struct rl_call *call, int status, const redlock_result *result)
{
    struct queued *queued = (struct queued *)call;
    (void)status;
    rl_calls_finished(&queued->thread->calls, call);
    if (!queued->reports) {
        atomic_fetch_sub(&queued->thread->queued, 1);
        free_queued(queued);
        return;
    }
    keep_result(queued, result);
    if (call->lock && queued->completion.run == run_acquire)
        atomic_store(&call->lock->delivery, RL_ON_ITS_WAY); /* until its callback runs */
    if (call->lock && queued->events)
        rl_lock_events_ref(queued->events); /* the handle's */
    rl_completions_add(&queued->thread->completions, &queued->completion);
}

/* The callback may start another call. */
static struct queued *begin_callback(struct rl_completion *completion, redlock_result *result)
{
    struct queued *queued = queued_of(completion);
    atomic_fetch_sub(&queued->thread->queued, 1);
    restore_result(queued, result);
    return queued;
}

static void run_plain(struct rl_completion *completion)
{
    redlock_result result;
    struct queued *queued = begin_callback(completion, &result);
    queued->callback.plain(queued->call.client, &result, queued->arg);
}

static void run_query(struct rl_completion *completion)
{
    redlock_result result;
    struct queued *queued = begin_callback(completion, &result);
    queued->callback.query(queued->call.client, queued->call.state, &result, queued->arg);
}

/* If the client began to close since the grant, it releases the lock. */
static void cancel_if_closing(struct queued *queued, redlock_result *result)
{
    bool closing = atomic_load(&queued->thread->closing) != RL_OPEN;
    if (!queued->call.lock || rl_lease_deliver(queued->call.lock, closing ? RL_RECALLED : RL_DELIVERED))
        return;
    rl_lock_events_stop(queued->events);
    queued->call.lock = NULL;
    result->status = result->cause = REDLOCK_CANCELLED;
    result->validity_ms = 0;
    result->fence = 0;
    result->text[0] = '\0'; /* of the grant */
    redlock_result_text(result);
}

static void run_acquire(struct rl_completion *completion)
{
    redlock_result result;
    struct queued *queued = begin_callback(completion, &result);
    cancel_if_closing(queued, &result);
    queued->callback.acquire(queued->call.client, queued->call.lock, &result, queued->arg);
}

/* ----------------------------------------------------------------------------------------------------------- start */

static int count(redlock_client *client, bool is_release)
{
    unsigned most = client->core.options.operations_max;
    if (atomic_fetch_add(&client->loop_thread->queued, 1) < most || is_release)
        return REDLOCK_OK;
    atomic_fetch_sub(&client->loop_thread->queued, 1);
    rl_client_complain(client, "more than operations_max operations that redlock_dispatch() has not completed");
    return REDLOCK_INVALID;
}

static struct queued *allocate(redlock_client *client, const struct arguments *arguments)
{
    redlock_acquire_options options = read_options(arguments->options);
    struct queued *queued = rl_core_allocate(&client->core, sizeof *queued + memory_for(client, arguments, &options));
    if (!queued)
        return NULL;
    memset(queued, 0, sizeof *queued);
    queued->thread = client->loop_thread;
    queued->options = options;
    queued->call.client = client;
    queued->call.finish = finish;
    queued->call.drop = drop;
    queued->completion.end = end;
    copy_arguments(queued, arguments);
    return queued;
}

/* NULL: *status has the reason, and nothing was done. */
static struct queued *create(redlock_client *client, const struct arguments *arguments, int *status)
{
    *status = count(client, arguments->is_release);
    struct queued *queued = *status ? NULL : allocate(client, arguments);
    if (!queued && !*status) {
        atomic_fetch_sub(&client->loop_thread->queued, 1);
        *status = REDLOCK_NO_MEMORY;
    }
    return queued;
}

static int start(struct queued *queued, void (*on_loop)(struct rl_call *call),
                 void (*run)(struct rl_completion *completion), void *arg)
{
    queued->call.start = on_loop;
    queued->completion.run = run;
    queued->arg = arg;
    if (rl_loop_thread_queue(queued->call.client, &queued->call))
        return REDLOCK_OK;
    atomic_fetch_sub(&queued->thread->queued, 1);
    free_queued(queued);
    return REDLOCK_INVALID;
}

static int start_plain(struct queued *queued, void (*on_loop)(struct rl_call *call), redlock_callback callback,
                       void *arg)
{
    queued->callback.plain = callback;
    queued->reports = callback;
    return start(queued, on_loop, run_plain, arg);
}

int rl_queued_ready(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(client, &(struct arguments){0}, &status);
    if (!queued)
        return status;
    queued->call.wait_ms = wait_ms;
    return start_plain(queued, rl_call_ready, callback, arg);
}

/* Events of the lock take the same way as the completion. */
static bool redirect_events(struct queued *queued)
{
    redlock_acquire_options *options = &queued->options;
    if (!options->event)
        return true;
    queued->events = rl_lock_events_create(queued->thread, options->event, options->event_arg);
    options->event = rl_lock_events_post;
    options->event_arg = queued->events;
    return queued->events;
}

static int start_acquire(redlock_client *client, const struct arguments *arguments,
                         void (*on_loop)(struct rl_call *call), redlock_acquire_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(client, arguments, &status);
    if (!queued)
        return status;
    if (!redirect_events(queued)) {
        atomic_fetch_sub(&queued->thread->queued, 1);
        free_queued(queued);
        return REDLOCK_NO_MEMORY;
    }
    queued->call.caller = rl_caller_of(rl_owner_none(), &queued->options);
    queued->callback.acquire = callback;
    queued->reports = true;
    return start(queued, on_loop, run_acquire, arg);
}

/* The resource's size is in the options. */
static size_t size_in(const redlock_acquire_options *options)
{
    return read_options(options).resource_size;
}

int rl_queued_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                      redlock_acquire_callback callback, void *arg)
{
    const struct arguments arguments = {.resource = resource, .size = size_in(options), .options = options};
    return start_acquire(client, &arguments, rl_call_acquire, callback, arg);
}

int rl_queued_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                    const char *token, redlock_acquire_callback callback, void *arg)
{
    const struct arguments arguments = {
        .resource = resource, .size = size_in(options), .options = options, .token = token};
    return start_acquire(client, &arguments, rl_call_adopt, callback, arg);
}

int rl_queued_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                            redlock_callback callback, void *arg)
{
    int status;
    const struct arguments arguments = {.resource = resource, .size = size, .token = token, .is_release = true};
    struct queued *queued = create(client, &arguments, &status);
    return queued ? start_plain(queued, rl_call_release_token, callback, arg) : status;
}

int rl_queued_extend(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(lock->lease->locks->client, &(struct arguments){0}, &status);
    if (!queued)
        return status;
    queued->call.lock = lock;
    queued->call.ttl_ms = ttl_ms;
    return start_plain(queued, rl_call_extend, callback, arg);
}

int rl_queued_release(redlock_lock *lock, redlock_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(lock->lease->locks->client, &(struct arguments){.is_release = true}, &status);
    rl_lock_events_stop_for(lock);
    if (!queued) {
        rl_blocking_release_detached(lock);
        return status;
    }
    queued->call.lock = lock;
    return start_plain(queued, rl_call_release, callback, arg);
}

int rl_queued_trust(redlock_client *client, redlock_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(client, &(struct arguments){0}, &status);
    return queued ? start_plain(queued, rl_call_trust, callback, arg) : status;
}

int rl_queued_inspect(redlock_client *client, const char *resource, size_t size, redlock_callback callback, void *arg)
{
    int status;
    struct queued *queued = create(client, &(struct arguments){.resource = resource, .size = size}, &status);
    return queued ? start_plain(queued, rl_call_inspect, callback, arg) : status;
}

int rl_queued_query(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                    void *arg)
{
    int status;
    const struct arguments arguments = {.resource = resource, .size = size, .is_query = true};
    struct queued *queued = create(client, &arguments, &status);
    if (!queued)
        return status;
    queued->callback.query = callback;
    queued->reports = true;
    return start(queued, rl_call_query, run_query, arg);
}
