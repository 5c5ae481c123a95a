/*
 * Undos: compare-and-delete of a round's token, on nodes where an attempt that failed may have left it. A release is sent as an undo to all nodes
 * that may hold the token. An undo reaches its node eventually: it is kept while the node is away.
 */
#ifndef RL_UNDO_H
#define RL_UNDO_H

#include "quorum/tally.h"
#include "src/node/request.h"

struct rl_locks;
struct rl_round;
struct rl_timer;

extern const struct rl_request_type rl_undo_type;

/* Sends the round's undo to these nodes, or keeps it for them. */
void rl_round_undo_nodes(struct rl_round *round, quorum_nodes nodes);

/* The same a little later, when most nodes will have said that they hold nothing of it. */
void rl_round_undo_later(struct rl_round *round, quorum_nodes nodes);

/* Sends the undos that wait for that. The timer's callback does the same. */
void rl_rounds_undo(struct rl_locks *locks);
void rl_rounds_undo_due(struct rl_timer *timer);

#endif
