#include "commands.h"

#include <stddef.h>

/* clang-format off */
const struct cli_command *const cli_commands[] = {
    &cli_command_run,
    &cli_command_acquire,
    &cli_command_extend,
    &cli_command_release,
    &cli_command_status,
    &cli_command_list,
    &cli_command_doctor,
    &cli_command_bench,
    &cli_command_trust,
    &cli_command_local,
    NULL,
};
/* clang-format on */
