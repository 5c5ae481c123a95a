/*
 * The blocking API is built on the asynchronous one: the caller pushes its call to a list, the loop's thread starts the
 * operation, and its callback wakes the caller. The call is on the caller's stack, so it allocates nothing and cannot
 * fail half way.
 */
#include "src/client/blocking.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "src/client/acquire.h"
#include "src/client/adopt.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/client/inspect.h"
#include "src/client/options.h"
#include "src/client/query.h"
#include "src/client/ready.h"
#include "src/client/release.h"
#include "src/client/statistics.h"
#include "src/client/status.h"
#include "src/client/trust.h"
#include "src/client/watch.h"
#include "src/core/memory.h"
#include "src/core/result.h"
#include "src/core/thread.h"
#include "src/lock/renewal.h"

struct call {
    struct call *next;
    void (*start)(struct call *call); /* runs on the loop's thread */
    redlock_client *client;
    struct rl_blocking *blocking; /* outlives the client during a close */
    const char *resource;
    const char *token;
    size_t size;
    int64_t wait_ms;
    uint32_t ttl_ms;
    const redlock_acquire_options *options;
    struct rl_owner owner; /* the calling thread */
    redlock_lock *lock;
    const redlock_lock *asked;
    redlock_state *state;
    redlock_node_status *node_status;
    redlock_statistics *statistics;
    char *text;
    uint32_t node;
    redlock_result *result; /* may be NULL */
    int status;
    int loss;
    sem_t done;
};

struct rl_blocking {
    struct ev_loop *loop;
    pthread_t thread;
    atomic_bool at_work; /* the loop's thread is not waiting for events: the client may be in the middle of a change */
    _Atomic(struct call *) calls; /* a lock-free stack, newest first */
};

/* --------------------------------------------------------------------------------------------------- loop's thread */

void rl_blocking_take_calls(redlock_client *client)
{
    struct call *in_order = NULL;
    if (!client->blocking)
        return;
    struct call *call = atomic_exchange(&client->blocking->calls, NULL);
    while (call) {
        struct call *next = call->next;
        call->next = in_order;
        in_order = call;
        call = next;
    }
    while (in_order) {
        struct call *next = in_order->next; /* starting a call may end it, and its memory with it */
        in_order->start(in_order);
        in_order = next;
    }
}

static void falls_asleep(struct ev_loop *loop)
{
    struct rl_blocking *blocking = ev_userdata(loop);
    atomic_store_explicit(&blocking->at_work, false, memory_order_release);
}

static void wakes_up(struct ev_loop *loop)
{
    struct rl_blocking *blocking = ev_userdata(loop);
    atomic_store_explicit(&blocking->at_work, true, memory_order_relaxed);
}

static void *run(void *data)
{
    ev_run(data, 0);
    return NULL;
}

static void finish(struct call *call, int status)
{
    call->status = status;
    sem_post(&call->done);
}

static void started(struct call *call, int status)
{
    if (status)
        finish(call, rl_result_fail(call->result, status, "%s", redlock_status_text(status)));
}

static void copy_result(struct call *call, const redlock_result *result)
{
    if (!call->result)
        return;
    memcpy(call->result, result, offsetof(redlock_result, node) + result->nodes * sizeof *result->node);
    memcpy(call->result->text, result->text, strlen(result->text) + 1);
}

static void told(redlock_client *client, const redlock_result *result, void *arg)
{
    struct call *call = arg;
    (void)client;
    copy_result(call, result);
    finish(call, result->status);
}

static void watched(int status, enum quorum_loss loss, void *arg)
{
    struct call *call = arg;
    call->loss = (int)loss;
    finish(call, status);
}

static void acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct call *call = arg;
    call->lock = lock;
    told(client, result, arg);
}

static void queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *arg)
{
    struct call *call = arg;
    if (call->state)
        memcpy(call->state, state, sizeof *state);
    told(client, result, arg);
}

static void closed(redlock_client *client, const redlock_result *result, void *arg)
{
    struct call *call = arg;
    ev_break(call->blocking->loop, EVBREAK_ALL);
    told(client, result, arg);
}

static bool refuses(struct call *call)
{
    if (!call->client->core.closing)
        return false;
    finish(call, rl_result_fail(call->result, REDLOCK_INVALID, "the client is being closed"));
    return true;
}

static void start_ready(struct call *call)
{
    if (!refuses(call))
        started(call, rl_ready_start(call->client, call->wait_ms, told, call));
}

