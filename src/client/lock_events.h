/* Events of a lock that an asynchronous call acquired, on a client that owns its loop's thread: the loop's thread posts
 * them, and redlock_dispatch() runs the user's callback. */
#ifndef RL_LOCK_EVENTS_H
#define RL_LOCK_EVENTS_H

#include "redlock/redlock.h"

struct rl_lock_events;
struct rl_loop_thread;

/* With one reference, the caller's. NULL: no memory. */
struct rl_lock_events *rl_lock_events_create(struct rl_loop_thread *thread, redlock_event_callback event, void *arg);
struct rl_lock_events *rl_lock_events_ref(struct rl_lock_events *events);
void rl_lock_events_unref(struct rl_lock_events *events);

/* The event callback of the handle, with these events as its argument. The loop's thread. */
void rl_lock_events_post(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg);

/* No callback runs from now on: the caller releases the handle, or never receives it. */
void rl_lock_events_stop(struct rl_lock_events *events);
void rl_lock_events_stop_for(const redlock_lock *lock);

/* The handle has ended: drops its reference, if it was handed out. The loop's thread. */
void rl_lock_events_ended(const redlock_lock *lock);

#endif
