/* A client on the caller's event loop. */
#include <ev.h>
#include <redlock/redlock.h>

#include "contender.h"
#include "redlock_common.h"

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
    if (redlock_close_async(&redlock_bench_client, NULL, on_closed, loop) != REDLOCK_OK)
        redlock_die("closing is not accepted", NULL);
    ev_run(loop, 0);
}
