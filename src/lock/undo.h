/*
 * Undos: compare-and-delete of a round's token on the nodes where a failed attempt may have left it. A release is an
 * undo on all nodes that may have the token. An undo reaches its node eventually: it is kept while the node is
 * disconnected.
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

/* The same after a millisecond, when most nodes will have replied that they have nothing of ours. */
void rl_round_undo_later(struct rl_round *round, quorum_nodes nodes);

/* Sends the delayed undos now. The timer's callback does the same. */
void rl_rounds_undo(struct rl_locks *locks);
void rl_rounds_undo_due(struct rl_timer *timer);

#endif
