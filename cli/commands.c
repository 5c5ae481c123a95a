#include "commands.h"

#include <stddef.h>

const struct cli_command *const cli_commands[] = {
    &cli_command_run,
    &cli_command_local,
    NULL,
};
