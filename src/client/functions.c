/*
 * The public functions that start an operation, each in two forms, and the three ways to call:
 *
 *   attached       the caller's thread runs the loop: the asynchronous form starts the operation at once
 *   by descriptor  the asynchronous form posts the call to the loop's thread (posted.c)
 *   blocking       the call is on the caller's stack; the loop's thread starts the operation, and its end wakes the
 *                  caller. So it allocates nothing and cannot fail half way
 *
 * What an operation needs is in its struct rl_operation_type. A new one gets its two forms here.
 */
#include <errno.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>

#include "src/client/client.h"
#include "src/client/functions.h"
#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"
#include "src/client/options.h"
#include "src/client/posted.h"
#include "src/core/result.h"

/* A call of an adopt or acquire has its limits in the options of that. */
static struct rl_caller caller_of(struct rl_owner owner, const struct rl_arguments *arguments)
{
    const redlock_call_options *call = &arguments->call;
    struct rl_caller caller = {owner, QUORUM_NEVER, call->cancellation ? atomic_load(&call->cancellation->changes) : 0};
    if (call->timeout_ms >= 0 && (uint64_t)call->timeout_ms < QUORUM_NEVER / QUORUM_MILLISECOND)
        caller.due = quorum_time_add(rl_now(), (quorum_duration)call->timeout_ms * QUORUM_MILLISECOND);
    return caller;
}

/* ---------------------------------------------------------------------------------------------------- asynchronous */

static struct rl_callback to_result(redlock_callback callback, void *arg)
{
    return (struct rl_callback){callback ? RL_RESULT_CALLBACK : RL_NO_CALLBACK, {.result = callback}, arg};
}

static struct rl_callback to_lock(redlock_acquire_callback callback, void *arg)
{
    return (struct rl_callback){callback ? RL_LOCK_CALLBACK : RL_NO_CALLBACK, {.lock = callback}, arg};
}

static struct rl_callback to_state(redlock_query_callback callback, void *arg)
{
    return (struct rl_callback){callback ? RL_STATE_CALLBACK : RL_NO_CALLBACK, {.state = callback}, arg};
}