static void start_acquire(struct call *call)
{
    if (!refuses(call))
        started(call, rl_acquire_start(call->client, call->resource, call->options, call->owner, acquired, call));
}

static void start_adopt(struct call *call)
{
    if (!refuses(call))
        started(call,
                rl_adopt_start(call->client, call->resource, call->options, call->token, call->owner, acquired, call));
}

static void start_release_token(struct call *call)
{
    if (!refuses(call))
        started(call, rl_release_token_start(call->client, call->resource, call->size, call->token, told, call));
}

static void start_extend(struct call *call)
{
    if (!refuses(call))
        started(call, rl_extend_start(call->lock, call->ttl_ms, told, call));
}

static void start_release(struct call *call)
{
    const redlock_client *client = call->client;
    if (!client->core.closing) {
        started(call, rl_release_start(call->lock, told, call));
        return;
    }
    rl_release_in_close(call->lock);
    finish(call, rl_result_fail(call->result, REDLOCK_CANCELLED, "the client is being closed, which %s",
                                client->core.options.leave_locks ? "leaves the lock to expire" : "releases the lock"));
}

static void start_query(struct call *call)
{
    if (!refuses(call))
        started(call, rl_query_start(call->client, call->resource, call->size, queried, call));
}

static void start_held_by_me(struct call *call)
{
    finish(call, rl_leases_have(&call->client->locks, call->resource, call->size));
}

static void start_hold_count(struct call *call)
{
    finish(call, (int)call->asked->lease->holds);
}

static void start_renewal_result(struct call *call)
{
    rl_renewal_fill(call->asked->lease, call->result);
    finish(call, REDLOCK_OK);
}

static void start_descriptor(struct call *call)
{
    finish(call, rl_lease_descriptor(call->asked->lease));
}

static void start_trust(struct call *call)
{
    if (!refuses(call))
        started(call, rl_trust_start(call->client, told, call));
}

static void start_inspect(struct call *call)
{
    if (!refuses(call))
        started(call, rl_inspect_start(call->client, call->resource, call->size, told, call));
}

static void start_node_status(struct call *call)
{
    rl_status_fill(&call->client->nodes->node[call->node], call->node_status);
    finish(call, REDLOCK_OK);
}

static void start_statistics(struct call *call)
{
    rl_statistics_fill(call->client, call->statistics);
    finish(call, REDLOCK_OK);
}

static void start_metrics(struct call *call)
{
    call->size = rl_metrics_write(call->client, call->text, call->size);
    finish(call, REDLOCK_OK);
}

static void start_watch(struct call *call)
{
    if (!refuses(call))
        started(call, rl_watch_start(call->lock, call->wait_ms, watched, call));
}

static void start_close(struct call *call)
{
    if (!refuses(call))
        rl_client_close(call->client, closed, call);
}

/* ------------------------------------------------------------------------------------------------- caller's thread */

static int wait_for(struct call *call, void (*start)(struct call *call))
{
    struct rl_blocking *blocking = call->client->blocking;
    call->start = start;
    call->blocking = blocking;
    if (sem_init(&call->done, 0, 0) != 0)
        return rl_result_fail(call->result, REDLOCK_SYSTEM, "the system gives no semaphore");
    /* The call is on this thread's stack: if the thread were cancelled, an acquired lock's handle would be lost. */
    int cancel = rl_thread_disable_cancel();
    /* Once the call is listed, it may end, and another thread may close the client, before this thread signals. */
    struct rl_wakeup *wakeup = rl_wakeup_ref(call->client->core.wakeup);
    struct call *first = atomic_load(&blocking->calls);
    do
        call->next = first;
    while (!atomic_compare_exchange_weak(&blocking->calls, &first, call));
    if (!first) /* otherwise the thread that pushed the first call signals, or has done so */
        rl_wakeup_signal(wakeup);
    rl_wakeup_unref(wakeup);
    while (sem_wait(&call->done) != 0 && errno == EINTR)
        ;
    sem_destroy(&call->done);
    rl_thread_restore_cancel(cancel);
    return call->status;
}

static bool is_own_thread(const redlock_client *client)
{
    return pthread_equal(client->blocking->thread, pthread_self());
}

/* For calls that wait for no node. In an event callback this already is the loop's thread, which may run the call
 * directly. */
static int ask(struct call *call, void (*start)(struct call *call))
{
    if (!is_own_thread(call->client))
        return wait_for(call, start);
    if (sem_init(&call->done, 0, 0) != 0)
        return REDLOCK_SYSTEM;
    start(call);
    sem_destroy(&call->done);
    return call->status;
}

