/* Was it us, or the machine? A thread for each processor, of the highest real-time priority, sleeps 2 ms at a time. When
 * none of them has run for twice that, nobody could: the machine stood still, as virtual ones do. */
#ifndef BENCH_STANDSTILL_H
#define BENCH_STANDSTILL_H

#include <stdatomic.h>
#include <stdint.h>

enum { STANDSTILLS_MAX = 1024 };

/* In memory that whoever asks has in common with the watching process. */
struct standstills {
    _Atomic uint64_t alive; /* clock: when a thread ran last */
    _Atomic unsigned count;
    struct {
        uint64_t begin, end; /* clock; without the 2 ms in which it need not have begun */
    } time[STANDSTILLS_MAX];
};

/* Watches until the process ends. Without the right to that priority nothing is seen. */
void standstills_watch(struct standstills *standstills);

/* How long the machine stood still from begin to end; ns. */
uint64_t standstills_within(const struct standstills *standstills, uint64_t begin, uint64_t end);

#endif