/* Of a client that owns its loop's thread any thread may call, until it closes. */
static int enter_async(redlock_client *client, bool may_close)
{
    if (!client || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    bool is_wrong_thread = !client->loop_thread && !pthread_equal(client->thread, pthread_self());
    if (is_wrong_thread)
        rl_client_complain(client, "a call from another thread than the one that attached the client");
    else if (may_close)
        return REDLOCK_OK;
    else if (client->loop_thread ? atomic_load(&client->loop_thread->closing) != RL_OPEN : client->core.closing)
        rl_client_complain(client, "a call on a client that is being closed");
    else
        return REDLOCK_OK;
    return REDLOCK_INVALID;
}

/* For a function that must not take its argument if the options are bad. */
static int check_async(redlock_client *client, const redlock_call_options *call)
{
    int status = rl_call_options_check(client, call, NULL);
    if (status)
        rl_client_complain(client, "bad call options: they must start from REDLOCK_CALL_OPTIONS_INIT, with a "
                                   "timeout_ms of 0, more, or REDLOCK_FOREVER, and a cancellation of this client");
    return status;
}

static int start_entered(const struct rl_operation_type *type, struct rl_arguments *arguments,
                         struct rl_callback callback)
{
    arguments->caller = caller_of(rl_owner_none(), arguments);
    if (arguments->client->loop_thread)
        return rl_posted_start(type, arguments, callback);
    return rl_operation_start(type, arguments, callback, NULL);
}

static int start(const struct rl_operation_type *type, struct rl_arguments *arguments, struct rl_callback callback)
{
    int status = enter_async(arguments->client, false);
    if (status)
        return status;
    if (callback.kind != RL_NO_CALLBACK)
        return start_entered(type, arguments, callback);
    rl_client_complain(arguments->client,
                       "the callback of a ..._async function is NULL; pass one: only the callback gets the result");
    return REDLOCK_INVALID;
}

/* -------------------------------------------------------------------------------------------------------- blocking */

/* What the caller wants to have; each may be NULL. */
struct wanted {
    redlock_result *result;
    redlock_lock **lock;
    redlock_state *state;
    int *loss;
};

struct blocking_call {
    struct rl_call base;
    struct wanted wanted;
    int (*ask)(void *data); /* of rl_client_ask() */
    void *data;
    int status;
    sem_t done;
};

static void end_blocking(struct blocking_call *call, int status)
{
    call->status = status;
    sem_post(&call->done);
}

/* On the loop's thread. */
static void finish_blocking(struct rl_call *base, const struct rl_returned *returned, const redlock_result *result)
{
    struct blocking_call *call = (struct blocking_call *)base;
    const struct wanted *wanted = &call->wanted;
    if (wanted->result) {
        memcpy(wanted->result, result, offsetof(redlock_result, node) + result->nodes * sizeof *result->node);
        memcpy(wanted->result->text, result->text, strlen(result->text) + 1);
    }
    if (wanted->lock)
        *wanted->lock = returned->lock;
    if (wanted->state && returned->state)
        *wanted->state = *returned->state;
    if (wanted->loss)
        *wanted->loss = returned->loss;
    end_blocking(call, result->status);
}

static void run_ask(struct rl_call *base)
{
    struct blocking_call *call = (struct blocking_call *)base;
    end_blocking(call, call->ask(call->data));
}

/* The call is on this thread's stack: if the thread were cancelled, an acquired lock's handle would be lost. */
static int post_and_wait(struct blocking_call *call)
{
    if (sem_init(&call->done, 0, 0) != 0)
        return rl_result_fail(call->wanted.result, REDLOCK_SYSTEM, "the system refused a semaphore");
    int cancel = rl_thread_disable_cancel();
    if (!rl_loop_thread_post_now(call->base.arguments.client, &call->base))
        rl_call_fail(&call->base, REDLOCK_INVALID, "the client is closed: only its last callbacks are left");
    while (sem_wait(&call->done) != 0 && errno == EINTR)
        ;
    sem_destroy(&call->done);
    rl_thread_restore_cancel(cancel);
    return call->status;
}

static int enter_blocking(const redlock_client *client, redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "the client is NULL");
    if (!rl_client_in_owner_process(client))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the client belongs to the process this one was forked from; create another");
    if (!client->loop_thread)
        return rl_result_fail(result, REDLOCK_INVALID, "an asynchronous client: use the function's ..._async form");
    if (rl_loop_thread_is_current(client))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "called on the client's own thread, in a callback; call it on another thread");
    return REDLOCK_OK;
}

static int enter_blocking_on(const redlock_lock *lock, redlock_result *result)
{
    if (!lock)
        return rl_result_fail(result, REDLOCK_INVALID, "the lock is NULL: never acquired, or released already");
    return enter_blocking(redlock_lock_client(lock), result);
}

static int wait_entered(const struct rl_operation_type *type, struct rl_arguments *arguments, struct wanted wanted)
{
    struct blocking_call call = {
        .base = {.run = rl_call_run_operation, .finish = finish_blocking, .type = type, .arguments = *arguments},
        .wanted = wanted};
    call.base.arguments.caller = caller_of(rl_owner_thread(), arguments);
    return post_and_wait(&call);
}

static int wait_for(const struct rl_operation_type *type, struct rl_arguments *arguments, struct wanted wanted)
{
    if (type->returns_lock && !wanted.lock)
        return rl_result_fail(wanted.result, REDLOCK_INVALID,
                              "lock is NULL; pass the address of a redlock_lock pointer");
    if (wanted.lock)
        *wanted.lock = NULL;
    int status = enter_blocking(arguments->client, wanted.result);
    return status ? status : wait_entered(type, arguments, wanted);
}

/* In an event callback this already is the loop's thread. */
int rl_client_ask(redlock_client *client, int (*ask)(void *data), void *data)
{
    struct blocking_call call = {
        .base = {.run = run_ask, .finish = finish_blocking, .arguments = {.client = client}}, .ask = ask, .data = data};
    if (!client->loop_thread)
        return rl_client_enter(client) ? REDLOCK_INVALID : ask(data);
    return rl_loop_thread_is_current(client) ? ask(data) : post_and_wait(&call);
}

/* ------------------------------------------------------------------------------------------------------- functions */

