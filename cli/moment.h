/* The clock of validity, and a timer on it. */
#ifndef CLI_MOMENT_H
#define CLI_MOMENT_H

#include <stdint.h>

/* CLOCK_BOOTTIME in milliseconds, rounded down: it counts suspend. */
int64_t cli_now_ms(void);

/* A descriptor that becomes readable at a time of this clock, close-on-exec; -1: see errno. */
int cli_alarm_make(void);
/* Sets the time; one in the past is at once; INT64_MAX: never. Until then it is not readable. */
void cli_alarm_set(int alarm, int64_t moment_ms);

#endif
