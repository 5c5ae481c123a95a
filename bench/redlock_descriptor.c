/* A client with its own thread, whose completions the caller's event loop fetches by a descriptor. */
#include <ev.h>
#include <redlock/redlock.h>

#include "contender.h"
#include "redlock_common.h"

static ev_io completions;

static void on_completions(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop, (void)watcher, (void)events;
    redlock_dispatch(redlock_bench_client);
}

void contender_connect(struct ev_loop *loop, const char *nodes)
{
    redlock_bench_connect(nodes);
    ev_io_init(&completions, on_completions, redlock_descriptor(redlock_bench_client), EV_READ);
    ev_io_start(loop, &completions);
}

void contender_disconnect(struct ev_loop *loop)
{
    ev_io_stop(loop, &completions);
    redlock_close(&redlock_bench_client, NULL, NULL);
}