#define NO_LIMITS        .call = REDLOCK_CALL_OPTIONS_INIT
#define LIMITS           .call = rl_call_options_known(options)
#define LIMITS_OF(known) .call = {REDLOCK_STRUCT_SIZE(redlock_call_options), REDLOCK_FOREVER, (known).cancellation}
#define ON_CLIENT(...)   (&(struct rl_arguments){.client = client, __VA_ARGS__})
#define ON_RESOURCE(...) ON_CLIENT(.resource = resource, __VA_ARGS__)
#define ON_LOCK(...)     (&(struct rl_arguments){.client = redlock_lock_client(lock), .lock = lock, __VA_ARGS__})

/* An adoption is one round, so wait_ms, by which an acquire tries again, is no more than its deadline. */
static redlock_call_options limits_of_adopt(const redlock_acquire_options *options)
{
    redlock_call_options call = REDLOCK_CALL_OPTIONS_INIT;
    call.cancellation = options->cancellation;
    if (options->wait_ms > 0)
        call.timeout_ms = options->wait_ms;
    return call;
}

int redlock_ready(redlock_client *client, int64_t wait_ms, redlock_result *result)
{
    return wait_for(&rl_ready, ON_CLIENT(.wait_ms = wait_ms, NO_LIMITS), (struct wanted){.result = result});
}

int redlock_ready_async(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg)
{
    return start(&rl_ready, ON_CLIENT(.wait_ms = wait_ms, NO_LIMITS), to_result(callback, arg));
}

static const struct rl_operation_type *acquire_type(const redlock_acquire_options *options)
{
    return options->any ? &rl_acquire_any : &rl_acquire;
}

int redlock_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                    redlock_lock **lock, redlock_result *result)
{
    const redlock_acquire_options known = rl_options_known(options);
    return wait_for(acquire_type(&known), ON_RESOURCE(.options = &known, LIMITS_OF(known)),
                    (struct wanted){.result = result, .lock = lock});
}

int redlock_acquire_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                          redlock_acquire_callback callback, void *arg)
{
    const redlock_acquire_options known = rl_options_known(options);
    return start(acquire_type(&known), ON_RESOURCE(.options = &known, LIMITS_OF(known)), to_lock(callback, arg));
}

int redlock_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                  const char *token, redlock_lock **lock, redlock_result *result)
{
    const redlock_acquire_options known = rl_options_known(options);
    return wait_for(&rl_adopt, ON_RESOURCE(.options = &known, .token = token, .call = limits_of_adopt(&known)),
                    (struct wanted){.result = result, .lock = lock});
}

int redlock_adopt_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                        const char *token, redlock_acquire_callback callback, void *arg)
{
    const redlock_acquire_options known = rl_options_known(options);
    return start(&rl_adopt, ON_RESOURCE(.options = &known, .token = token, .call = limits_of_adopt(&known)),
                 to_lock(callback, arg));
}

int redlock_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                          const redlock_call_options *options, redlock_result *result)
{
    return wait_for(&rl_release_token, ON_RESOURCE(.size = size, .token = token, LIMITS),
                    (struct wanted){.result = result});
}

int redlock_release_token_async(redlock_client *client, const char *resource, size_t size, const char *token,
                                const redlock_call_options *options, redlock_callback callback, void *arg)
{
    return start(&rl_release_token, ON_RESOURCE(.size = size, .token = token, LIMITS), to_result(callback, arg));
}

int redlock_extend(redlock_lock *lock, uint32_t ttl_ms, const redlock_call_options *options, redlock_result *result)
{
    int status = enter_blocking_on(lock, result);
    return status ? status
                  : wait_entered(&rl_extend, ON_LOCK(.ttl_ms = ttl_ms, LIMITS), (struct wanted){.result = result});
}

int redlock_extend_async(redlock_lock *lock, uint32_t ttl_ms, const redlock_call_options *options,
                         redlock_callback callback, void *arg)
{
    return start(&rl_extend, ON_LOCK(.ttl_ms = ttl_ms, LIMITS), to_result(callback, arg));
}

int redlock_downgrade(redlock_lock *lock, const redlock_call_options *options, redlock_result *result)
{
    int status = enter_blocking_on(lock, result);
    return status ? status : wait_entered(&rl_downgrade, ON_LOCK(LIMITS), (struct wanted){.result = result});
}

