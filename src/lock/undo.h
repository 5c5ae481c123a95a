/*
 * Undos: the requests of a release round, compare-and-delete of the token on the nodes that may have it. An undo
 * reaches its node eventually: it is kept while the node is disconnected, and repeated while the node refuses it.
 */
#ifndef RL_UNDO_H
#define RL_UNDO_H

#include "src/node/fanout.h"

struct rl_round;

/* Sends the undo to these nodes, or keeps it for them. */
void rl_undo_send(struct rl_round *round, quorum_nodes nodes);

/* The functions of a release round's `struct rl_fanout_type`. */
void rl_undo_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer);
bool rl_undo_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval);

#endif
