/* An allocator that counts, for redlock_options: the memory that the library itself asks for. */
#ifndef BENCH_COUNTING_H
#define BENCH_COUNTING_H

#include <redlock/redlock.h>
#include <stdatomic.h>

struct counting {
    atomic_ullong allocations;
    atomic_size_t bytes, most; /* in use, and the maximum */
};

/* Only one: a client may use it from several threads. */
extern struct counting counting;

redlock_allocator counting_allocator(void);

#endif