int redlock_downgrade_async(redlock_lock *lock, const redlock_call_options *options, redlock_callback callback,
                            void *arg)
{
    return start(&rl_downgrade, ON_LOCK(LIMITS), to_result(callback, arg));
}

/* Only the handle of a lost lock is left to free: in a callback on the loop's thread, or in the last callbacks of a
 * close, which frees the handle with the client. */
static bool release_lost(redlock_lock **lock, redlock_result *result)
{
    redlock_lock *released = *lock;
    redlock_client *client = redlock_lock_client(released);
    if (!rl_client_in_owner_process(client) || !client->loop_thread || !atomic_load(&released->lease->loss))
        return false;
    bool ended = rl_calls_are_closed(&client->loop_thread->calls);
    if (!ended && !rl_loop_thread_is_current(client))
        return false;
    *lock = NULL;
    rl_lock_events_stop_for(released);
    if (ended || client->core.closing)
        rl_result_fail(result, REDLOCK_CANCELLED, "%s", rl_client_close_text(client));
    else
        rl_result_fail(result, REDLOCK_LOST, "the lock was lost; its handle is freed");
    if (!ended)
        rl_release.abandon(&(struct rl_arguments){.client = client, .lock = released});
    return true;
}

int redlock_release(redlock_lock **lock, const redlock_call_options *options, redlock_result *result)
{
    redlock_result own;
    const redlock_call_options call = rl_call_options_known(options);
    if (lock && *lock && release_lost(lock, result ? result : &own))
        return (result ? result : &own)->status;
    int status = enter_blocking_on(lock ? *lock : NULL, result);
    if (!status)
        status = rl_call_options_check(redlock_lock_client(*lock), &call, result);
    if (status)
        return status;
    struct rl_arguments arguments = {.client = redlock_lock_client(*lock), .lock = *lock, .call = call};
    rl_lock_events_stop_for(*lock);
    *lock = NULL;
    return wait_entered(&rl_release, &arguments, (struct wanted){.result = result});
}

int redlock_release_async(redlock_lock **lock, const redlock_call_options *options, redlock_callback callback,
                          void *arg)
{
    redlock_lock *released = lock ? *lock : NULL;
    const redlock_call_options call = rl_call_options_known(options);
    int status = enter_async(redlock_lock_client(released), true);
    if (!status)
        status = check_async(redlock_lock_client(released), &call);
    if (status)
        return status;
    struct rl_arguments arguments = {.client = redlock_lock_client(released), .lock = released, .call = call};
    *lock = NULL;
    if (arguments.client->loop_thread)
        rl_lock_events_stop_for(released);
    return start_entered(&rl_release, &arguments, to_result(callback, arg));
}

int redlock_wait_lost(redlock_lock *lock, int64_t wait_ms, int *loss)
{
    if (enter_blocking_on(lock, NULL) || wait_ms < REDLOCK_FOREVER)
        return REDLOCK_INVALID;
    const redlock_call_options options = {REDLOCK_STRUCT_SIZE(redlock_call_options), wait_ms, NULL};
    int known = REDLOCK_NOT_LOST,
        status = wait_entered(&rl_watch, ON_LOCK(.call = options), (struct wanted){.loss = &known});
    if (loss)
        *loss = known;
    return status;
}

int redlock_trust(redlock_client *client, const redlock_call_options *options, redlock_result *result)
{
    return wait_for(&rl_trust, ON_CLIENT(LIMITS), (struct wanted){.result = result});
}

int redlock_trust_async(redlock_client *client, const redlock_call_options *options, redlock_callback callback,
                        void *arg)
{
    return start(&rl_trust, ON_CLIENT(LIMITS), to_result(callback, arg));
}

int redlock_inspect(redlock_client *client, const char *resource, size_t size, const redlock_call_options *options,
                    redlock_result *result)
{
    return wait_for(&rl_inspect, ON_RESOURCE(.size = size, LIMITS), (struct wanted){.result = result});
}

int redlock_inspect_async(redlock_client *client, const char *resource, size_t size,
                          const redlock_call_options *options, redlock_callback callback, void *arg)
{
    return start(&rl_inspect, ON_RESOURCE(.size = size, LIMITS), to_result(callback, arg));
}

