/* Releases that no caller waits for: of locks that were lost, given up or never completely acquired. */
#ifndef RL_DETACHED_H
#define RL_DETACHED_H

struct rl_lease;
struct rl_locks;
struct rl_timer;

/* Ends the lease's validity and releases it on every node that may hold its token. Where memory for the round is missing the lease itself is
   kept on a list, and the release is tried again every 10 ms. */
void rl_lease_release_detached(struct rl_lease *lease);

/* Tries the kept ones again; the timer's callback does the same. */
void rl_detached_retry(struct rl_locks *locks);
void rl_detached_on_timer(struct rl_timer *timer);

/* The client ends: counts the nodes that are not told. */
void rl_detached_drop(struct rl_locks *locks);

#endif
