/* A node's answer to a round's request, judged as a vote. Releases: see undo.h. */
#ifndef RL_VOTE_H
#define RL_VOTE_H

#include "src/node/fanout.h"
#include "src/node/reply.h"

struct rl_round;

/* The functions of a round's `struct rl_fanout_type`. */
void rl_vote_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer);
void rl_vote_proven(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, enum quorum_proof proof,
                    quorum_time now);
bool rl_vote_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval);

/* Passes a vote to the rules. */
void rl_vote_count(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now);

/* For a vote that keeps the lock from other clients: a server that may no longer be the node's master, or not yet be the
 * only one, counts as a node that timed out. */
void rl_vote_withhold_unconfirmed(struct rl_round *round, struct rl_node *node, struct rl_vote *vote, quorum_time now);

/* The node's timeout has passed. */
void rl_vote_count_overdue(struct rl_round *round, const struct rl_node *node, quorum_time now);

/* Sets the node's text to an error reply's. */
void rl_vote_note_reply(struct rl_round *round, unsigned node, const redisReply *reply);

#endif
