#include "src/client/lock_events.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "src/client/loop_thread.h"
#include "src/core/core.h"
#include "src/lock/lease.h"

struct rl_lock_events {
    struct rl_completion completion;
    struct rl_loop_thread *thread;
    redlock_event_callback event;
    void *arg;
    redlock_lock *lock;
    atomic_uint references; /* the acquire's, the handle's, and one while posted */
    atomic_uint pending;    /* events to report, as bits; not 0: posted */
    atomic_bool stopped;
};

static struct rl_lock_events *events_of(struct rl_completion *completion)
{
    return (struct rl_lock_events *)(void *)((char *)completion - offsetof(struct rl_lock_events, completion));
}

static void lock_events_run(struct rl_completion *completion)
{
    struct rl_lock_events *events = events_of(completion);
    unsigned pending = atomic_exchange(&events->pending, 0);
    assert(pending && events->lock);
    for (int event = 1; event <= RL_EVENT_LAST; event++)
        if (pending & RL_EVENT_BIT(event) && !atomic_load(&events->stopped) &&
            rl_process_is(events->thread->completions.owner))
            events->event(events->lock, event,
                          event == REDLOCK_EVENT_LOST ? rl_lease_loss(events->lock->lease) : REDLOCK_NOT_LOST,
                          (int64_t)(rl_lease_validity(events->lock->lease) / QUORUM_MILLISECOND), events->arg);
}

static void lock_events_end(struct rl_completion *completion)
{
    rl_lock_events_unref(events_of(completion));
}

struct rl_lock_events *rl_lock_events_create(struct rl_loop_thread *thread, redlock_event_callback event, void *arg)
{
    struct rl_lock_events *events = rl_allocate(&thread->allocator, sizeof *events);
    if (!events)
        return NULL;
    events->completion.run = lock_events_run;
    events->completion.end = lock_events_end;
    events->thread = thread;
    events->event = event;
    events->arg = arg;
    atomic_init(&events->references, 1);
    return events;
}

struct rl_lock_events *rl_lock_events_ref(struct rl_lock_events *events)
{
    if (events)
        atomic_fetch_add(&events->references, 1);
    return events;
}

void rl_lock_events_unref(struct rl_lock_events *events)
{
    if (events && atomic_fetch_sub(&events->references, 1) == 1)
        rl_free(&events->thread->allocator, events);
}

void rl_lock_events_post(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    struct rl_lock_events *events = arg;
    (void)loss; /* both are read when the callback runs */
    (void)validity_ms;
    if (atomic_load(&events->stopped))
        return;
    if (!events->lock)
        events->lock = lock;
    assert(events->lock == lock);
    rl_lock_events_ref(events);
    if (atomic_fetch_or(&events->pending, RL_EVENT_BIT(event)) == 0)
        rl_completions_add(&events->thread->completions, &events->completion);
    else
        rl_lock_events_unref(events);
}

void rl_lock_events_stop(struct rl_lock_events *events)
{
    if (events)
        atomic_store(&events->stopped, true);
}

static struct rl_lock_events *events_for(const redlock_lock *lock)
{
    return lock->event == rl_lock_events_post ? lock->event_arg : NULL;
}

void rl_lock_events_stop_for(const redlock_lock *lock)
{
    rl_lock_events_stop(events_for(lock));
}

void rl_lock_events_ended(const redlock_lock *lock)
{
    if (!lock->given)
        return;
    rl_lock_events_stop_for(lock);
    rl_lock_events_unref(events_for(lock));
}
