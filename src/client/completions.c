#include "src/client/completions.h"

#include <assert.h>
#include <stddef.h>

#include "src/core/process.h"

/* On Linux neither of the two can fail. */
void rl_completions_open(struct rl_completions *completions, const struct rl_completion *last)
{
    completions->last = last;
    pthread_mutex_init(&completions->mutex, NULL);
    pthread_cond_init(&completions->left, NULL);
}

static void completions_close_wakeup(struct rl_completions *completions)
{
    rl_wakeup_unref(atomic_exchange(&completions->wakeup, NULL));
}

void rl_completions_close(struct rl_completions *completions)
{
    completions_close_wakeup(completions);
    pthread_cond_destroy(&completions->left);
    pthread_mutex_destroy(&completions->mutex);
}

/* ---------------------------------------------------------------------------------------------------- loop's thread */

void rl_completions_add(struct rl_completions *completions, struct rl_completion *completion)
{
    assert(completion->end);
    completion->next = completions->gathered;
    completions->gathered = completion;
    if (!completions->gathered_oldest)
        completions->gathered_oldest = completion;
}

static void completions_wake(struct rl_completions *completions)
{
    struct rl_wakeup *wakeup = atomic_load(&completions->wakeup);
    if (wakeup)
        rl_wakeup_signal(wakeup);
}

void rl_completions_post(struct rl_completions *completions)
{
    struct rl_completion *newest = completions->gathered, *oldest = completions->gathered_oldest;
    assert(!newest == !oldest && (!oldest || !oldest->next));
    if (!newest)
        return;
    completions->gathered = completions->gathered_oldest = NULL;
    struct rl_completion *first = atomic_load(&completions->posted);
    do
        oldest->next = first;
    while (!atomic_compare_exchange_weak(&completions->posted, &first, newest));
    if (!first) /* otherwise the descriptor is readable already */
        completions_wake(completions);
}

/* ---------------------------------------------------------------------------------------------- dispatching threads */

int rl_completions_descriptor(struct rl_completions *completions)
{
    pthread_mutex_lock(&completions->mutex);
    struct rl_wakeup *wakeup = atomic_load(&completions->wakeup);
    if (!wakeup && (wakeup = rl_wakeup_create()) != NULL) {
        atomic_store(&completions->wakeup, wakeup);
        /* A thread that dispatches owns the batch, and signals what it leaves of it. */
        bool dispatches = atomic_load(&completions->dispatcher);
        if (atomic_load(&completions->posted) || (!dispatches && completions->batch))
            rl_wakeup_signal(wakeup);
    }
    pthread_mutex_unlock(&completions->mutex);
    return wakeup ? wakeup->descriptor : -1;
}

bool rl_completions_enter(struct rl_completions *completions)
{
    pthread_mutex_lock(&completions->mutex);
    bool free = !completions->ended && !atomic_load(&completions->dispatcher);
    if (free)
        atomic_store(&completions->dispatcher, rl_thread_id());
    pthread_mutex_unlock(&completions->mutex);
    return free;
}

void rl_completions_enter_last(struct rl_completions *completions)
{
    pthread_mutex_lock(&completions->mutex);
    completions->ended = true;
    while (atomic_load(&completions->dispatcher))
        pthread_cond_wait(&completions->left, &completions->mutex);
    atomic_store(&completions->dispatcher, rl_thread_id());
    pthread_mutex_unlock(&completions->mutex);
}

/* Appends what has been posted to the batch, oldest first. */
static void completions_fetch(struct rl_completions *completions)
{
    struct rl_completion *in_order = NULL, **end = &completions->batch;
    struct rl_wakeup *wakeup = atomic_load(&completions->wakeup);
    if (wakeup)
        rl_wakeup_drain(wakeup); /* before the stack is read: a later signal must stay */
    struct rl_completion *completion = atomic_exchange(&completions->posted, NULL);
    while (completion) {
        struct rl_completion *next = completion->next;
        completion->next = in_order;
        in_order = completion;
        completion = next;
    }
    while (*end)
        end = &(*end)->next;
    *end = in_order;
}

static void completions_end_running(struct rl_completions *completions)
{
    struct rl_completion *ended = completions->running;
    completions->running = NULL;
    if (ended)
        ended->end(ended);
}

bool rl_completions_run(struct rl_completions *completions)
{
    assert(rl_completions_is_dispatcher(completions));
    completions_fetch(completions);
    while (completions->batch && rl_process_is(completions->owner)) {
        struct rl_completion *completion = completions->batch;
        completions->batch = completion->next;
        if (completion == completions->last) {
            completions->last_came = true;
            break;
        }
        assert(!completions->running);
        completions->running = completion;
        completion->run(completion);
        completions_end_running(completions);
    }
    return completions->last_came;
}

void rl_completions_leave(struct rl_completions *completions)
{
    assert(rl_completions_is_dispatcher(completions));
    completions_end_running(completions);
    if (!rl_process_is(completions->owner)) { /* another thread may have held the mutex during the fork */
        atomic_store(&completions->dispatcher, 0);
        return;
    }
    pthread_mutex_lock(&completions->mutex);
    completions->ended = completions->ended || completions->last_came;
    if (completions->batch)
        completions_wake(completions);
    atomic_store(&completions->dispatcher, 0);
    pthread_cond_broadcast(&completions->left);
    pthread_mutex_unlock(&completions->mutex);
}

bool rl_completions_is_dispatcher(const struct rl_completions *completions)
{
    return atomic_load_explicit(&completions->dispatcher, memory_order_relaxed) == rl_thread_id();
}

/* ------------------------------------------------------------------------------------------------------ forked child */

static void completions_drop_list(struct rl_completion *completion)
{
    while (completion) {
        struct rl_completion *next = completion->next;
        completion->end(completion);
        completion = next;
    }
}

void rl_completions_drop(struct rl_completions *completions)
{
    completions_close_wakeup(completions);
    if (atomic_load(&completions->dispatcher))
        return; /* its lists may be inconsistent */
    completions_drop_list(atomic_exchange(&completions->posted, NULL));
    completions_drop_list(completions->gathered);
    completions_drop_list(completions->batch);
    completions->gathered = completions->batch = NULL;
}
