/*
 * The blocking API is built on the asynchronous one: the caller queues its call, the loop's thread starts the operation,
 * and its callback wakes the caller. The call is on the caller's stack, so it allocates nothing and cannot fail half
 * way.
 */
#include "src/client/blocking.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "src/client/client.h"
#include "src/client/lock_events.h"
#include "src/client/loop_thread.h"
#include "src/client/release.h"
#include "src/client/statistics.h"
#include "src/client/status.h"
#include "src/core/result.h"
#include "src/core/thread.h"
#include "src/lock/renewal.h"

struct call {
    struct rl_call base;
    const redlock_lock *asked;
    redlock_node_status *node_status;
    redlock_statistics *statistics;
    char *text;
    uint32_t node;
    redlock_result *result; /* may be NULL */
    int status;
    sem_t done;
};

/* --------------------------------------------------------------------------------------------------- loop's thread */

static void copy_result(struct call *call, const redlock_result *result)
{
    if (!call->result || !result)
        return;
    memcpy(call->result, result, offsetof(redlock_result, node) + result->nodes * sizeof *result->node);
    memcpy(call->result->text, result->text, strlen(result->text) + 1);
}

static void finish(struct rl_call *base, int status, const redlock_result *result)
{
    struct call *call = (struct call *)base;
    copy_result(call, result);
    call->status = status;
    sem_post(&call->done);
}

static void start_held_by_me(struct rl_call *call)
{
    finish(call, rl_leases_have(&call->client->locks, call->resource, call->size), NULL);
}

static void start_hold_count(struct rl_call *call)
{
    finish(call, (int)((struct call *)call)->asked->lease->handles.count, NULL);
}

static void start_renewal_result(struct rl_call *base)
{
    const struct call *call = (struct call *)base;
    rl_renewal_fill(call->asked->lease, call->result);
    finish(base, REDLOCK_OK, NULL);
}

static void start_descriptor(struct rl_call *call)
{
    finish(call, rl_lease_descriptor(((struct call *)call)->asked->lease), NULL);
}

static void start_node_status(struct rl_call *base)
{
    const struct call *call = (struct call *)base;
    rl_status_fill(&base->client->nodes->node[call->node], call->node_status);
    finish(base, REDLOCK_OK, NULL);
}

static void start_statistics(struct rl_call *call)
{
    rl_statistics_fill(call->client, ((struct call *)call)->statistics);
    finish(call, REDLOCK_OK, NULL);
}

static void start_metrics(struct rl_call *base)
{
    const struct call *call = (struct call *)base;
    base->size = rl_metrics_write(base->client, call->text, base->size);
    finish(base, REDLOCK_OK, NULL);
}

static void start_release_detached(struct rl_call *call)
{
    if (call->client->core.closing)
        rl_release_lost(call->lock);
    else
        rl_release_start(call->lock, NULL, NULL);
    finish(call, REDLOCK_OK, NULL);
}

/* ------------------------------------------------------------------------------------------------- caller's thread */

static void queue(struct call *call)
{
    if (!rl_loop_thread_queue_now(call->base.client, &call->base))
        rl_call_fail(&call->base, REDLOCK_INVALID, "the client is closed: only its last callbacks are left");
}

static int run(struct call *call, void (*start)(struct rl_call *call))
{
    call->base.start = start;
    call->base.finish = finish;
    if (sem_init(&call->done, 0, 0) != 0)
        return rl_result_fail(call->result, REDLOCK_SYSTEM, "the system refused a semaphore");
    /* The call is on this thread's stack: if the thread were cancelled, an acquired lock's handle would be lost. */
    int cancel = rl_thread_disable_cancel();
    queue(call);
    while (sem_wait(&call->done) != 0 && errno == EINTR)
        ;
    sem_destroy(&call->done);
    rl_thread_restore_cancel(cancel);
    return call->status;
}

/* For calls that wait for no node. In an event callback this already is the loop's thread, which may run the call
 * directly. */
