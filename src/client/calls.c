#include "src/client/calls.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "src/client/acquire.h"
#include "src/client/adopt.h"
#include "src/client/client.h"
#include "src/client/extend.h"
#include "src/client/inspect.h"
#include "src/client/query.h"
#include "src/client/ready.h"
#include "src/client/release.h"
#include "src/client/trust.h"
#include "src/client/watch.h"
#include "src/core/result.h"

/* ----------------------------------------------------------------------------------------------------------- queue */

/* Takes the place of the newest call when the queue is closed: an address that no call has. */
static struct rl_call *closed(const struct rl_calls *calls)
{
    return (struct rl_call *)(uintptr_t)calls;
}

static bool push(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *newest, struct rl_call *oldest)
{
    /* Once the call is listed, it may end, and another thread may close the client, before this thread signals. */
    rl_wakeup_ref(wakeup);
    struct rl_call *first = atomic_load(&calls->newest);
    do
        oldest->next = first;
    while (first != closed(calls) && !atomic_compare_exchange_weak(&calls->newest, &first, newest));
    if (!first && atomic_load(&calls->asleep)) /* of several calls the first one wakes */
        rl_wakeup_signal(wakeup);
    rl_wakeup_unref(wakeup);
    return first != closed(calls);
}

bool rl_calls_push(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *call)
{
    assert(call->start && call->client);
    return push(calls, wakeup, call, call);
}

void rl_calls_gather(struct rl_calls *calls, struct rl_call *call)
{
    assert(!calls->gathered == !calls->gathered_oldest);
    call->next = calls->gathered;
    calls->gathered = call;
    if (!calls->gathered_oldest)
        calls->gathered_oldest = call;
}

void rl_calls_flush(struct rl_calls *calls, struct rl_wakeup *wakeup)
{
    struct rl_call *newest = calls->gathered, *oldest = calls->gathered_oldest;
    assert(!newest == !oldest && (!oldest || !oldest->next));
    if (newest && push(calls, wakeup, newest, oldest))
        calls->gathered = calls->gathered_oldest = NULL;
    else if (newest)
        oldest->next = NULL; /* they stay gathered */
}

static void add_started(struct rl_calls *calls, struct rl_call *call)
{
    call->previous = NULL;
    call->next = calls->started;
    if (call->next)
        call->next->previous = call;
    calls->started = call;
}

void rl_calls_finished(struct rl_calls *calls, struct rl_call *call)
{
    assert(call->previous ? call->previous->next == call : calls->started == call);
    *(call->previous ? &call->previous->next : &calls->started) = call->next;
    if (call->next)
        call->next->previous = call->previous;
}

static struct rl_call *in_order_of(const struct rl_calls *calls, struct rl_call *call)
{
    struct rl_call *in_order = NULL;
    while (call && call != closed(calls)) {
        struct rl_call *next = call->next;
        call->next = in_order;
        in_order = call;
        call = next;
    }
    return in_order;
}

static void start_all(struct rl_calls *calls, struct rl_call *call)
{
    struct rl_call *next;
    for (; call; call = next) {
        next = call->next; /* starting a call may end it, and its memory with it */
        assert(call->start && call->client);
        if (call->drop)
            add_started(calls, call);
        call->start(call);
    }
}

/* A thread lists its call and then reads `asleep`; this one sets it and then reads the list. So one of them sees the
 * other, and while the loop is busy a call costs no wake-up. */
bool rl_calls_fall_asleep(struct rl_calls *calls)
{
    atomic_store(&calls->asleep, true);
    return !atomic_load(&calls->newest);
}

void rl_calls_wake_up(struct rl_calls *calls)
{
    atomic_store(&calls->asleep, false);
}

void rl_calls_start(struct rl_calls *calls)
{
    start_all(calls, in_order_of(calls, atomic_exchange(&calls->newest, NULL)));
}

void rl_calls_close(struct rl_calls *calls)
{
    start_all(calls, in_order_of(calls, atomic_exchange(&calls->newest, closed(calls))));
}

bool rl_calls_are_closed(const struct rl_calls *calls)
{
    return atomic_load(&calls->newest) == closed(calls);
}

void rl_calls_start_gathered(struct rl_calls *calls)
{
    struct rl_call *gathered = calls->gathered;
    calls->gathered = calls->gathered_oldest = NULL;
    start_all(calls, in_order_of(calls, gathered));
}

static void drop_list(struct rl_call *call)
{
    while (call) {
        struct rl_call *next = call->next;
        if (call->drop)
            call->drop(call);
        call = next;
    }
}

void rl_calls_drop(struct rl_calls *calls)
{
    drop_list(in_order_of(calls, atomic_exchange(&calls->newest, NULL)));
    drop_list(calls->gathered);
    drop_list(calls->started);
    calls->gathered = calls->gathered_oldest = calls->started = NULL;
}

/* ------------------------------------------------------------------------------------------------------- callbacks */

static void report(redlock_client *client, const redlock_result *result, void *arg)
{
    struct rl_call *call = arg;
    (void)client;
    call->finish(call, result->status, result);
}

static void report_lock(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct rl_call *call = arg;
    call->lock = lock;
    report(client, result, arg);
}

static void report_state(redlock_client *client, const redlock_state *state, const redlock_result *result, void *arg)
{
    struct rl_call *call = arg;
    if (call->state)
        *call->state = *state;
    report(client, result, arg);
}

static void report_loss(int status, enum quorum_loss loss, void *arg)
{
    struct rl_call *call = arg;
    call->loss = (int)loss;
    call->finish(call, status, NULL);
}

/* ----------------------------------------------------------------------------------------------------------- start */

void rl_call_fail(struct rl_call *call, int status, const char *format, ...)
{
    redlock_result result;
    char text[sizeof result.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    call->finish(call, rl_result_fail(&result, status, "%s", text), &result);
}

static void started(struct rl_call *call, int status)
{
    if (status) /* INVALID: of a bad argument the callback is told */
        rl_call_fail(call, status, "%s",
                     status == REDLOCK_INVALID ? RL_TOO_MANY_OPERATIONS : redlock_status_text(status));
}

static bool refuses(struct rl_call *call)
{
    if (!call->client->core.closing)
        return false;
    rl_call_fail(call, REDLOCK_INVALID, "the client is being closed");
    return true;
}

void rl_call_ready(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_ready_start(call->client, call->wait_ms, report, call));
}

void rl_call_acquire(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_acquire_start(call->client, call->resource, call->options, call->caller, report_lock, call));
}

void rl_call_adopt(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_adopt_start(call->client, call->resource, call->options, call->token, call->caller,
                                     report_lock, call));
}

void rl_call_release_token(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_release_token_start(call->client, call->resource, call->size, call->token, report, call));
}

void rl_call_extend(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_extend_start(call->lock, call->ttl_ms, report, call));
}

void rl_call_release(struct rl_call *call)
{
    const redlock_client *client = call->client;
    if (!client->core.closing) {
        started(call, rl_release_start(call->lock, report, call));
        return;
    }
    rl_release_lost(call->lock);
    rl_call_fail(call, REDLOCK_CANCELLED, "%s", rl_release_close_text(client));
}

void rl_call_trust(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_trust_start(call->client, report, call));
}

void rl_call_inspect(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_inspect_start(call->client, call->resource, call->size, report, call));
}

void rl_call_query(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_query_start(call->client, call->resource, call->size, report_state, call));
}

void rl_call_watch(struct rl_call *call)
{
    if (!refuses(call))
        started(call, rl_watch_start(call->lock, call->wait_ms, report_loss, call));
}
