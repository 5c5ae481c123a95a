/* Eight plain locks, acquired and released one after another, for comparison with one lock on several resources. */
#include <stdlib.h>

#include "contender.h"
#include "redlock_common.h"
#include "several.h"

struct eight {
    struct slot *slot;
    unsigned held;
    redlock_lock *locks[SEVERAL];
};

static void acquire_next(struct eight *eight);
static void release_next(struct eight *eight);

static void end(struct eight *eight)
{
    struct slot *slot = eight->slot;
    free(eight);
    slot_released(slot);
}

static void on_acquired(redlock_client *from, redlock_lock *lock, const redlock_result *result, void *data)
{
    (void)from;
    struct eight *eight = data;
    if (!lock)
        redlock_die("one of eight locks is not acquired", result);
    eight->locks[eight->held++] = lock;
    if (eight->held < SEVERAL)
        acquire_next(eight);
    else
        slot_acquired(eight->slot);
}

static void acquire_next(struct eight *eight)
{
    char name[SEVERAL_NAME_SIZE];
    several_name(name, eight->held, eight->slot);
    if (redlock_acquire_async(redlock_bench_client, name, NULL, on_acquired, eight) != REDLOCK_OK)
        redlock_die("an acquire is not accepted", NULL);
}

static void on_released(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from;
    struct eight *eight = data;
    if (result->status != REDLOCK_OK)
        redlock_die("one of eight locks is not released", result);
    if (eight->held > 0)
        release_next(eight);
    else
        end(eight);
}

static void release_next(struct eight *eight)
{
    if (redlock_release_async(&eight->locks[--eight->held], on_released, eight) != REDLOCK_OK)
        redlock_die("a release is not accepted", NULL);
}

void contender_acquire(struct slot *slot)
{
    struct eight *eight = calloc(1, sizeof *eight);
    if (!eight)
        abort();
    eight->slot = slot;
    slot->lock = eight;
    acquire_next(eight);
}

void contender_release(struct slot *slot)
{
    release_next(slot->lock);
}
