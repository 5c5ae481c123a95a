/* Nodes at different distances: round trips of 1, 1, 1, 5 and 20 ms. */
#include "groups.h"
#include "proxy.h"
#include "report.h"

enum { NODES = 5 };

static const unsigned round_trips[NODES] = {1000, 1000, 1000, 5000, 20000}; /* us */

/* The acquire time minus 1.05 round trips, measured in the same rounds. The limit for it is 100 us. */
static struct estimate beyond_limit(const struct stage *stage, const struct entrant *entrant,
                                    const struct entrant *ping)
{
    double values[ROUNDS_MAX];
    for (unsigned round = 0; round < stage->round_count; round++)
        values[round] = acquire_p50(&entrant->rounds[round]) - 1.05 * acquire_p50(&ping->rounds[round]);
    return estimate_median(values, stage->round_count);
}

void group_spread(struct stage *stage)
{
    struct servers servers;
    struct proxy proxy;
    char nodes[NODE_LIST_SIZE], third[NODE_LIST_SIZE];
    servers_start(&servers, NODES);
    proxy_start(&proxy, &servers, round_trips, NODES);
    proxy_list(&proxy, 0, NODES, nodes);
    proxy_list(&proxy, 2, 1, third);
    struct entrant *ping = stage_enter(stage, "PING, third fastest node", "bench-ping", third, 1);
    stage_enter(stage, "floor A", "bench-floor-a", nodes, 1);
    stage_enter(stage, "floor B", "bench-floor-b", nodes, 1);
    struct entrant *async = stage_enter(stage, "redlock, asynchronous", "bench-redlock-async", nodes, 1);
    struct entrant *blocking = stage_enter(stage, "redlock, blocking", "bench-redlock-blocking", nodes, 1);
    stage_play(stage, 32, 200);
    report_group(stage);
    report_table(stage, ping);
    target_at_most("spread/acquire-p50-us-beyond-1.05-round-trips/async", beyond_limit(stage, async, ping), 100);
    target_at_most("spread/acquire-p50-us-beyond-1.05-round-trips/blocking", beyond_limit(stage, blocking, ping), 100);
    stage_close(stage);
    proxy_end(&proxy);
    stage->left_over_keys += servers_left_over(&servers, NODES);
    servers_end(&servers);
}
