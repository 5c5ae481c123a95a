/* The clock that validity is counted on, and waking at a moment of it. */
#ifndef CLI_MOMENT_H
#define CLI_MOMENT_H

#include <stdint.h>

/* CLOCK_BOOTTIME in milliseconds, rounded down: it goes on while the machine sleeps. */
int64_t cli_now_ms(void);

/* A descriptor that becomes readable at a moment of this clock, close-on-exec; -1 and errno. */
int cli_alarm_make(void);
/* At this moment, at once if it is past; INT64_MAX: never. Until then it is not readable. */
void cli_alarm_set(int alarm, int64_t moment_ms);

#endif
