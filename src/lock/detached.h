/* Releases without an operation: of locks that were lost, given up, or never completely acquired. */
#ifndef RL_DETACHED_H
#define RL_DETACHED_H

struct rl_lease;
struct rl_locks;
struct rl_timer;

/* Ends the lease's validity and releases it on every node that may have its token. Without memory for the round it
 * keeps the lease in a list, and retries the release every 10 ms. */
void rl_lease_release_detached(struct rl_lease *lease);

/* Retries the kept releases; the timer's callback does the same. */
void rl_detached_retry(struct rl_locks *locks);
void rl_detached_on_timer(struct rl_timer *timer);

/* Drops the kept releases when the client ends, and counts their nodes as pending undos. */
void rl_detached_drop(struct rl_locks *locks);

#endif
