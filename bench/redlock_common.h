/* Shared by the contenders of all APIs of the library. */
#ifndef BENCH_REDLOCK_COMMON_H
#define BENCH_REDLOCK_COMMON_H

#include <redlock/redlock.h>

enum { CONNECT_TIMEOUT_MS = 10000 };

struct slot;

/* By the variant (redlock_common.c). The default: a node timeout much longer than any noise, and no guard, because
 * the servers are new and the floors have no guard either. */
redlock_options redlock_bench_options(const char *nodes);

/* NULL: a plain acquire. It may rename the slot. */
const redlock_acquire_options *redlock_bench_how(struct slot *slot);

extern redlock_client *redlock_bench_client;

/* Makes it a client with its own thread. */
void redlock_bench_connect(const char *nodes);

_Noreturn void redlock_die(const char *what, const redlock_result *result);

#endif
