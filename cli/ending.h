/*
 * When a command under a lock is told to end, and when it is killed: the rule alone, without clock or processes. Times
 * are milliseconds of one clock.
 *
 * The command is dead when the lock ends: SIGTERM comes `grace` before the end of validity, SIGKILL 50 ms before it. As
 * long as the lock is renewed that moment moves on. When it is told to end at once (the lock is gone, its watcher is
 * dead), SIGKILL follows after the grace, or at that same moment if it is earlier.
 */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_ENDING_KILL_BEFORE_MS = 50 };

enum cli_ending_action { CLI_ENDING_WAIT, CLI_ENDING_TERMINATE, CLI_ENDING_KILL };

struct cli_ending {
    int64_t end;     /* of validity, the last one known */
    int64_t grace;   /* between SIGTERM and SIGKILL */
    int64_t kill_by; /* INT64_MAX, or when its time is over: it was told to end at once */
    bool terminated; /* SIGTERM was due, and told */
};

void cli_ending_begin(struct cli_ending *ending, int64_t end, int64_t grace);

/* The lock was renewed: it ends no earlier than this. */
void cli_ending_prolong(struct cli_ending *ending, int64_t end);

/* To end at once, whatever the lock does. Only the first time counts. */
void cli_ending_now(struct cli_ending *ending, int64_t now);

/* Validity has ended: another client may hold the lock. SIGKILL is due now, without a grace, whatever was known
 * before. */
void cli_ending_over(struct cli_ending *ending, int64_t now);

/* What is to be done now. CLI_ENDING_TERMINATE comes once; CLI_ENDING_KILL from its time on always. */
enum cli_ending_action cli_ending_step(struct cli_ending *ending, int64_t now);

/* When to ask again. */
int64_t cli_ending_next(const struct cli_ending *ending);

#endif
