/* Builds the commands of rounds: SET, or a script with its arguments. What the nodes do with them: src/node/scripts. */
#ifndef RL_ROUND_COMMAND_H
#define RL_ROUND_COMMAND_H

#include <stdbool.h>

#include "redlock/redlock.h"
#include "src/node/fanout.h"

struct rl_round;

#define RL_KEY_MAX (128 + REDLOCK_RESOURCE_MAX)

/* Formats the round's command. use_eval: with a script's text. subscribed: the client is subscribed on the nodes that get
 * it. false: no memory. */
bool rl_round_command_format(struct rl_command *command, const struct rl_round *round, bool special, bool use_eval);

/* For carriers, the command of several rounds of one kind: releases of plain locks that are held; extensions, or heals,
 * of plain locks, or of others. */
rl_carrier_format rl_round_command_format_all;

#endif
