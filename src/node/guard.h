/* What a node says of itself at the handshake and at each heartbeat: who it is, since when, and what its clock shows. */
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

/* What the script is to do besides looking. */
enum rl_guard_task { RL_GUARD_LOOK, RL_GUARD_JUMPED, RL_GUARD_TRUST };

/* How many elements the script's answer has. */
#define RL_GUARD_FIELDS 11

/* Texts that a command under construction points to. */
struct rl_guard_numbers {
    char max_ttl[24];
    char nodes[12];
    char nonce[24];
    char seen[24];
};

/* The script's call. node: which one is to be asked, or NULL for all of them. */
void rl_guard_command(struct rl_nodes *nodes, const struct rl_node *node, enum rl_guard_task task, bool whole,
                      struct rl_command *command, struct rl_guard_numbers *numbers);

/* Its answer. false: the node cannot be used as it is, and has been told off; the link may be gone. */
bool rl_guard_take_reply(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received);

/* The answer to TIME, where there is no guard. */
void rl_guard_take_time(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received);

/* For how long the node is not to grant; 0: it may now. QUORUM_NEVER: it is not known. */
quorum_duration rl_guard_withholds(const struct rl_node *node, quorum_time now);

/* Why the node must not grant now, or NULL. */
const char *rl_guard_objection(struct rl_node *node, quorum_time now);

/* Nothing is against it but that its marker is of another deployment: an operator's word makes it ours. */
bool rl_guard_may_take_over(const struct rl_node *node);

/* Its marker is not what was judged: it grants nothing until it has been read again, which is asked for now. */
void rl_guard_doubt(struct rl_node *node);

/* Its maxmemory-policy may evict keys. */
bool rl_guard_evicts(const struct rl_node *node);

/* Notes a finding, or its end; a new one is logged. */
void rl_guard_find(struct rl_node *node, uint32_t finding, bool found);

/* Sets what of the node's findings makes it unfit. */
void rl_guard_judge(struct rl_node *node);

#endif
