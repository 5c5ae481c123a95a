/* The common part of the front and the watchdog of redlock run: ending CMD's tree if the holder does not. */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include "ending.h"
#include "run.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>

struct cli_run_guard {
    const struct cli_run *run;
    int64_t patience_ms; /* the others send SIGTERM, unless it is late by this much */
    bool began;
    bool holder_is_dead;
    struct cli_ending ending;
};

/* The holder is dead: end the tree from now on. */
void cli_run_guard_end(struct cli_run_guard *guard);

/* Sends the signal that is due to this tree, if CMD runs. holder: its PID, 0: dead. */
void cli_run_guard_step(struct cli_run_guard *guard, const struct cli_tree *tree, pid_t holder);

/* When the next step is due; INT64_MAX: not before another event. */
int64_t cli_run_guard_next(const struct cli_run_guard *guard);

#endif
