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
    return redlock_release(&lock, NULL, NULL) == REDLOCK_OK;
}

void contender_open(const char *nodes)
{
    redlock_bench_connect(nodes);
}

void contender_close(void)
{
    redlock_close(&redlock_bench_client, NULL, NULL);
}
