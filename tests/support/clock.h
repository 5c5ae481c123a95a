/* Time for tests: one monotonic clock, deadlines, and waiting for a condition. */
#ifndef TESTS_SUPPORT_CLOCK_H
#define TESTS_SUPPORT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t test_now_ns(void);

/* The point in time timeout_ms from now, on the clock of test_now_ns(). */
uint64_t test_deadline_ns(unsigned timeout_ms);

/* The time left until deadline_ns, rounded up to whole milliseconds for poll(2); 0 when it has passed. */
int test_ms_left(uint64_t deadline_ns);

struct timespec test_timespec(uint64_t ns);

/* Calls the predicate every millisecond until it returns true or the time is over. Returns its last result. Use it
 * for state without notification; a fixture's own wait function wakes at once. */
bool wait_until(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms);

#endif
