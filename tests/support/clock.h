/* Time for tests: one monotonic clock, deadlines, and waiting for a condition. */
#ifndef TESTS_SUPPORT_CLOCK_H
#define TESTS_SUPPORT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t test_now_ns(void);

/* The point in time timeout_ms from now, on the clock of test_now_ns(). */
uint64_t test_deadline_ns(unsigned timeout_ms);

/* The time left until deadline_ns, rounded up to whole milliseconds for poll(2); 0 when it has passed. */
int test_ms_left(uint64_t deadline_ns);

struct timespec test_timespec(uint64_t ns);

/* Calls the predicate until it returns true or the time is over, at first every millisecond, later with pauses of a fiftieth
 * of the time so far, up to 20 ms. Returns its last result. */
bool wait_until(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms);

/* --- How late the machine is, for tests of punctuality --- */

/* The total time that the process' threads have waited for a processor; 0 if it has ended. */
double lateness_waited_ms(pid_t process);

/* A thread sleeps for a millisecond again and again until lateness_end_ms(), which returns the longest delay of a wake-up.
 * The sleep is the measurement. */
void lateness_begin(void);
double lateness_end_ms(void);

#endif