static int enter(const redlock_client *client, redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "the client is NULL");
    if (!rl_client_in_owner_process(client))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "the client belongs to the process this one was forked from; make another");
    if (!client->blocking)
        return rl_result_fail(result, REDLOCK_INVALID, "an asynchronous client: use the function's ..._async form");
    if (is_own_thread(client))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "called on the client's own thread (in a log or allocator callback?)");
    return REDLOCK_OK;
}

static int enter_lock(const redlock_lock *lock, redlock_result *result)
{
    if (!lock)
        return rl_result_fail(result, REDLOCK_INVALID, "the lock is NULL: never acquired, or released already");
    return enter(lock->lease->locks->client, result);
}

static bool start_thread(struct rl_blocking *blocking)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&blocking->thread, NULL, run, blocking->loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static void free_blocking(const redlock_allocator *allocator, struct rl_blocking *blocking)
{
    if (blocking->loop)
        ev_loop_destroy(blocking->loop);
    rl_free(allocator, blocking);
}

static int begin(redlock_client *client, struct rl_blocking *blocking, redlock_result *result)
{
    client->blocking = blocking;
    atomic_init(&blocking->at_work, true);
    ev_set_userdata(blocking->loop, blocking);
    ev_set_loop_release_cb(blocking->loop, falls_asleep, wakes_up);
    if (!start_thread(blocking)) {
        rl_client_destroy(client);
        return rl_result_fail(result, REDLOCK_SYSTEM, "the system gives no thread");
    }
    return REDLOCK_OK;
}

static int connect_client(const char *nodes, const redlock_options *options, redlock_client **client,
                          redlock_result *result)
{
    if (!client)
        return rl_result_fail(result, REDLOCK_INVALID, "client is NULL; give the address of a redlock_client pointer");
    *client = NULL;
    redlock_options checked; /* checked before their allocator is used */
    int status = rl_options_read(options, &checked, result);
    if (status)
        return status;
    redlock_allocator allocator = rl_memory_allocator(&checked.allocator);
    struct rl_blocking *blocking = rl_allocate(&allocator, sizeof *blocking);
    if (!blocking)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for a client");
    blocking->loop = ev_loop_new(EVFLAG_NOENV);
    redlock_client *made = NULL;
    if (!blocking->loop)
        status =
            rl_result_fail(result, REDLOCK_SYSTEM, "the system gives no event loop; are too many descriptors open?");
    if (!status)
        status = rl_client_create(blocking->loop, true, nodes, options, &made, result);
    if (!status)
        status = begin(made, blocking, result);
    if (status)
        free_blocking(&allocator, blocking);
    else
        *client = made;
    return status;
}

int redlock_connect(const char *nodes, const redlock_options *options, redlock_client **client, redlock_result *result)
{
    int cancel = rl_thread_disable_cancel();
    int status = connect_client(nodes, options, client, result);
    rl_thread_restore_cancel(cancel);
    return status;
}

int redlock_ready(redlock_client *client, int64_t wait_ms, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.client = client, .wait_ms = wait_ms, .result = result};
    return status ? status : wait_for(&call, start_ready);
}

static int get_lock(struct call *call, void (*start)(struct call *call), redlock_lock **lock)
{
    if (!lock)
        return rl_result_fail(call->result, REDLOCK_INVALID,
                              "lock is NULL; give the address of a redlock_lock pointer");
    *lock = NULL;
    int status = enter(call->client, call->result);
    if (status)
        return status;
    call->owner = rl_owner_thread();
    status = wait_for(call, start);
    *lock = call->lock;
    return status;
}

int redlock_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                    redlock_lock **lock, redlock_result *result)
{
    struct call call = {.client = client, .resource = resource, .options = options, .result = result};
    return get_lock(&call, start_acquire, lock);
}

int redlock_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                  const char *token, redlock_lock **lock, redlock_result *result)
{
    struct call call = {.client = client, .resource = resource, .options = options, .token = token, .result = result};
    return get_lock(&call, start_adopt, lock);
}

int redlock_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                          redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.client = client, .resource = resource, .size = size, .token = token, .result = result};
    return status ? status : wait_for(&call, start_release_token);
}

int redlock_extend(redlock_lock *lock, uint32_t ttl_ms, redlock_result *result)
{
    int status = enter_lock(lock, result);
    if (status)
        return status;
    struct call call = {.client = lock->lease->locks->client, .lock = lock, .ttl_ms = ttl_ms, .result = result};
    return wait_for(&call, start_extend);
}

