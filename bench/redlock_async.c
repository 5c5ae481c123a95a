/* This library on the caller's event loop: one acquire, one release. */
#include <ev.h>
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
    if (redlock_release_async(&lock, on_released, slot) != REDLOCK_OK)
        redlock_die("a release is not accepted", NULL);
}

static void on_ready(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from;
    if (result->status != REDLOCK_OK)
        redlock_die("the nodes are not ready", result);
    ev_break(data, EVBREAK_ALL);
}

void contender_connect(struct ev_loop *loop, const char *nodes)
{
    redlock_result result;
    redlock_options options = redlock_bench_options(nodes);
    if (redlock_attach(loop, nodes, &options, &redlock_bench_client, &result) != REDLOCK_OK)
        redlock_die("no client", &result);
    if (redlock_ready_async(redlock_bench_client, CONNECT_TIMEOUT_MS, on_ready, loop) != REDLOCK_OK)
        redlock_die("readiness cannot be asked for", NULL);
    ev_run(loop, 0);
}

static void on_closed(redlock_client *from, const redlock_result *result, void *data)
{
    (void)from, (void)result;
    ev_break(data, EVBREAK_ALL);
}

void contender_disconnect(struct ev_loop *loop)
{
    if (redlock_close_async(&redlock_bench_client, on_closed, loop) != REDLOCK_OK)
        redlock_die("closing is not accepted", NULL);
    ev_run(loop, 0);
}
