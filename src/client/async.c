/* The asynchronous functions: check the calling thread and process, and start the operation, or queue it to the
 * client's own loop thread. */
#include "src/client/acquire.h"
#include "src/client/adopt.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/client/inspect.h"
#include "src/client/loop_thread.h"
#include "src/client/query.h"
#include "src/client/queued.h"
#include "src/client/ready.h"
#include "src/client/release.h"
#include "src/client/trust.h"
#include "src/core/result.h"

int redlock_attach(struct ev_loop *loop, const char *nodes, const redlock_options *options, redlock_client **client,
                   redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "client is NULL; pass the address of a redlock_client pointer");
    *client = NULL;
    if (!loop)
        return rl_result_fail(result, REDLOCK_INVALID, "loop is NULL; pass an ev_loop, or use redlock_connect()");
    return rl_client_create(loop, false, nodes, options, client, result);
}

/* Of a client that owns its loop's thread any thread may call, until it closes. may_close: also during a close. */
static int enter(redlock_client *client, bool may_close)
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

static int enter_with(redlock_client *client, bool has_callback)
{
    int status = enter(client, false);
    if (status || has_callback)
        return status;
    rl_client_complain(client,
                       "the callback of a ..._async function is NULL; pass one: only the callback gets the result");
    return REDLOCK_INVALID;
}

int redlock_ready_async(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_ready(client, wait_ms, callback, arg);
    return rl_ready_start(client, wait_ms, callback, arg);
}

int redlock_acquire_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                          redlock_acquire_callback callback, void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_acquire(client, resource, options, callback, arg);
    return rl_acquire_start(client, resource, options, rl_caller_of(rl_owner_none(), options), callback, arg);
}

int redlock_adopt_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                        const char *token, redlock_acquire_callback callback, void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_adopt(client, resource, options, token, callback, arg);
    return rl_adopt_start(client, resource, options, token, rl_caller_of(rl_owner_none(), options), callback, arg);
}

int redlock_release_token_async(redlock_client *client, const char *resource, size_t size, const char *token,
                                redlock_callback callback, void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_release_token(client, resource, size, token, callback, arg);
    return rl_release_token_start(client, resource, size, token, callback, arg);
}

int redlock_extend_async(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg)
{
    int status = lock ? enter_with(lock->lease->locks->client, callback) : REDLOCK_INVALID;
    if (status)
        return status;
    if (lock->lease->locks->client->loop_thread)
        return rl_queued_extend(lock, ttl_ms, callback, arg);
    return rl_extend_start(lock, ttl_ms, callback, arg);
}

int redlock_release_async(redlock_lock **lock, redlock_callback callback, void *arg)
{
    int status = lock && *lock ? enter((*lock)->lease->locks->client, true) : REDLOCK_INVALID;
    if (status)
        return status;
    redlock_lock *released = *lock;
    *lock = NULL;
    if (released->lease->locks->client->loop_thread)
        return rl_queued_release(released, callback, arg);
    return rl_release_start(released, callback, arg);
}

int redlock_trust_async(redlock_client *client, redlock_callback callback, void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_trust(client, callback, arg);
    return rl_trust_start(client, callback, arg);
}

int redlock_inspect_async(redlock_client *client, const char *resource, size_t size, redlock_callback callback,
                          void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_inspect(client, resource, size, callback, arg);
    return rl_inspect_start(client, resource, size, callback, arg);
}

int redlock_query_async(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                        void *arg)
{
    int status = enter_with(client, callback);
    if (status)
        return status;
    if (client->loop_thread)
        return rl_queued_query(client, resource, size, callback, arg);
    return rl_query_start(client, resource, size, callback, arg);
}

int redlock_close_async(redlock_client **client, redlock_callback callback, void *arg)
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
    if (closed->loop_thread)
        return rl_loop_thread_close_async(client, callback, arg);
    if (rl_client_enter(closed))
        return REDLOCK_INVALID;
    *client = NULL;
    return rl_client_close(closed, callback, arg);
}
