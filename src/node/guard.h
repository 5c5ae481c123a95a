/* The guard: reads a node's marker, evidence and clock at the handshake and at each heartbeat, and judges the node. */
#ifndef RL_GUARD_H
#define RL_GUARD_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "quorum/time.h"
#include "src/node/command.h"
#include "src/node/limits.h"

struct rl_node;
struct rl_nodes;

/* What the script does besides reading. */
enum rl_guard_task { RL_GUARD_LOOK, RL_GUARD_JUMPED, RL_GUARD_TRUST };

/* The elements of the answer of guard.lua, which describes them. The build compares this list with the script's. */
enum rl_guard_element {
    RL_GUARD_RUN_ID,
    RL_GUARD_ROLE,
    RL_GUARD_TIME,
    RL_GUARD_SINCE,
    RL_GUARD_MAX_TTL,
    RL_GUARD_NODES,
    RL_GUARD_WHY,
    RL_GUARD_DEPLOYMENT,
    RL_GUARD_POLICY,
    RL_GUARD_NONCE,
    RL_GUARD_SHOWN,
    RL_GUARD_ELEMENTS
};

/* The memory of a command's arguments. */
struct rl_guard_numbers {
    char max_ttl[24];
    char nodes[12];
    char nonce[24];
    char seen[24];
};

/* Builds the script's call for one node, or for all nodes (NULL). */
void rl_guard_command(struct rl_nodes *nodes, const struct rl_node *node, enum rl_guard_task task, bool use_eval,
                      struct rl_command *command, struct rl_guard_numbers *numbers);

/* Handles the script's reply. false: an error was recorded, and the connection may have ended. */
bool rl_guard_take_reply(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received);

/* Handles the reply to TIME, which is the heartbeat without the guard. */
void rl_guard_take_time(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received);

/* The end of the node's quarantine: it grants no new lock before. */
quorum_time rl_guard_free_at(const struct rl_node *node);

/* How long the node must not grant; 0: it may grant now; QUORUM_NEVER: not known. */
quorum_duration rl_guard_withholds(const struct rl_node *node, quorum_time now);

/* Why the node must not grant now, or NULL. */
const char *rl_guard_objection(struct rl_node *node, quorum_time now);

/* The node is unfit only because its marker is of another deployment: redlock_trust() may take it over. */
bool rl_guard_may_take_over(const struct rl_node *node);

/* The node's marker differs from the one that was judged: the node grants nothing until it has been read again, which
 * this requests now. */
void rl_guard_doubt(struct rl_node *node);

/* Its maxmemory-policy may evict keys. */
bool rl_guard_evicts(const struct rl_node *node);

/* Sets or clears a finding, and logs a new one. */
void rl_guard_find(struct rl_node *node, uint32_t finding, bool found);

/* Sets node->unfit by the node's findings. */
void rl_guard_judge(struct rl_node *node);

#endif
