/* One lock at a time, on five nodes and on other numbers of nodes. */
#include "apis.h"
#include "groups.h"
#include "report.h"

static void at_most(const char *what, const struct api *api, const char *base, struct estimate ratio, double limit)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s/%s", what, api->name, base);
    if (limit > 0)
        target_at_most(name, ratio, limit);
}

void group_latency(struct stage *stage)
{
    const struct entrant *clients[APIS];
    stage_open(stage, 5);
    stage_enter(stage, "PING, one connection", "bench-ping", stage->nodes, 1);
    struct entrant *raw = stage_enter(stage, "raw sockets", "bench-floor-raw", stage->nodes, 1);
    struct entrant *floor_a = stage_enter(stage, "floor A", "bench-floor-a", stage->nodes, 1);
    stage_enter(stage, "floor B", "bench-floor-b", stage->nodes, 1);
    stage_enter(stage, "floor C", "bench-floor-c", stage->nodes, 1);
    for (unsigned i = 0; i < APIS; i++)
        clients[i] = stage_enter(stage, apis[i].label, apis[i].program, stage->nodes, 1);
    stage_play(stage, 80, 100);
    report_table(stage, raw);
    report_distributions(stage, "");
    for (unsigned i = 0; i < APIS; i++) {
        struct estimate to_raw = entrant_ratio(stage, clients[i], raw, acquire_p50);
        struct estimate to_floor_a = entrant_ratio(stage, clients[i], floor_a, acquire_p50);
        struct estimate both = entrant_ratio(stage, clients[i], floor_a, both_p50);
        report_figure(apis[i].label, "acquire p50 to floor A's", to_floor_a, "");
        report_figure(apis[i].label, "acquire + release p50 to floor A's", both, "");
        at_most("acquire-p50", &apis[i], "raw", to_raw, apis[i].limits.acquire_to_raw);
        at_most("acquire-p50", &apis[i], "floor-a", to_floor_a, apis[i].limits.acquire_to_floor_a);
        at_most("acquire-release-p50", &apis[i], "floor-a", both, apis[i].limits.both_to_floor_a);
    }
}

void group_sizes(struct stage *stage)
{
    static const unsigned sizes[] = {1, 3, 5, 7};
    char nodes[NODE_LIST_SIZE], label[LABEL_SIZE];
    stage_open(stage, 7);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        servers_list(&stage->servers, sizes[i], nodes);
        snprintf(label, sizeof label, "%u nodes: raw sockets", sizes[i]);
        stage_enter(stage, label, "bench-floor-raw", nodes, 1);
        snprintf(label, sizeof label, "%u nodes: floor A", sizes[i]);
        stage_enter(stage, label, "bench-floor-a", nodes, 1);
        for (unsigned api = 0; api < APIS; api++) {
            snprintf(label, sizeof label, "%u nodes: %s", sizes[i], apis[api].label);
            stage_enter(stage, label, apis[api].program, nodes, 1);
        }
    }
    stage_play(stage, 32, 60);
    report_table(stage, NULL);
}
