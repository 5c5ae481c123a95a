/* The commands on a new connection before it is used. All of them leave at once and take one
 * round trip; a second one writes the marker if it is missing, wrong or stale. */
#ifndef RL_HANDSHAKE_H
#define RL_HANDSHAKE_H

#include <stdbool.h>

#include "src/node/command.h"

struct rl_node;

/* The {tag} that puts the prefix' keys, and with the guard the marker, into one slot of a Redis Cluster. false: none. */
bool rl_handshake_tag(const redlock_options *options, struct rl_text *tag);

/* Queues the complete handshake. false: the connection does not accept it. */
bool rl_handshake_start(struct rl_node *node);

/* Requests the guard's reading: facts, marker and clock. No request of a handshake may be in flight. false: the connection
 * does not accept it. rl_node_beat_answered() follows on a connection that is ready. */
bool rl_handshake_read(struct rl_node *node);

/* The node's server is also another node's, which has the vote. */
bool rl_handshake_is_duplicate(const struct rl_node *node);

/* Kills the node's stale connections. Call it before anything else is sent, and before kept undos are sent again; not
 * while an earlier kill may be in flight. */
void rl_handshake_settle(struct rl_node *node);

#endif
