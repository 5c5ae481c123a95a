/*
 * When a command under a lock gets SIGTERM, and when SIGKILL: the rule alone, without clock or processes. Times are
 * milliseconds of one clock.
 *
 * The command ends before the lock does: SIGTERM comes `grace` before the end of validity, SIGKILL 50 ms before it.
 * Each renewal moves both. If the command must end at once (the lock is gone, a watching process is dead), SIGTERM
 * comes now and SIGKILL after the grace, or 50 ms before the end of validity if that is earlier.
 */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_ENDING_KILL_BEFORE_MS = 50 };

enum cli_ending_action { CLI_ENDING_WAIT, CLI_ENDING_TERMINATE, CLI_ENDING_KILL };

struct cli_ending {
    int64_t end;     /* the last known end of validity */
    int64_t grace;   /* between SIGTERM and SIGKILL */
    int64_t kill_by; /* latest SIGKILL after cli_ending_now(); INT64_MAX: not called */
    bool terminated; /* SIGTERM has been reported */
};

void cli_ending_begin(struct cli_ending *ending, int64_t end, int64_t grace);

/* The lock was renewed: it ends no earlier than this. */
void cli_ending_prolong(struct cli_ending *ending, int64_t end);

/* Ends the command at once, also if the lock is renewed. Only the first call counts. */
void cli_ending_now(struct cli_ending *ending, int64_t now);

/* Validity has ended: another client may hold the lock. SIGKILL is due now, without a grace period. */
void cli_ending_over(struct cli_ending *ending, int64_t now);

/* The action that is due now. CLI_ENDING_TERMINATE is returned once; CLI_ENDING_KILL always from its time on. */
enum cli_ending_action cli_ending_step(struct cli_ending *ending, int64_t now);

/* When to call it again. */
int64_t cli_ending_next(const struct cli_ending *ending);

#endif
