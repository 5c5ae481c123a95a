/* Detects when the whole machine stops, as virtual machines do. A thread per processor, at the highest real-time
 * priority, sleeps 2 ms at a time. If none of them has run for twice that time, no other thread could run either. */
#ifndef BENCH_STANDSTILL_H
#define BENCH_STANDSTILL_H

#include <stdatomic.h>
#include <stdint.h>

enum { STANDSTILLS_MAX = 1024 };

/* In memory that the watching process shares with its readers. */
struct standstills {
    _Atomic uint64_t alive; /* clock: when a thread last ran */
    _Atomic unsigned count;
    struct {
        uint64_t begin, end; /* clock; without the 2 ms of a normal sleep */
    } time[STANDSTILLS_MAX];
};

/* Watches until the process ends. Without the right to that priority it detects nothing. */
void standstills_watch(struct standstills *standstills);

/* Duration of standstills from begin to end; ns. */
uint64_t standstills_within(const struct standstills *standstills, uint64_t begin, uint64_t end);

#endif