int redlock_query(redlock_client *client, const char *resource, size_t size, const redlock_call_options *options,
                  redlock_state *state, redlock_result *result)
{
    return wait_for(&rl_query, ON_RESOURCE(.size = size, LIMITS), (struct wanted){.result = result, .state = state});
}

int redlock_query_async(redlock_client *client, const char *resource, size_t size, const redlock_call_options *options,
                        redlock_query_callback callback, void *arg)
{
    return start(&rl_query, ON_RESOURCE(.size = size, LIMITS), to_state(callback, arg));
}

int redlock_scan(redlock_client *client, uint32_t node, const char *pattern, redlock_scan_callback found,
                 void *found_arg, const redlock_call_options *options, redlock_result *result)
{
    return wait_for(&rl_scan,
                    ON_CLIENT(.resource = pattern, .node = node, .found = found, .found_arg = found_arg, LIMITS),
                    (struct wanted){.result = result});
}

int redlock_scan_async(redlock_client *client, uint32_t node, const char *pattern, redlock_scan_callback found,
                       void *found_arg, const redlock_call_options *options, redlock_callback callback, void *arg)
{
    return start(&rl_scan, ON_CLIENT(.resource = pattern, .node = node, .found = found, .found_arg = found_arg, LIMITS),
                 to_result(callback, arg));
}

/* ----------------------------------------------------------------------------------------------------------- close */

int redlock_close_async(redlock_client **client, const redlock_call_options *options, redlock_callback callback,
                        void *arg)
{
    redlock_client *closed = client ? *client : NULL;
    if (!closed)
        return REDLOCK_INVALID;
    if (!rl_client_in_owner_process(closed)) {
        *client = NULL;
        if (closed->loop_thread)
            rl_loop_thread_drop(closed);
        else
            rl_client_drop(closed);
        return REDLOCK_OK;
    }
    struct rl_arguments arguments = {.client = closed, LIMITS};
    if (check_async(closed, &arguments.call))
        return REDLOCK_INVALID;
    arguments.caller = caller_of(rl_owner_none(), &arguments);
    if (closed->loop_thread)
        return rl_loop_thread_close_async(client, &arguments, callback, arg);
    if (rl_client_enter(closed))
        return REDLOCK_INVALID;
    *client = NULL;
    return rl_client_close(&arguments, callback, arg);
}

static int check_close(redlock_client *client, const redlock_call_options *call, redlock_result *result)
{
    int status = enter_blocking(client, result);
    if (!status)
        status = rl_call_options_check(client, call, result);
    if (status)
        return status;
    if (rl_completions_is_dispatcher(&client->loop_thread->completions))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "called inside a callback that redlock_dispatch() runs; return from it first, or use "
                              "redlock_close_async()");
    if (!rl_loop_thread_begin_close(client, RL_CLOSING))
        return rl_result_fail(result, REDLOCK_INVALID, "the client is being closed already");
    return REDLOCK_OK;
}

static int close_client(redlock_client **client, const redlock_call_options *options, redlock_result *result)
{
    redlock_client *closing = client ? *client : NULL;
    if (!closing)
        return rl_result_fail(result, REDLOCK_INVALID, "the client is NULL: never made, or closed already");
    if (closing->loop_thread && !rl_client_in_owner_process(closing)) {
        *client = NULL;
        rl_loop_thread_drop(closing);
        return REDLOCK_OK;
    }
    struct blocking_call call = {.base = {.run = rl_loop_thread_start_close,
                                          .finish = finish_blocking,
                                          .arguments = {.client = closing, LIMITS}},
                                 .wanted = {.result = result}};
    struct rl_arguments *arguments = &call.base.arguments;
    int status = check_close(closing, &arguments->call, result);
    if (status)
        return status;
    *client = NULL;
    arguments->caller = caller_of(rl_owner_thread(), arguments);
    status = post_and_wait(&call);
    rl_loop_thread_end(closing);
    return status;
}

int redlock_close(redlock_client **client, const redlock_call_options *options, redlock_result *result)
{
    int cancel = rl_thread_disable_cancel();
    int status = close_client(client, options, result);
    rl_thread_restore_cancel(cancel);
    return status;
}
