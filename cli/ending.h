/*
 * When a command under a lock gets SIGTERM, and when SIGKILL: the rule alone, without clock or processes. Times are
 * milliseconds of one clock.
 *
 * The command ends before the lock does: SIGTERM comes `grace` before the end of validity, SIGKILL 50 ms before it, and
 * earlier by the time that a large tree takes. Each renewal moves both. If the command must end at once (the lock is gone,
 * a watching process is dead), SIGTERM comes now and SIGKILL after the grace, or shortly before the end of validity if
 * that is earlier.
 */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>
#include <stdint.h>

/* PAUSE: from one SIGKILL to the next, doubled each time, in case a process remains. LOOK: the least time between two
 * looks. */
enum {
    CLI_ENDING_KILL_BEFORE_MS = 50,
    CLI_ENDING_PAUSE_MS = 10,
    CLI_ENDING_PAUSE_MOST_MS = 1000,
    CLI_ENDING_LOOK_MS = 50
};

enum cli_ending_action { CLI_ENDING_WAIT, CLI_ENDING_TERMINATE, CLI_ENDING_KILL };

struct cli_ending {
    int64_t end;         /* the last known end of validity */
    int64_t grace;       /* between SIGTERM and SIGKILL */
    int64_t kill_before; /* from SIGKILL to the end */
    int64_t kill_again;  /* the earliest next SIGKILL */
    int64_t pause;       /* before it; 0: none was sent */
    int64_t kill_by;     /* latest SIGKILL after cli_ending_now(); INT64_MAX: not called */
    bool terminated;     /* SIGTERM has been reported */
};

void cli_ending_begin(struct cli_ending *ending, int64_t end, int64_t grace);

/* SIGKILL takes this long to reach the whole tree, as SIGTERM did. Counts from SIGTERM to the next renewal. */
void cli_ending_allow(struct cli_ending *ending, int64_t takes_ms);

/* The lock was renewed: it ends no earlier than this. */
void cli_ending_prolong(struct cli_ending *ending, int64_t end);

/* Ends the command at once, also if the lock is renewed. Only the first call counts. */
void cli_ending_now(struct cli_ending *ending, int64_t now);

/* Validity has ended: another client may hold the lock. SIGKILL is due now, without a grace period. */
void cli_ending_over(struct cli_ending *ending, int64_t now);

/* The action that is due now. CLI_ENDING_TERMINATE is returned once; CLI_ENDING_KILL again
 * after each pause. */
enum cli_ending_action cli_ending_step(struct cli_ending *ending, int64_t now);

/* When to call it again. */
int64_t cli_ending_next(const struct cli_ending *ending);

/* When the holder looks for a renewal, to report it to the front, which knows `known_end`: halfway to the front's SIGTERM, so
 * that a holder that waits for a processor is still in time. */
int64_t cli_ending_look(const struct cli_ending *ending, int64_t known_end, int64_t now);

#endif
