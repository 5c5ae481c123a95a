/* What a new link is sent before it is used: all of it leaves at once and costs one round trip. */
#ifndef RL_HANDSHAKE_H
#define RL_HANDSHAKE_H

#include <stdbool.h>

struct rl_command;
struct rl_node;

/* Builds the AUTH command of the node's address, for the second connection. 1: built, 0: none is needed, -1: no memory. */
int rl_handshake_auth(struct rl_node *node, struct rl_command *command);
void rl_handshake_auth_free(struct rl_command *command);

/* Queues the whole handshake. false: the link does not take it. */
bool rl_handshake_start(struct rl_node *node);

/* Whether the node's server is that of another node, which has a vote. */
bool rl_handshake_is_duplicate(const struct rl_node *node);

/* Kills the node's earlier connections, and undoes what they may have left, before anything else is sent. */
void rl_handshake_settle(struct rl_node *node);

#endif
