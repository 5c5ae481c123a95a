/* The command of redlock run --on-lost. */
#ifndef CLI_RUN_LOST_H
#define CLI_RUN_LOST_H

#include "run.h"

#include <stdbool.h>

/*
 * Runs it and waits for its end. Call it in the front, when no process of CMD is left. killed: the process with the
 * lock was killed. A signal ends the command, with its processes; then cli_interrupt_again() ends the front by it.
 */
void cli_run_on_lost(const struct cli_run *run, bool killed);

#endif
