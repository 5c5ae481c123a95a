/* The operations that wait for the loss of a lease: redlock_wait_lost(). */
#ifndef RL_WATCH_H
#define RL_WATCH_H

struct rl_lease;

/* Ends those of a lease that was lost, or whose last handle was released. */
void rl_watches_end(struct rl_lease *lease);

#endif
