/* Nodes at different distances: round trips of 1, 1, 1, 5 and 20 ms. */
#include "apis.h"
#include "groups.h"
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
    const struct entrant *clients[APIS];
    char nodes[NODE_LIST_SIZE], third[NODE_LIST_SIZE], name[64];
    stage_open(stage, NODES);
    proxy_list(stage_place(stage, round_trips, nodes), 2, 1, third);
    struct entrant *ping = stage_enter(stage, "PING, third fastest node", "bench-ping", third, 1);
    stage_enter(stage, "raw sockets", "bench-floor-raw", nodes, 1);
    stage_enter(stage, "floor A", "bench-floor-a", nodes, 1);
    for (unsigned i = 0; i < APIS; i++)
        clients[i] = stage_enter(stage, apis[i].label, apis[i].program, nodes, 1);
    stage_play(stage, 32, 200);
    report_table(stage, ping);
    for (unsigned i = 0; i < APIS; i++) {
        snprintf(name, sizeof name, "spread/acquire-p50-us-beyond-1.05-round-trips/%s", apis[i].name);
        target_at_most(name, beyond_limit(stage, clients[i], ping), 100);
    }
}
