/*
 * All locks of one client: the leases, the queues of waiters, and the rounds under way for them. The client floor owns it, and hears of what
 * happens through `events`.
 */
#ifndef RL_LOCKS_H
#define RL_LOCKS_H

#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/lock/leases.h"
#include "src/lock/queue.h"
#include "src/node/nodes.h"

struct rl_locks_events {
    /* The lease was lost: whoever waits for that is woken, and what the nodes may still hold of it is released, unless it is left to expire. */
    void (*lease_lost)(struct rl_lease *lease, bool leave);
    /* The last handle was released. */
    void (*lease_ended)(struct rl_lease *lease);
};

struct rl_locks {
    struct rl_core *core;
    struct rl_nodes *nodes;
    const struct rl_locks_events *events;
    redlock_client *client; /* the owner; opaque on this floor */

    struct rl_leases leases;
    struct rl_queues queues;
    struct rl_timer renewal_timer; /* due renewals have been gathered for long enough */
    unsigned renewal_turn;         /* the node that the next batch of many renewals asks first */

    struct rl_round *coming;  /* rounds that wait for a node to become usable */
    struct rl_round *undoing; /* rounds whose undos are sent soon */
    struct rl_timer undo_timer;
    struct rl_round *spare_rounds; /* kept for reuse */
    unsigned spare_count;

    struct rl_lease *unreleased;   /* detached releases that found no memory */
    struct rl_timer release_timer; /* tries them again */
    unsigned pending_undos;        /* given up while the client closes */
};

void rl_locks_open(struct rl_locks *locks, struct rl_core *core, struct rl_nodes *nodes,
                   const struct rl_locks_events *events, redlock_client *client);

/* Drops everything without a reply: at the end of a close, or in a forked child. */
void rl_locks_drop(struct rl_locks *locks);

/* After rl_locks_drop() and the end of the client's operations. */
void rl_locks_free(struct rl_locks *locks);

#endif
