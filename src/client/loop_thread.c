#include "src/client/loop_thread.h"

#include <assert.h>

#include "src/client/client.h"
#include "src/client/options.h"
#include "src/core/result.h"

/* ---------------------------------------------------------------------------------------------------- loop's thread */

/* A thread reads `awake` to learn whether it is the loop's thread; a forked child, whether that was in the middle of a
 * change at the fork. */
static void loop_thread_falls_asleep(struct ev_loop *loop)
{
    struct rl_loop_thread *thread = ev_userdata(loop);
    atomic_store_explicit(&thread->awake, (pthread_t)0, memory_order_release);
}

static void loop_thread_wakes_up(struct ev_loop *loop)
{
    struct rl_loop_thread *thread = ev_userdata(loop);
    atomic_store_explicit(&thread->awake, pthread_self(), memory_order_relaxed);
    rl_calls_wake_up(thread->client->core.wakeup);
}

bool rl_loop_thread_is_current(const redlock_client *client)
{
    return pthread_equal(atomic_load(&client->loop_thread->awake), pthread_self());
}

/* In a child that was forked in an event's callback this is the only thread. The epoll descriptors and the timers are
 * the parent's, so the thread ends, and the child with it. */
static void *loop_thread_run(void *data)
{
    struct rl_loop_thread *thread = data;
    loop_thread_wakes_up(thread->loop);
    while (!thread->ended && rl_client_in_owner_process(thread->client))
        ev_run(thread->loop, EVRUN_ONCE);
    if (!thread->ended)
        return NULL;
    rl_calls_close(&thread->calls);
    rl_completions_post(&thread->completions);
    loop_thread_falls_asleep(thread->loop);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- caller's thread */

bool rl_loop_thread_post_now(redlock_client *client, struct rl_call *call)
{
    struct rl_loop_thread *thread = client->loop_thread;
    if (rl_completions_is_dispatcher(&thread->completions))
        rl_calls_flush(&thread->calls, client->core.wakeup); /* the earlier calls of its callbacks */
    return rl_calls_post(&thread->calls, client->core.wakeup, call);
}

bool rl_loop_thread_post(redlock_client *client, struct rl_call *call)
{
    struct rl_loop_thread *thread = client->loop_thread;
    if (!rl_completions_is_dispatcher(&thread->completions))
        return rl_loop_thread_post_now(client, call);
    rl_calls_gather(&thread->calls, call);
    return true;
}

/* -------------------------------------------------------------------------------------------------------- creation */

static void loop_thread_free(struct rl_loop_thread *thread)
{
    redlock_allocator allocator = thread->allocator;
    if (thread->loop)
        ev_loop_destroy(thread->loop);
    rl_free(&allocator, thread);
}

static void loop_thread_free_closed(void *data)
{
    struct rl_loop_thread *thread = data;
    rl_completions_close(&thread->completions);
    loop_thread_free(thread);
}

static int loop_thread_create_client(struct rl_loop_thread *thread, const char *nodes, const redlock_options *options,
                                     redlock_client **client, redlock_result *result)
{
    redlock_client *made = NULL;
    thread->loop = ev_loop_new(EVFLAG_NOENV);
    if (!thread->loop)
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system refused an event loop; raise the limit of open files (ulimit -n)");
    int status = rl_client_create(thread->loop, true, nodes, options, &made, result);
    if (status)
        return status;
    made->loop_thread = thread;
    thread->client = made;
    thread->completions.owner = made->core.owner;
    ev_set_userdata(thread->loop, thread);
    ev_set_loop_release_cb(thread->loop, loop_thread_falls_asleep, loop_thread_wakes_up);
    if (!rl_thread_start(&thread->thread, loop_thread_run, thread)) {
        rl_client_destroy(made);
        return rl_result_fail(result, REDLOCK_SYSTEM,
                              "the system refused a thread; raise the limit of processes (ulimit -u)");
    }
    *client = made;
    return REDLOCK_OK;
}

static int connect_client(const char *nodes, const redlock_options *options, redlock_client **client,
                          redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "client is NULL; pass the address of a redlock_client pointer");
    *client = NULL;
    redlock_options checked; /* checked before their allocator is used */
    int status = rl_options_read(options, &checked, result);
    if (status)
        return status;
    redlock_allocator allocator = rl_memory_allocator(&checked.allocator);
    struct rl_loop_thread *thread = rl_allocate(&allocator, sizeof *thread);
    if (!thread)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for a client");
    thread->allocator = allocator;
    rl_completions_open(&thread->completions, &thread->close.completion);
    status = loop_thread_create_client(thread, nodes, options, client, result);
    if (status)
        loop_thread_free_closed(thread);
    return status;
}

