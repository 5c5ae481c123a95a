/* Builds the command of a round: SET, or a script with its arguments. */
#ifndef RL_ROUND_COMMAND_H
#define RL_ROUND_COMMAND_H

#include <stdbool.h>

#include "src/lock/queue.h"
#include "src/node/command.h"
#include "src/node/guard.h"
#include "src/node/limits.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

struct rl_round;

#define RL_KEY_MAX (128 + REDLOCK_RESOURCE_MAX)

/* A command under construction, with the memory of its arguments. It is large: keep it on the stack while sending. */
struct rl_round_command {
    struct rl_command command;
    bool subscribed; /* set by the sender: the client is subscribed on the nodes that get the command */
    char ttl[RL_DECIMAL_SIZE];
    char ticket[RL_DECIMAL_SIZE];
    char keys[RL_DECIMAL_SIZE];
    char permits[RL_DECIMAL_SIZE];
    char slot[RL_DECIMAL_SIZE];
    char waiter[RL_CHANNEL_SIZE + 16];
    char fence[RL_DECIMAL_SIZE];
    char fence_ttl[RL_DECIMAL_SIZE];
    char offer[REDLOCK_TOKEN_SIZE + 2 * RL_DECIMAL_SIZE + 128 + 4];
    struct rl_guard_numbers guard;
};

/* Formats the round's command. use_eval: with a script's text. false: no memory. Free the command in any case. */
bool rl_round_command_format(struct rl_round_command *built, const struct rl_round *round, bool use_eval);

#endif
