/* What both faces of the library are measured with. */
#ifndef BENCH_REDLOCK_COMMON_H
#define BENCH_REDLOCK_COMMON_H

#include <redlock/redlock.h>

enum { CONNECT_TIMEOUT_MS = 5000 };

/* The defaults, but for an allocator that counts and a node timeout that cannot be mistaken for noise. */
redlock_options redlock_bench_options(void);

/* On the event loop: the client, and how a contender acquires; NULL: plainly. It may rename the slot. */
extern redlock_client *redlock_bench_client;
struct slot;
const redlock_acquire_options *redlock_bench_how(struct slot *slot);

_Noreturn void redlock_die(const char *what, const redlock_result *result);

#endif
