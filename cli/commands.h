/* The commands, each defined in the file of its name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "command.h"

extern const struct cli_command cli_command_local;
extern const struct cli_command cli_command_run;

#endif
