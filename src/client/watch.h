/* Waits for the loss of a lock: redlock_wait_lost(). */
#ifndef RL_WATCH_H
#define RL_WATCH_H

#include "quorum/lease.h"
#include "src/client/operation.h"

struct rl_lease;

/* status: REDLOCK_LOST, _TIMED_OUT or _CANCELLED. */
typedef void rl_watch_callback(int status, enum quorum_loss loss, void *arg);
int rl_watch_start(redlock_lock *lock, int64_t wait_ms, rl_watch_callback *callback, void *arg);

/* Ends the watches of a lease that was lost, or whose last handle was released. */
void rl_watches_end(struct rl_lease *lease);

#endif
