/* redlock_descriptor() and redlock_dispatch(): the completions of a client that owns its loop's thread, for any event
 * loop. */
#include <stddef.h>

#include "src/client/client.h"
#include "src/client/loop_thread.h"
#include "src/core/thread.h"

static int refuse(redlock_client *client, const char *text)
{
    rl_client_complain(client, text);
    return REDLOCK_INVALID;
}

int redlock_descriptor(redlock_client *client)
{
    if (!client || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    if (!client->loop_thread)
        return refuse(client, "redlock_descriptor(): the client is attached to a loop, which calls its callbacks; use "
                              "redlock_connect()");
    int descriptor = rl_completions_descriptor(&client->loop_thread->completions);
    return descriptor < 0 ? REDLOCK_SYSTEM : descriptor;
}

static int enter(redlock_client *client)
{
    if (!client || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    struct rl_loop_thread *thread = client->loop_thread;
    if (!thread)
        return refuse(client, "redlock_dispatch(): the client is attached to a loop, which calls its callbacks; use "
                              "redlock_connect()");
    if (rl_loop_thread_is_current(client))
        return refuse(client, "redlock_dispatch(): called on the client's own thread; call it on a thread of yours");
    if (atomic_load(&thread->closing) == RL_CLOSING)
        return refuse(client,
                      "redlock_dispatch(): redlock_close() is closing the client, and calls the last callbacks");
    if (rl_completions_is_dispatcher(&thread->completions))
        return refuse(client, "redlock_dispatch(): called inside a callback of this client; return from it first");
    if (!rl_completions_enter(&thread->completions))
        return refuse(client, "redlock_dispatch(): another thread is dispatching this client; one thread at a time");
    return REDLOCK_OK;
}

/* Also if a callback ends its thread. */
static void leave(void *data)
{
    redlock_client *client = data;
    struct rl_loop_thread *thread = client->loop_thread;
    if (rl_client_in_owner_process(client))
        rl_calls_flush(&thread->calls, client->core.wakeup);
    rl_completions_leave(&thread->completions);
}

int redlock_dispatch(redlock_client *client)
{
    int status = enter(client);
    if (status)
        return status;
    volatile bool closed = false;
    int cancel = rl_thread_disable_cancel();
    pthread_cleanup_push(leave, client);
    closed = rl_completions_run(&client->loop_thread->completions);
    pthread_cleanup_pop(1);
    if (closed)
        rl_loop_thread_end_async(client);
    rl_thread_restore_cancel(cancel);
    return REDLOCK_OK;
}
