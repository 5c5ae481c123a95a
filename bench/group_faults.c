/* The same client on five healthy nodes, and on five nodes of which one or two were killed or stopped after it had
 * connected. Each condition has its own five servers, so that all conditions are measured in turn. */
#include "apis.h"
#include "contender.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, CONDITIONS = 5 };

struct condition {
    const char *name;
    unsigned killed, stopped;
};

static const struct condition conditions[CONDITIONS] = {
    {"healthy", 0, 0}, {"killed-1", 1, 0}, {"killed-2", 2, 0}, {"stopped-1", 0, 1}, {"stopped-2", 0, 2},
};

static struct estimate worst_of_all(const struct stage *stage, const struct entrant *entrant)
{
    double worst = 0;
    for (unsigned round = 0; round < stage->round_count; round++)
        if (acquire_worst(&entrant->rounds[round]) > worst)
            worst = acquire_worst(&entrant->rounds[round]);
    return estimate_exact(worst / 1e3);
}

static void judge(const struct stage *stage, const struct api *api, const char *what, const struct entrant *entrant,
                  const struct entrant *healthy)
{
    char name[64];
    snprintf(name, sizeof name, "%s/acquire-p50/%s/healthy", what, api->name);
    target_at_most(name, entrant_ratio(stage, entrant, healthy, acquire_p50), 1.10);
    snprintf(name, sizeof name, "%s/acquire-p99/%s/healthy", what, api->name);
    target_at_most(name, entrant_ratio(stage, entrant, healthy, acquire_p99), 1.10);
    snprintf(name, sizeof name, "%s/acquire-worst-ms/%s", what, api->name);
    target_at_most(name, worst_of_all(stage, entrant), NODE_TIMEOUT_MS);
}

/* A floor only for comparison: it has no deadlines. */
void group_faults(struct stage *stage)
{
    static struct servers servers[CONDITIONS];
    struct entrant *clients[CONDITIONS][APIS];
    char nodes[NODE_LIST_SIZE], label[LABEL_SIZE];
    for (unsigned i = 0; i < CONDITIONS; i++) {
        servers_start(&servers[i], NODES);
        servers_list(&servers[i], NODES, nodes);
        snprintf(label, sizeof label, "floor B, %s", conditions[i].name);
        stage_enter(stage, label, "bench-floor-b", nodes, 1);
        for (unsigned api = 0; api < APIS; api++) {
            snprintf(label, sizeof label, "%s, %s", apis[api].label, conditions[i].name);
            clients[i][api] = stage_enter(stage, label, apis[api].program, nodes, 1);
        }
    }
    for (unsigned i = 0; i < CONDITIONS; i++) {
        servers_kill(&servers[i], conditions[i].killed);
        servers_stop(&servers[i], conditions[i].stopped);
    }
    stage_warm_up(stage);
    stage_play(stage, 60, 60);
    report_table(stage, NULL);
    report_distributions(stage, apis[0].label);
    for (unsigned api = 0; api < APIS; api++)
        for (unsigned i = 1; i < CONDITIONS; i++)
            judge(stage, &apis[api], conditions[i].name, clients[i][api], clients[0][api]);
    stage_close(stage);
    for (unsigned i = 0; i < CONDITIONS; i++) {
        stage->left_over_keys += servers_left_over(&servers[i]);
        servers_end(&servers[i]);
    }
}
