/* This library's asynchronous functions: one acquire, one release. */
#include <redlock/redlock.h>

#include "contender.h"
#include "redlock_common.h"

static void on_acquired(redlock_client *from, redlock_lock *lock, const redlock_result *result, void *data)
{
    (void)from;
    struct slot *slot = data;
    slot->lock = lock;
    slot->again = result->attempts > 1;
    if (lock)
        slot_acquired(slot);
    else
        slot_failed(slot);
}

static void on_released(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from;
    if (result->status == REDLOCK_OK)
        slot_released(data);
    else
        slot_failed(data);
}

void contender_acquire(struct slot *slot)
{
    if (redlock_acquire_async(redlock_bench_client, slot->resource, redlock_bench_how(slot), on_acquired, slot) !=
        REDLOCK_OK)
        redlock_die("an acquire is not accepted", NULL);
}

void contender_release(struct slot *slot)
{
    redlock_lock *lock = slot->lock;
    if (redlock_release_async(&lock, NULL, on_released, slot) != REDLOCK_OK)
        redlock_die("a release is not accepted", NULL);
}
