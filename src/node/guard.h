/*
 * The guard: reads a node's facts, marker and clock, and judges the node. The reading is part of the handshake, and
 * follows when a proof, a heartbeat's included, differs from what was judged. quorum/marker.h and quorum/guard.h have the
 * rules.
 */
#ifndef RL_GUARD_H
#define RL_GUARD_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "quorum/time.h"
#include "src/node/command.h"
#include "src/node/node.h"

/* The elements of the answer of guard.lua, which describes them. The build compares this list with the script's. */
enum rl_guard_element { RL_GUARD_TIME, RL_GUARD_MARKER, RL_GUARD_ELEMENTS };

/* Builds the script's call that vouches for the node. */
void rl_guard_trust(const struct rl_node *node, bool use_eval, struct rl_command *command);

/* Starts a reading of the node anew: its facts are not known yet. */
void rl_guard_begin(struct rl_node *node);

/* Handles the reply to one request of the reading. false: the connection has ended. */
bool rl_guard_take_fact(struct rl_node *node, enum rl_handshake_step step, const redisReply *reply, quorum_time sent,
                        quorum_time received);

/* Handles the reply to the script's call that vouched for the node. */
void rl_guard_take_trusted(struct rl_node *node, const redisReply *reply, quorum_time received);

enum rl_guard_outcome {
    RL_GUARD_DONE,    /* the node is judged */
    RL_GUARD_WRITES,  /* its marker must be written: rl_guard_write() */
    RL_GUARD_CHANGED, /* another client was quicker: read again */
    RL_GUARD_BROKEN   /* the connection has ended */
};

/* All facts have been read: judges them. */
enum rl_guard_outcome rl_guard_judge_facts(struct rl_node *node);

/* Builds the call of the script that writes the marker as it was judged. */
void rl_guard_write(struct rl_node *node, struct rl_command *command);

/* Handles the reply of the script that wrote the marker. */
enum rl_guard_outcome rl_guard_take_written(struct rl_node *node, const redisReply *reply, quorum_time received);

/* The reply to TIME, in microseconds. false: it is no time. */
bool rl_guard_parse_time(const redisReply *reply, uint64_t *time_us);

/* Compares a sample of the node's clock with those before it. */
void rl_guard_take_time(struct rl_node *node, uint64_t time_us, quorum_time sent, quorum_time received);

/* The end of the node's quarantine: it grants no new lock before. */
quorum_time rl_guard_free_at(const struct rl_node *node);

/* How long the node must not grant; 0: it may grant now; QUORUM_NEVER: not known. */
quorum_duration rl_guard_withholds(const struct rl_node *node, quorum_time now);

/* Why a grant of the node does not count now, or NULL. */
const char *rl_guard_objection(struct rl_node *node, quorum_time now);

/* The node is unfit only because its marker is of another deployment: redlock_trust() may take it over. */
bool rl_guard_may_take_over(const struct rl_node *node);

/* A proof differs from what was judged: the node grants nothing until it has been read again, which this requests now. */
void rl_guard_doubt(struct rl_node *node);

/* Its maxmemory-policy may evict keys. */
bool rl_guard_evicts(const struct rl_node *node);

/* Sets or clears a finding, and logs a new one. */
void rl_guard_find(struct rl_node *node, uint32_t finding, bool found);

/* Why the node's vote does not count although it replies; NULL: it counts. */
const char *rl_guard_explain_unfit(const struct rl_node *node);
static inline const char *rl_guard_unfit(const struct rl_node *node)
{
    return node->findings & REDLOCK_FINDINGS_UNFIT ? rl_guard_explain_unfit(node) : NULL;
}

/* The node is unfit until an operator acts. A replica that the witnesses name is not: it was the master until a moment ago,
 * or is promoted now, and their next replies may name another server. */
bool rl_guard_unfit_is_permanent(const struct rl_node *node);

#endif