static int ask(struct call *call, void (*start)(struct rl_call *call))
{
    const redlock_client *client = call->base.client;
    if (!rl_loop_thread_is_current(client))
        return run(call, start);
    if (sem_init(&call->done, 0, 0) != 0)
        return REDLOCK_SYSTEM;
    call->base.finish = finish;
    start(&call->base);
    sem_destroy(&call->done);
    return call->status;
}

static int enter(const redlock_client *client, redlock_result *result)
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

static int enter_lock(const redlock_lock *lock, redlock_result *result)
{
    if (!lock)
        return rl_result_fail(result, REDLOCK_INVALID, "the lock is NULL: never acquired, or released already");
    return enter(lock->lease->locks->client, result);
}

int redlock_ready(redlock_client *client, int64_t wait_ms, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.base = {.client = client, .wait_ms = wait_ms}, .result = result};
    return status ? status : run(&call, rl_call_ready);
}

static int get_lock(struct call *call, void (*start)(struct rl_call *call), redlock_lock **lock)
{
    if (!lock)
        return rl_result_fail(call->result, REDLOCK_INVALID,
                              "lock is NULL; pass the address of a redlock_lock pointer");
    *lock = NULL;
    int status = enter(call->base.client, call->result);
    if (status)
        return status;
    call->base.caller = rl_caller_of(rl_owner_thread(), call->base.options);
    status = run(call, start);
    *lock = call->base.lock;
    return status;
}

int redlock_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                    redlock_lock **lock, redlock_result *result)
{
    struct call call = {.base = {.client = client, .resource = resource, .options = options}, .result = result};
    return get_lock(&call, rl_call_acquire, lock);
}

int redlock_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                  const char *token, redlock_lock **lock, redlock_result *result)
{
    struct call call = {.base = {.client = client, .resource = resource, .options = options, .token = token},
                        .result = result};
    return get_lock(&call, rl_call_adopt, lock);
}

int redlock_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                          redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.base = {.client = client, .resource = resource, .size = size, .token = token},
                        .result = result};
    return status ? status : run(&call, rl_call_release_token);
}

int redlock_extend(redlock_lock *lock, uint32_t ttl_ms, redlock_result *result)
{
    int status = enter_lock(lock, result);
    if (status)
        return status;
    struct call call = {.base = {.client = lock->lease->locks->client, .lock = lock, .ttl_ms = ttl_ms},
                        .result = result};
    return run(&call, rl_call_extend);
}

/* Only the handle of a lost lock is left to free: in a callback on the loop's thread, or in the last callbacks of a
 * close, which frees the handle with the client. */
static bool release_lost(redlock_lock **lock, redlock_result *result)
{
    redlock_lock *released = *lock;
    const redlock_client *client = released->lease->locks->client;
    if (!rl_client_in_owner_process(client) || !client->loop_thread || !atomic_load(&released->lease->loss))
        return false;
    bool ended = rl_calls_are_closed(&client->loop_thread->calls);
    if (!ended && !rl_loop_thread_is_current(client))
        return false;
    *lock = NULL;
    rl_lock_events_stop_for(released);
    if (ended || client->core.closing)
        rl_result_fail(result, REDLOCK_CANCELLED, "%s", rl_release_close_text(client));
    else
        rl_result_fail(result, REDLOCK_LOST, "the lock was lost; its handle is freed");
    if (!ended)
        rl_release_lost(released);
    return true;
}

int redlock_release(redlock_lock **lock, redlock_result *result)
{
    redlock_result own;
    if (lock && *lock && release_lost(lock, result ? result : &own))
        return (result ? result : &own)->status;
    int status = enter_lock(lock ? *lock : NULL, result);
    if (status)
        return status;
    struct call call = {.base = {.client = (*lock)->lease->locks->client, .lock = *lock}, .result = result};
    rl_lock_events_stop_for(*lock);
    *lock = NULL;
    return run(&call, rl_call_release);
}

