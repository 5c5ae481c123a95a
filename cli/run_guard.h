/* What the front and the watchdog of redlock run have in common: they end CMD's tree when the holder does not. */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include "ending.h"
#include "run.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>

struct cli_run_guard {
    const struct cli_run *run;
    int64_t patience_ms; /* SIGTERM is left to the others until it is late by this much */
    bool began;
    bool holder_is_dead;
    struct cli_ending ending;
};

/* The holder is dead: the tree is ended from now on. */
void cli_run_guard_end(struct cli_run_guard *guard);

/* Sends the signal that is due to this tree; holder: its process, 0 when it is dead. Nothing is due unless CMD runs. */
void cli_run_guard_step(struct cli_run_guard *guard, const struct cli_tree *tree, pid_t holder);

/* When the next step is due; INT64_MAX: not before something happens. */
int64_t cli_run_guard_next(const struct cli_run_guard *guard);

#endif
