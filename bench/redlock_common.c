#include "redlock_common.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "contender.h"

#ifndef BENCH_GUARD
#define BENCH_GUARD 0
#endif

static atomic_ullong allocations;

static void *allocate(size_t size, void *user)
{
    (void)user;
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return malloc(size);
}

static void *reallocate(void *memory, size_t size, void *user)
{
    (void)user;
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return realloc(memory, size);
}

static void release(void *memory, void *user)
{
    (void)user;
    free(memory);
}

unsigned long long contender_allocations(void)
{
    return atomic_load(&allocations);
}

redlock_options redlock_bench_options(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = LOCK_TTL_MS;
    options.guard = BENCH_GUARD; /* off by default: the servers are new, and the floors have no guard either */
    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.allocator = (redlock_allocator){allocate, reallocate, release, NULL};
    return options;
}

_Noreturn void redlock_die(const char *what, const redlock_result *result)
{
    redlock_result copy = result ? *result : (redlock_result){0};
    fprintf(stderr, "redlock: %s%s%s\n", what, result ? ": " : "", result ? redlock_result_text(&copy) : "");
    exit(1);
}
