/* Releases without an operation: of locks that were lost, given up, or never completely acquired. */
#ifndef RL_DETACHED_H
#define RL_DETACHED_H

struct rl_lease;
struct rl_locks;
struct rl_timer;

/* Ends the lease's validity and releases it on every node that may have its token. Without memory for the round it
 * retries the release every 10 ms. */
void rl_lease_release_detached(struct rl_lease *lease);

/* After a failed attempt: releases the lease in a millisecond, when most nodes will have replied that they have nothing
 * of it. */
void rl_lease_undo_later(struct rl_lease *lease);

/* Sends the delayed releases now; the timer's callback does the same. */
void rl_detached_retry(struct rl_locks *locks);
void rl_detached_on_timer(struct rl_timer *timer);

/* Drops the delayed releases when the client ends, and counts their nodes as pending undos. */
void rl_detached_drop(struct rl_locks *locks);

#endif
