/*
 * Undos: the requests of a release round, compare-and-delete of the token on the nodes that may have it. An undo
 * reaches its node eventually: it is kept while the node is disconnected, and repeated while the node refuses it.
 */
#ifndef RL_UNDO_H
#define RL_UNDO_H

#include "src/node/fanout.h"

struct rl_round;
struct rl_lease;
struct rl_locks;
struct rl_timer;

/*
 * The releases of one turn of the loop, which leave together: as one command they take a node less than half the time.
 * Only releases of one kind gather, with the same nodes: of held locks with one key and a token, acquired without the
 * queue. Each is behind the request that it undoes, which was sent before; and before a later request for its key.
 */
#define RL_RELEASES_MOST 32 /* as many fit into a small command */
struct rl_releases {
    unsigned count;
    quorum_nodes nodes;                        /* that all of them go to */
    struct rl_fanout *round[RL_RELEASES_MOST]; /* each with a reference */
    uint64_t key[RL_RELEASES_MOST];            /* hashes */
};

/* Sends the undo to these nodes, or keeps it for them; a release may wait for others until the end of the turn. */
void rl_undo_send(struct rl_round *round, quorum_nodes nodes);

/* Sends the gathered releases. Call it before the loop sleeps. */
void rl_releases_flush(struct rl_locks *locks);

/* The same, if one of them is of a key of this lease, which is about to be requested. */
void rl_releases_flush_for(const struct rl_lease *lease);

/* Drops them: in a forked child. */
void rl_releases_drop(struct rl_locks *locks);

/* The functions of a release round's `struct rl_fanout_type`. */
void rl_undo_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer);
bool rl_undo_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval);

/* Releases without an operation: of locks that were lost, given up, or never completely acquired. */

/* Ends the lease's validity and releases it on every node that may have its token. Without memory for the round it
 * retries the release every 10 ms. */
void rl_lease_release_detached(struct rl_lease *lease);

/*
 * The same after this delay. When a contended attempt fails, most of the other replies are on their way. They also say
 * "held", and such a node needs no undo: so undos wait for RL_UNDO_DELAY. They do not wait if an operation ends, because the
 * loop may never run again, or if a round starts, because the keys could block it.
 */
#define RL_UNDO_DELAY QUORUM_MILLISECOND
void rl_lease_release_later(struct rl_lease *lease, quorum_duration delay);

/* Removes the waiter's entries from the nodes' queues. */
void rl_dequeue_detached(const struct rl_lease *entered);

/* Sends the delayed releases now; the timer's callback does the same. */
void rl_detached_retry(struct rl_locks *locks);
void rl_detached_on_timer(struct rl_timer *timer);

/* Drops the delayed releases when the client ends, and counts their nodes as pending undos. */
void rl_detached_drop(struct rl_locks *locks);

#endif
