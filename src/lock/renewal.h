/*
 * Renewal of held locks. Due renewals are sent together, up to 64 locks per command; each lock has its own reply and
 * its own round. After NOPERM, which may be about one of them, each is renewed by itself. After a majority has confirmed
 * a lock, the nodes that lack it are healed.
 */
#ifndef RL_RENEWAL_H
#define RL_RENEWAL_H

#include "src/lock/lease.h"

struct rl_locks;
/* A command with this many or more locks goes to one node after the other. */
#define RL_RENEWALS_IN_TURN 16

/* Sends the due renewals that fill a batch. Call it before the loop sleeps. */
void rl_renewals_flush(struct rl_locks *locks);

/* The timer's callback: sends the renewals that have been gathered for long enough. */
void rl_renewals_gathered(struct rl_timer *timer);

/* The result of the last renewal, if it failed: see redlock_renewal_result(). */
void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result);

/* Drops the due renewals when the client closes. */
void rl_renewals_drop(struct rl_locks *locks);

#endif
