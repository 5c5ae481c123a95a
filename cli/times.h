/* The clock of validity, a timer on it, and durations on the command line and in messages. */
#ifndef CLI_TIMES_H
#define CLI_TIMES_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_BOOTTIME in milliseconds, rounded down: it counts suspend. */
int64_t cli_now_ms(void);

/* A descriptor that becomes readable at a time of this clock, close-on-exec; -1: see errno. */
int cli_alarm_make(void);
/* Sets the time; one in the past is at once; INT64_MAX: never. Until then it is not readable. */
void cli_alarm_set(int alarm, int64_t moment_ms);

/* The accepted form, for messages. */
#define CLI_DURATION_FORM "a number and ms, s, m, h or d (seconds without a unit), 366d at most"

/* "500ms", "2s", "1.5m", "1h", "1d"; seconds without a unit, as in sleep(1) and flock(1). At most
 * CLI_DURATION_MAX_MS. False: not a duration. */
bool cli_duration_read(const char *text, int64_t *milliseconds);

#define CLI_DURATION_MAX_MS (366LL * 24 * 60 * 60 * 1000)

/* "850 ms", "3.2 s", "12 min". Returns buffer. */
enum { CLI_DURATION_SIZE = 32 };
const char *cli_duration_text(int64_t milliseconds, char buffer[CLI_DURATION_SIZE]);

/* The same without rounding, for bounds: "30.001 s". */
const char *cli_duration_exact(int64_t milliseconds, char buffer[CLI_DURATION_SIZE]);

#endif