int redlock_release(redlock_lock **lock, redlock_result *result)
{
    int status = enter_lock(lock ? *lock : NULL, result);
    if (status)
        return status;
    struct call call = {.client = (*lock)->lease->locks->client, .lock = *lock, .result = result};
    *lock = NULL;
    return wait_for(&call, start_release);
}

int redlock_trust(redlock_client *client, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.client = client, .result = result};
    return status ? status : wait_for(&call, start_trust);
}

int redlock_inspect(redlock_client *client, const char *resource, size_t size, redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.client = client, .resource = resource, .size = size, .result = result};
    return status ? status : wait_for(&call, start_inspect);
}

int rl_blocking_node_status(redlock_client *client, uint32_t node, redlock_node_status *status)
{
    struct call call = {.client = client, .node = node, .node_status = status};
    return ask(&call, start_node_status);
}

int rl_blocking_statistics(redlock_client *client, redlock_statistics *statistics)
{
    struct call call = {.client = client, .statistics = statistics};
    return ask(&call, start_statistics);
}

size_t rl_blocking_metrics(redlock_client *client, char *text, size_t size)
{
    struct call call = {.client = client, .text = text, .size = size};
    return ask(&call, start_metrics) == REDLOCK_OK ? call.size : size;
}

int redlock_query(redlock_client *client, const char *resource, size_t size, redlock_state *state,
                  redlock_result *result)
{
    int status = enter(client, result);
    struct call call = {.client = client, .resource = resource, .size = size, .state = state, .result = result};
    return status ? status : wait_for(&call, start_query);
}

int rl_blocking_held_by_me(redlock_client *client, const char *resource, size_t size)
{
    struct call call = {.client = client, .resource = resource, .size = size};
    return ask(&call, start_held_by_me) == 1;
}

uint32_t rl_blocking_hold_count(const redlock_lock *lock)
{
    struct call call = {.client = lock->lease->locks->client, .asked = lock};
    int count = ask(&call, start_hold_count);
    return count < 0 ? 0 : (uint32_t)count;
}

int rl_blocking_renewal_result(const redlock_lock *lock, redlock_result *result)
{
    struct call call = {.client = lock->lease->locks->client, .asked = lock, .result = result};
    return ask(&call, start_renewal_result);
}

int rl_blocking_lost_descriptor(const redlock_lock *lock)
{
    struct call call = {.client = lock->lease->locks->client, .asked = lock};
    return ask(&call, start_descriptor);
}

int redlock_wait_lost(redlock_lock *lock, int64_t wait_ms, int *loss)
{
    int status = enter_lock(lock, NULL);
    if (status || wait_ms < REDLOCK_FOREVER)
        return REDLOCK_INVALID;
    struct call call = {.client = lock->lease->locks->client, .lock = lock, .wait_ms = wait_ms};
    status = wait_for(&call, start_watch);
    if (loss)
        *loss = call.loss;
    return status;
}

static int close_forked(redlock_client *client)
{
    struct rl_blocking *blocking = client->blocking;
    redlock_allocator allocator = client->core.allocator;
    /* The loop's thread was busy during the fork and does not exist in the child, so the client's memory may be
     * inconsistent: leave it alone. */
    if (atomic_load(&blocking->at_work))
        return REDLOCK_OK;
    rl_client_destroy(client);
    free_blocking(&allocator, blocking);
    return REDLOCK_OK;
}

static int close_client(redlock_client **client, redlock_result *result)
{
    redlock_client *closing = client ? *client : NULL;
    if (!closing)
        return rl_result_fail(result, REDLOCK_INVALID, "the client is NULL: never made, or closed already");
    if (closing->blocking && !rl_client_in_owner_process(closing)) {
        *client = NULL;
        return close_forked(closing);
    }
    int status = enter(closing, result);
    if (status)
        return status;
    *client = NULL;
    struct rl_blocking *blocking = closing->blocking;
    redlock_allocator allocator = closing->core.allocator;
    struct call call = {.client = closing, .result = result};
    status = wait_for(&call, start_close);
    pthread_join(blocking->thread, NULL);
    free_blocking(&allocator, blocking);
    return status;
}

int redlock_close(redlock_client **client, redlock_result *result)
{
    int cancel = rl_thread_disable_cancel();
    int status = close_client(client, result);
    rl_thread_restore_cancel(cancel);
    return status;
}
