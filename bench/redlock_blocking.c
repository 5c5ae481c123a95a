/* This library's blocking API: one client for all threads. */
#include "contender.h"

#include <redlock/redlock.h>

#include "redlock_common.h"

bool contender_lock(struct slot *slot)
{
    redlock_lock *lock;
    bool acquired =
        redlock_acquire(redlock_bench_client, slot->resource, redlock_bench_how(slot), &lock, NULL) == REDLOCK_OK;
    slot->lock = lock;
    return acquired;
}

bool contender_unlock(struct slot *slot)
{
    redlock_lock *lock = slot->lock;
    return redlock_release(&lock, NULL) == REDLOCK_OK;
}

void contender_open(const char *nodes)
{
    redlock_result result;
    redlock_options options = redlock_bench_options(nodes);
    if (redlock_connect(nodes, &options, &redlock_bench_client, &result) != REDLOCK_OK)
        redlock_die("no client", &result);
    if (redlock_ready(redlock_bench_client, CONNECT_TIMEOUT_MS, &result) != REDLOCK_OK)
        redlock_die("the nodes are not ready", &result);
}

void contender_close(void)
{
    redlock_close(&redlock_bench_client, NULL);
}
