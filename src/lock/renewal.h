/*
 * Renewal of held locks. Those that are due travel together, up to 64 keys a command, each with its own answer and its
 * own round; when the quorum of one is confirmed, nodes that do not have it are healed.
 */
#ifndef RL_RENEWAL_H
#define RL_RENEWAL_H

#include "src/lock/lease.h"

struct rl_locks;
#define RL_RENEWALS_MAX 64
/* From so many on in a command the nodes are asked one after the other. */
#define RL_RENEWALS_IN_TURN 16

/* Sends what is due, if enough has gathered or it has waited long enough. Called before the loop sleeps. */
void rl_renewals_flush(struct rl_locks *locks);

/* The timer that ends the gathering. */
void rl_renewals_gathered(struct rl_timer *timer);

/* What the last renewal came to, if it failed: see redlock_renewal_result(). */
void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result);

/* Forgets what is due, in a close. */
void rl_renewals_drop(struct rl_locks *locks);

#endif
