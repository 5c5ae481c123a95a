/* The commands, each defined in the file of its name; extend and release in token.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "command.h"

extern const struct cli_command cli_command_acquire;
extern const struct cli_command cli_command_bench;
extern const struct cli_command cli_command_doctor;
extern const struct cli_command cli_command_extend;
extern const struct cli_command cli_command_list;
extern const struct cli_command cli_command_local;
extern const struct cli_command cli_command_release;
extern const struct cli_command cli_command_run;
extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_trust;

#endif
