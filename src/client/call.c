#include "src/client/call.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>

#include "src/client/client.h"
#include "src/core/result.h"

/* Calls per turn of the loop, so that the nodes' replies and the losses get their turn. */
#define CALLS_PER_TURN 1024

/* Takes the place of the newest call when the queue is closed: an address that no call has. */
static struct rl_call *calls_closed(const struct rl_calls *calls)
{
    return (struct rl_call *)(uintptr_t)calls;
}

/* Of several threads that post, the first may be held up before it signals: the others must not rely on it. So each
 * signals until a signal has been written. The number is compared because the loop may have fallen asleep again. */
static void calls_wake(struct rl_wakeup *wakeup)
{
    unsigned sleep = atomic_load(&wakeup->sleep);
    if (!sleep)
        return;
    rl_wakeup_signal(wakeup);
    atomic_compare_exchange_strong(&wakeup->sleep, &sleep, 0);
}

static bool calls_post(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *newest, struct rl_call *oldest)
{
    /* Once the call is listed, it may end, and another thread may close the client, before this thread signals: then
     * only the wake-up still exists. */
    rl_wakeup_ref(wakeup);
    struct rl_call *first = atomic_load(&calls->newest);
    do
        oldest->next = first;
    while (first != calls_closed(calls) && !atomic_compare_exchange_weak(&calls->newest, &first, newest));
    calls_wake(wakeup);
    rl_wakeup_unref(wakeup);
    return first != calls_closed(calls);
}

bool rl_calls_post(struct rl_calls *calls, struct rl_wakeup *wakeup, struct rl_call *call)
{
    assert(call->run && call->arguments.client);
    return calls_post(calls, wakeup, call, call);
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
    if (newest && calls_post(calls, wakeup, newest, oldest))
        calls->gathered = calls->gathered_oldest = NULL;
    else if (newest)
        oldest->next = NULL; /* they stay gathered */
}

static struct rl_call *calls_in_order(const struct rl_calls *calls, struct rl_call *call)
{
    struct rl_call *in_order = NULL;
    while (call && call != calls_closed(calls)) {
        struct rl_call *next = call->next;
        call->next = in_order;
        in_order = call;
        call = next;
    }
    return in_order;
}

/* A call may end at once, and its memory with it. */
static struct rl_call *calls_run_one(struct rl_call *call)
{
    struct rl_call *next = call->next;
    assert(call->run && call->arguments.client);
    call->run(call);
    return next;
}

static void calls_run_all(struct rl_call *call)
{
    while (call)
        call = calls_run_one(call);
}

/* A thread lists its call and then reads `sleep`; this one sets it and then reads the list. So one of them sees the
 * other, and while the loop is busy a call costs no wake-up. */
bool rl_calls_fall_asleep(struct rl_calls *calls, struct rl_wakeup *wakeup)
{
    if (calls->taken)
        return false;
    calls->sleeps = calls->sleeps == UINT_MAX ? 1 : calls->sleeps + 1;
    atomic_store(&wakeup->sleep, calls->sleeps);
    return !atomic_load(&calls->newest);
}

void rl_calls_wake_up(struct rl_wakeup *wakeup)
{
    atomic_store(&wakeup->sleep, 0);
}

void rl_calls_run(struct rl_calls *calls)
{
    if (!calls->taken)
        calls->taken = calls_in_order(calls, atomic_exchange(&calls->newest, NULL));
    for (unsigned run = 0; calls->taken && run < CALLS_PER_TURN; run++)
        calls->taken = calls_run_one(calls->taken);
}

void rl_calls_close(struct rl_calls *calls)
{
    calls_run_all(calls->taken);
    calls->taken = NULL;
    calls_run_all(calls_in_order(calls, atomic_exchange(&calls->newest, calls_closed(calls))));
}

bool rl_calls_are_closed(const struct rl_calls *calls)
{
    return atomic_load(&calls->newest) == calls_closed(calls);
}

void rl_calls_run_gathered(struct rl_calls *calls)
{
    struct rl_call *gathered = calls->gathered;
    calls->gathered = calls->gathered_oldest = NULL;
    calls_run_all(calls_in_order(calls, gathered));
}

static void calls_drop_list(struct rl_call *call)
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
    calls_drop_list(calls_in_order(calls, atomic_exchange(&calls->newest, NULL)));
    calls_drop_list(calls->taken);
    calls_drop_list(calls->gathered);
    calls->taken = calls->gathered = calls->gathered_oldest = NULL;
}

/* ------------------------------------------------------------------------------------------------------- operations */

void rl_call_fail(struct rl_call *call, int status, const char *text)
{
    redlock_result result;
    rl_result_fail(&result, status, "%s", text);
    call->finish(call, &(struct rl_returned){0}, &result);
}

void rl_call_run_operation(struct rl_call *call)
{
    const redlock_client *client = call->arguments.client;
    if (!client->core.closing) {
        int status =
            rl_operation_start(call->type, &call->arguments, (struct rl_callback){.kind = RL_CALL, .call = call}, NULL);
        if (status) /* INVALID: a bad argument would have ended the operation */
            rl_call_fail(call, status,
                         status == REDLOCK_INVALID ? RL_TOO_MANY_OPERATIONS : redlock_status_text(status));
    } else if (call->type->abandon) {
        call->type->abandon(&call->arguments);
        rl_call_fail(call, REDLOCK_CANCELLED, rl_client_close_text(client));
    } else {
        rl_call_fail(call, REDLOCK_INVALID, "the client is being closed");
    }
}
