/*
 * src/lock is locks over all nodes: rounds and their undos, leases and their renewal, and the queues of waiters. struct
 * rl_locks has those of one client. The client floor owns it and receives its events through `struct rl_locks_events`.
 *
 * Two pairs of files form call cycles. undo handles the answers to a release round's requests, and steps the round; it also
 * starts the release round of an acquire round that failed. A lease adds itself to the lists in leases, and leases steps
 * and ends the leases in its lists.
 */
#ifndef RL_LOCKS_H
#define RL_LOCKS_H

#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/lock/leases.h"
#include "src/lock/queue.h"
#include "src/lock/undo.h"
#include "src/node/nodes.h"

struct rl_locks_events {
    /* The lease was lost. The client floor ends its watches, and releases its keys or leaves them to expire. */
    void (*lease_lost)(struct rl_lease *lease, bool leave);
    /* The last handle was released. */
    void (*lease_ended)(struct rl_lease *lease);
    /* The handle was released, and is about to be freed. */
    void (*handle_ended)(const redlock_lock *handle);
};

/* Has no references: a round leaves it when it is decided, or its owner leaves. */
struct rl_round_list {
    struct rl_round *first;
    struct rl_round *last;
};

struct rl_locks {
    struct rl_core *core;
    struct rl_nodes *nodes;
    const struct rl_locks_events *events;
    redlock_client *client; /* the owner; opaque on this floor */

    struct rl_leases leases;
    struct rl_queues queues;
    struct rl_timer renewal_timer; /* the due renewals have been gathered for long enough */
    unsigned renewal_turn;         /* the node that gets the next carrier of many renewals first */

    struct rl_round_list coming;  /* rounds that wait for a node to become usable, in the order in which they began */
    struct rl_round_list waiting; /* acquires that begin, in this order, when the nodes are not crowded any more */
    struct rl_timer admission_timer; /* starts a turn of the loop for those that wait */

    struct rl_releases releases;   /* of this turn of the loop */
    struct rl_lease *unreleased;   /* undos that are delayed, and releases that found no memory */
    struct rl_timer release_timer; /* sends them */
    unsigned pending_undos;        /* undos dropped while the client closes */
};

#endif
