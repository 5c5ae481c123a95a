/* Durations on the command line and in messages. */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>

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
