/* How late the machine is, for tests of punctuality. It is close to 0 on an idle machine, where a limit that adds it stays
 * strict. */
#ifndef TESTS_SUPPORT_LATENESS_H
#define TESTS_SUPPORT_LATENESS_H

#include <sys/types.h>

/* The total time that the process' threads have waited for a processor; 0 if it has ended. */
double lateness_waited_ms(pid_t process);

/* A thread sleeps for a millisecond again and again until lateness_end_ms(), which returns the longest delay of a wake-up.
 * The sleep is the measurement. */
void lateness_begin(void);
double lateness_end_ms(void);

#endif
