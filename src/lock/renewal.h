/*
 * How held locks live on. The rules of a lease (quorum/lease.h) say when a renewal is due, and a round that extends a
 * lock says which nodes lack it; a round renews the lock, and another heals these nodes: it sets the lock again.
 *
 * The rounds are counted, confirmed late, sent again and timed out like any other: see round.h. This file
 * gathers them, because a carrier (src/node/fanout.h) takes up to 64 of one kind to a node in one command. Heals leave
 * at the end of the turn in which they are found, due renewals when a carrier is full or the first has waited for long
 * enough. A release of the lock in between leaves nothing to do: a heal must not follow the release of its lock.
 *
 * While the nodes are heard in turn, a lock is renewed on one node after the other, with the heartbeats, and a round is due
 * only if that has failed on a node, or the end of validity has not moved for as long as between two rounds.
 *
 * leases.c has the lists, to which lease.c and round.c add; client.c calls this file once a turn.
 */
#ifndef RL_RENEWAL_H
#define RL_RENEWAL_H

#include "src/lock/lease.h"

struct rl_locks;

/* A command with this many or more locks goes to one node after the other. */
#define RL_RENEWALS_IN_TURN 16

/* Sends the heals, and the due renewals that fill a carrier. Call it before the loop sleeps. */
void rl_renewals_flush(struct rl_locks *locks);

/* Sends this node the renewals that are due there, behind its heartbeat; not if more locks are held than one command
 * takes: their rounds leave a majority of the nodes free at any time. */
void rl_renewals_in_turn(struct rl_locks *locks, unsigned node, quorum_duration interval);

/* The timer's callback: sends the renewals that have been gathered for long enough. */
void rl_renewals_gathered(struct rl_timer *timer);

/* Drops all that are listed: when the client closes. */
void rl_renewals_drop(struct rl_locks *locks);

/* The result of the last renewal, if it failed: see redlock_renewal_result(). */
void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result);

#endif
