/* The asynchronous API: checks the calling thread and process, and starts the operation. */
#include "src/client/acquire.h"
#include "src/client/adopt.h"
#include "src/client/blocking.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/client/inspect.h"
#include "src/client/query.h"
#include "src/client/ready.h"
#include "src/client/release.h"
#include "src/client/trust.h"
#include "src/core/result.h"

int redlock_attach(struct ev_loop *loop, const char *nodes, const redlock_options *options, redlock_client **client,
                   redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "client is NULL; give the address of a redlock_client pointer");
    *client = NULL;
    if (!loop)
        return rl_result_fail(result, REDLOCK_INVALID, "loop is NULL; give an ev_loop, or use redlock_connect()");
    return rl_client_create(loop, false, nodes, options, client, result);
}

/* A client of the blocking API accepts no asynchronous calls. */
static int enter(const redlock_client *client)
{
    int status = rl_client_enter(client);
    return status == REDLOCK_OK && client->blocking ? REDLOCK_INVALID : status;
}

static int enter_lock(const redlock_lock *lock)
{
    return lock ? enter(lock->lease->locks->client) : REDLOCK_INVALID;
}

int redlock_ready_async(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_ready_start(client, wait_ms, callback, arg);
}

int redlock_acquire_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                          redlock_acquire_callback callback, void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_acquire_start(client, resource, options, rl_owner_none(), callback, arg);
}

int redlock_adopt_async(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                        const char *token, redlock_acquire_callback callback, void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_adopt_start(client, resource, options, token, rl_owner_none(), callback, arg);
}

int redlock_release_token_async(redlock_client *client, const char *resource, size_t size, const char *token,
                                redlock_callback callback, void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_release_token_start(client, resource, size, token, callback, arg);
}

int redlock_extend_async(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg)
{
    int status = enter_lock(lock);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_extend_start(lock, ttl_ms, callback, arg);
}

int redlock_release_async(redlock_lock **lock, redlock_callback callback, void *arg)
{
    int status = lock ? enter_lock(*lock) : REDLOCK_INVALID;
    if (status)
        return status;
    redlock_lock *released = *lock;
    *lock = NULL;
    return rl_release_start(released, callback, arg);
}

int redlock_trust_async(redlock_client *client, redlock_callback callback, void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_trust_start(client, callback, arg);
}

int redlock_inspect_async(redlock_client *client, const char *resource, size_t size, redlock_callback callback,
                          void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_inspect_start(client, resource, size, callback, arg);
}

int redlock_query_async(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                        void *arg)
{
    int status = enter(client);
    if (status || !callback)
        return REDLOCK_INVALID;
    return rl_query_start(client, resource, size, callback, arg);
}

int redlock_close_async(redlock_client **client, redlock_callback callback, void *arg)
{
    redlock_client *closed = client ? *client : NULL;
    if (!closed || closed->blocking)
        return REDLOCK_INVALID;
    if (!rl_client_in_owner_process(closed)) {
        *client = NULL;
        rl_client_destroy(closed);
        return REDLOCK_OK;
    }
    if (rl_client_enter(closed))
        return REDLOCK_INVALID;
    *client = NULL;
    return rl_client_close(closed, callback, arg);
}
