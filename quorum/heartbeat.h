/*
 * When a client hears a node: sends it a heartbeat, whose reply shows the node's clock and marker.
 *
 * Most of what a holder costs a node is the node's wake-up. So while a client holds locks and all its nodes are healthy,
 * it hears them in turn: each node less often, but some node every 0.6 s. If our own clock stopped, the next reply of any
 * node shows it, and the client samples the others at once (see clock_watch.h). Otherwise it hears each node once a second.
 * The renewals of its locks travel with the turns, which saves the nodes the wake-ups for rounds (see lease.h).
 */
#ifndef QUORUM_HEARTBEAT_H
#define QUORUM_HEARTBEAT_H

#include <stdint.h>

#include "quorum/time.h"

/* The interval of a node while the client waits, or while a node is not healthy. No turn is shorter. */
#define QUORUM_HEARTBEAT QUORUM_SECOND

/* In turn: from one node to the next, and from one turn of a node to its next, at most. */
#define QUORUM_HEARTBEAT_APART (600 * QUORUM_MILLISECOND)
#define QUORUM_HEARTBEAT_MOST  (3000 * QUORUM_MILLISECOND)

/* And at least this many turns of each node within the shortest ttl: a clock's step that passes as drift between two of
 * them is a small part of the drift that the validity of a lock allows for. */
#define QUORUM_HEARTBEATS_IN_TTL 3

/* The interval of each node while they are heard in turn. shortest_ttl: of the locks that this client may hold. */
quorum_duration quorum_heartbeat_in_turn(unsigned nodes, quorum_duration shortest_ttl);

/* The node's next turn after now, where all nodes have this interval: they are heard evenly spread over it. phase: the
 * client's, a random number, because many clients of the same nodes must not be in step. */
quorum_time quorum_heartbeat_next(unsigned node, unsigned nodes, quorum_duration interval, uint64_t phase,
                                  quorum_time now);

#endif
