/* The clock of the benchmark, in nanoseconds. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* CPU time of this process, all threads. */
static inline uint64_t clock_cpu(void)
{
    return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
