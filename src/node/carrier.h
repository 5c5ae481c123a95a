/*
 * A carrier: one command to some nodes that stands for the requests of several fan-outs, of one loop turn and by one
 * script. A node replies with a part for each. The carrier passes the part on as the reply to that fan-out's request,
 * and any other answer to all of them: for them it is as if each had sent its request itself, and they count, time out
 * and end by themselves. It counts nothing.
 *
 * A fan-out sends its own request where the command of all was refused for one of them, or by a node that does not know
 * the script, or has found no memory.
 */
#ifndef RL_CARRIER_H
#define RL_CARRIER_H

#include "quorum/time.h"
#include "src/node/fanout.h"

#define RL_CARRIER_MOST 64 /* more hardly make it cheaper */

/* Formats the command of these fan-outs; of one it is what its resend() sends. false: no memory. */
typedef bool rl_carrier_format(struct rl_fanout *const *member, unsigned count, bool use_eval,
                               struct rl_command *command);

/* How the nodes get the command: all at once, or one after the other, each when the one before has answered. */
struct rl_carrier_turns {
    quorum_duration end; /* when all remaining nodes get it at once; 0: all do now */
    unsigned first;      /* the first node */
};

/* Sends the command to these nodes. A request that could not be sent ends as broken. */
void rl_carrier_send(struct rl_fanout *const *member, unsigned count, quorum_nodes nodes, rl_carrier_format *format,
                     const struct rl_carrier_turns *turns);

#endif