int redlock_trust(redlock_client *client, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.base = {.client = client}, .result = result};
    return status ? status : run(&call, rl_call_trust);
}

int redlock_inspect(redlock_client *client, const char *resource, size_t size, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.base = {.client = client, .resource = resource, .size = size}, .result = result};
    return status ? status : run(&call, rl_call_inspect);
}

int rl_blocking_node_status(redlock_client *client, uint32_t node, redlock_node_status *status)
{
    struct call call = {.base = {.client = client}, .node = node, .node_status = status};
    return ask(&call, start_node_status);
}

int rl_blocking_statistics(redlock_client *client, redlock_statistics *statistics)
{
    struct call call = {.base = {.client = client}, .statistics = statistics};
    return ask(&call, start_statistics);
}

size_t rl_blocking_metrics(redlock_client *client, char *text, size_t size)
{
    struct call call = {.base = {.client = client, .size = size}, .text = text};
    return ask(&call, start_metrics) == REDLOCK_OK ? call.base.size : size;
}

int redlock_query(redlock_client *client, const char *resource, size_t size, redlock_state *state,
                  redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.base = {.client = client, .resource = resource, .size = size, .state = state},
                        .result = result};
    return status ? status : run(&call, rl_call_query);
}

int rl_blocking_held_by_me(redlock_client *client, const char *resource, size_t size)
{
    struct call call = {.base = {.client = client, .resource = resource, .size = size}};
    return ask(&call, start_held_by_me) == 1;
}

uint32_t rl_blocking_hold_count(const redlock_lock *lock)
{
    struct call call = {.base = {.client = lock->lease->locks->client}, .asked = lock};
    int count = ask(&call, start_hold_count);
    return count < 0 ? 0 : (uint32_t)count;
}

int rl_blocking_renewal_result(const redlock_lock *lock, redlock_result *result)
{
    struct call call = {.base = {.client = lock->lease->locks->client}, .asked = lock, .result = result};
    return ask(&call, start_renewal_result);
}

int rl_blocking_lost_descriptor(const redlock_lock *lock)
{
    struct call call = {.base = {.client = lock->lease->locks->client}, .asked = lock};
    return ask(&call, start_descriptor);
}

int redlock_wait_lost(redlock_lock *lock, int64_t wait_ms, int *loss)
{
    int status = enter_lock(lock, NULL);
    if (status || wait_ms < REDLOCK_FOREVER)
        return REDLOCK_INVALID;
    struct call call = {.base = {.client = lock->lease->locks->client, .lock = lock, .wait_ms = wait_ms}};
    status = run(&call, rl_call_watch);
    if (loss)
        *loss = call.base.loss;
    return status;
}

void rl_blocking_release_detached(redlock_lock *lock)
{
    struct call call = {.base = {.client = lock->lease->locks->client, .lock = lock}};
    ask(&call, start_release_detached);
}

static int check_close(redlock_client *client, redlock_result *result)
{
    int status = enter(client, result);
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

static int close_client(redlock_client **client, redlock_result *result)
{
    redlock_client *closing = client ? *client : NULL;
    if (!closing)
        return rl_result_fail(result, REDLOCK_INVALID, "the client is NULL: never made, or closed already");
    if (closing->loop_thread && !rl_client_in_owner_process(closing)) {
        *client = NULL;
        rl_loop_thread_drop(closing);
        return REDLOCK_OK;
    }
    int status = check_close(closing, result);
    if (status)
        return status;
    *client = NULL;
    struct call call = {.base = {.client = closing}, .result = result};
    status = run(&call, rl_loop_thread_start_close);
    rl_loop_thread_end(closing);
    return status;
}

int redlock_close(redlock_client **client, redlock_result *result)
{
    int cancel = rl_thread_disable_cancel();
    int status = close_client(client, result);
    rl_thread_restore_cancel(cancel);
    return status;
}
