/* --help, from the tables of options. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

void cli_help(void);
void cli_command_help(const struct cli_command *command);

#endif
