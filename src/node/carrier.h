/*
 * A carrier: one command to some nodes that stands for the undos of several fan-outs. A node replies with a digit for
 * each. The carrier passes the digit on as the reply to that fan-out's request, and any other answer to all of them: for
 * them it is as if each had sent its request itself. After NOPERM, which may be about one of them, each does.
 */
#ifndef RL_CARRIER_H
#define RL_CARRIER_H

#include "src/node/fanout.h"

#define RL_CARRIER_MOST 32 /* more hardly make it cheaper */

/* Formats the command of these fan-outs. false: no memory. */
typedef bool rl_carrier_format(struct rl_fanout *const *member, unsigned count, bool use_eval,
                               struct rl_command *command);

/* Sends the command to these nodes, and to one that does not know the script its text. Returns the nodes that it was not
 * sent to. */
quorum_nodes rl_carrier_send(struct rl_fanout *const *member, unsigned count, quorum_nodes nodes,
                             rl_carrier_format *format);

#endif