int redlock_connect(const char *nodes, const redlock_options *options, redlock_client **client, redlock_result *result)
{
    int cancel = rl_thread_disable_cancel();
    int status = connect_client(nodes, options, client, result);
    rl_thread_restore_cancel(cancel);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- closing */

bool rl_loop_thread_begin_close(redlock_client *client, enum rl_closing closing)
{
    int open = RL_OPEN;
    return atomic_compare_exchange_strong(&client->loop_thread->closing, &open, (int)closing);
}

static void loop_thread_on_closed(redlock_client *client, const redlock_result *result, void *arg)
{
    struct rl_call *call = arg;
    client->loop_thread->ended = true;
    ev_break(client->loop_thread->loop, EVBREAK_ALL);
    call->finish(call, &(struct rl_returned){.lock = NULL}, result);
}

void rl_loop_thread_start_close(struct rl_call *call)
{
    rl_client_close(&call->arguments, loop_thread_on_closed, call);
}

/* Runs the callbacks that are left, while the client still exists: it refuses their calls. It also refuses those that a
 * dispatching thread had gathered when the loop ended. */
static void loop_thread_end_client(redlock_client *client)
{
    struct rl_loop_thread *thread = client->loop_thread;
    assert(!rl_loop_thread_is_current(client) && atomic_load(&thread->closing) != RL_OPEN);
    pthread_join(thread->thread, NULL);
    rl_completions_enter_last(&thread->completions);
    do { /* a callback may release the handle of a lock that the close has ended, with a callback of its own */
        rl_calls_run_gathered(&thread->calls);
        rl_completions_post(&thread->completions);
        rl_completions_run(&thread->completions);
    } while (thread->calls.gathered);
}

void rl_loop_thread_end(redlock_client *client)
{
    struct rl_loop_thread *thread = client->loop_thread;
    loop_thread_end_client(client);
    rl_client_free(client);
    loop_thread_free_closed(thread);
}

/* In the callback the descriptor still exists: the caller can remove it from its loop. */
void rl_loop_thread_end_async(redlock_client *client)
{
    struct rl_loop_thread *thread = client->loop_thread;
    redlock_result result; /* not the thread's: an idle client needs no memory for it */
    loop_thread_end_client(client);
    rl_client_fill_close_result(client, &result);
    rl_client_free(client);
    pthread_cleanup_push(loop_thread_free_closed, thread); /* the callback may end its thread */
    thread->close.callback(NULL, &result, thread->close.arg);
    pthread_cleanup_pop(1);
}

void rl_loop_thread_drop(redlock_client *client)
{
    struct rl_loop_thread *thread = client->loop_thread;
    /* A thread worked on the client during the fork and may not exist in the child, so the client's memory may be
     * inconsistent: leave it alone. So if this thread is in a callback, which will return. */
    if (atomic_load(&thread->awake) != (pthread_t)0 || rl_completions_is_dispatcher(&thread->completions))
        return;
    rl_client_destroy(client);
    rl_calls_drop(&thread->calls);
    rl_completions_drop(&thread->completions);
    loop_thread_free(thread);
}

static void loop_thread_finish_close(struct rl_call *call, const struct rl_returned *returned,
                                     const redlock_result *result)
{
    struct rl_loop_thread *thread = call->arguments.client->loop_thread;
    (void)returned, (void)result;
    rl_completions_add(&thread->completions, &thread->close.completion);
    rl_completions_post(&thread->completions);
}

static void loop_thread_end_close(struct rl_completion *completion)
{
    (void)completion; /* in a forked child; it is part of the thread's struct */
}

int rl_loop_thread_close_async(redlock_client **client, const struct rl_arguments *arguments, redlock_callback callback,
                               void *arg)
{
    redlock_client *closed = *client;
    struct rl_loop_thread *thread = closed->loop_thread;
    if (!callback) {
        rl_client_complain(closed, "redlock_close_async(): the callback is NULL; a client that owns its loop's thread "
                                   "needs one, which says that the client is freed");
        return REDLOCK_INVALID;
    }
    if (!rl_loop_thread_begin_close(closed, RL_CLOSING_ASYNC))
        return REDLOCK_INVALID;
    *client = NULL;
    thread->close.callback = callback;
    thread->close.arg = arg;
    thread->close.completion.end = loop_thread_end_close;
    thread->close.call.arguments = *arguments;
    thread->close.call.run = rl_loop_thread_start_close;
    thread->close.call.finish = loop_thread_finish_close;
    rl_loop_thread_post(closed, &thread->close.call);
    return REDLOCK_OK;
}
