/* Shared by the contenders of both APIs of the library. */
#ifndef BENCH_REDLOCK_COMMON_H
#define BENCH_REDLOCK_COMMON_H

#include <redlock/redlock.h>

enum { CONNECT_TIMEOUT_MS = 5000 };

/* The default options, except for a counting allocator and a node timeout much longer than any noise. */
redlock_options redlock_bench_options(void);

/* On the event loop: the client, and the function that acquires; NULL: a plain acquire. It may rename the slot. */
extern redlock_client *redlock_bench_client;
struct slot;
const redlock_acquire_options *redlock_bench_how(struct slot *slot);

_Noreturn void redlock_die(const char *what, const redlock_result *result);

#endif
