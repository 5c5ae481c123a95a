/* One lock at a time, on five nodes and on other numbers of nodes. */
#include "groups.h"
#include "report.h"
#include "servers.h"

static void compare(const struct stage *stage, const char *what, metric_function *metric, const struct entrant *async,
                    const struct entrant *blocking, const struct entrant *floor_a, const struct entrant *floor_b)
{
    char name[64];
    snprintf(name, sizeof name, "%s/async/floor-a", what);
    target_at_most(name, entrant_ratio(stage, async, floor_a, metric), 1.00);
    snprintf(name, sizeof name, "%s/async/floor-b", what);
    target_at_most(name, entrant_ratio(stage, async, floor_b, metric), 1.10);
    snprintf(name, sizeof name, "%s/blocking/floor-a", what);
    target_at_most(name, entrant_ratio(stage, blocking, floor_a, metric), 1.60);
}

void group_latency(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, 5);
    servers_list(&servers, 5, nodes);
    stage_enter(stage, "PING, one connection", "bench-ping", nodes, 1);
    struct entrant *floor_a = stage_enter(stage, "floor A", "bench-floor-a", nodes, 1);
    struct entrant *floor_b = stage_enter(stage, "floor B", "bench-floor-b", nodes, 1);
    stage_enter(stage, "floor C (B, formatting once)", "bench-floor-c", nodes, 1);
    struct entrant *async = stage_enter(stage, "redlock, asynchronous", "bench-redlock-async", nodes, 1);
    struct entrant *blocking = stage_enter(stage, "redlock, blocking", "bench-redlock-blocking", nodes, 1);
    stage_play(stage, 80, 100);
    report_group(stage);
    report_table(stage, floor_a);
    report_distributions(stage, "");
    compare(stage, "acquire-p50", acquire_p50, async, blocking, floor_a, floor_b);
    compare(stage, "acquire-release-p50", both_p50, async, blocking, floor_a, floor_b);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, 5);
    servers_end(&servers);
}

void group_sizes(struct stage *stage)
{
    static const unsigned sizes[] = {1, 3, 5, 7};
    struct servers servers;
    char nodes[NODE_LIST_SIZE], label[LABEL_SIZE];
    servers_start(&servers, 7);
    for (unsigned i = 0; i < 4; i++) {
        servers_list(&servers, sizes[i], nodes);
        snprintf(label, sizeof label, "%u nodes: floor A", sizes[i]);
        stage_enter(stage, label, "bench-floor-a", nodes, 1);
        snprintf(label, sizeof label, "%u nodes: floor B", sizes[i]);
        stage_enter(stage, label, "bench-floor-b", nodes, 1);
        snprintf(label, sizeof label, "%u nodes: redlock, asynchronous", sizes[i]);
        stage_enter(stage, label, "bench-redlock-async", nodes, 1);
        snprintf(label, sizeof label, "%u nodes: redlock, blocking", sizes[i]);
        stage_enter(stage, label, "bench-redlock-blocking", nodes, 1);
    }
    stage_play(stage, 32, 60);
    report_group(stage);
    report_table(stage, NULL);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, 7);
    servers_end(&servers);
}
