/* The same client on five healthy nodes, and on five nodes of which one or two were killed or stopped after it had
 * connected. Each condition has its own five servers, so that all conditions are measured in turn. */
#include "contender.h"
#include "groups.h"
#include "report.h"
#include "servers.h"

enum { NODES = 5, CONDITIONS = 5, CLIENTS = 3 };

struct condition {
    const char *name;
    unsigned killed, stopped;
};

static const struct condition conditions[CONDITIONS] = {
    {"healthy", 0, 0}, {"killed-1", 1, 0}, {"killed-2", 2, 0}, {"stopped-1", 0, 1}, {"stopped-2", 0, 2},
};

static const struct {
    const char *name;
    const char *face; /* NULL: for comparison only, because a floor has no deadlines */
    const char *program;
} clients[CLIENTS] = {
    {"redlock async", "async", "bench-redlock-async"},
    {"redlock blocking", "blocking", "bench-redlock-blocking"},
    {"floor B", NULL, "bench-floor-b"},
};

static struct estimate worst_of_all(const struct stage *stage, const struct entrant *entrant)
{
    double worst = 0;
    for (unsigned round = 0; round < stage->round_count; round++)
        if (acquire_worst(&entrant->rounds[round]) > worst)
            worst = acquire_worst(&entrant->rounds[round]);
    return estimate_exact(worst / 1e3);
}

static void judge(const struct stage *stage, unsigned client, unsigned condition, const struct entrant *entrant,
                  const struct entrant *healthy)
{
    char name[64];
    const char *face = clients[client].face, *what = conditions[condition].name;
    snprintf(name, sizeof name, "%s/acquire-p50/%s/healthy", what, face);
    target_at_most(name, entrant_ratio(stage, entrant, healthy, acquire_p50), 1.10);
    snprintf(name, sizeof name, "%s/acquire-p99/%s/healthy", what, face);
    target_at_most(name, entrant_ratio(stage, entrant, healthy, acquire_p99), 1.10);
    snprintf(name, sizeof name, "%s/acquire-worst-ms/%s", what, face);
    target_at_most(name, worst_of_all(stage, entrant), NODE_TIMEOUT_MS);
}

void group_faults(struct stage *stage)
{
    static struct servers servers[CONDITIONS];
    struct entrant *entrants[CLIENTS][CONDITIONS];
    char nodes[NODE_LIST_SIZE], label[LABEL_SIZE];
    for (unsigned i = 0; i < CONDITIONS; i++) {
        servers_start(&servers[i], NODES);
        servers_list(&servers[i], NODES, nodes);
        for (unsigned client = 0; client < CLIENTS; client++) {
            snprintf(label, sizeof label, "%s, %s", clients[client].name, conditions[i].name);
            entrants[client][i] = stage_enter(stage, label, clients[client].program, nodes, 1);
        }
    }
    for (unsigned i = 0; i < CONDITIONS; i++) {
        servers_kill(&servers[i], conditions[i].killed);
        servers_stop(&servers[i], conditions[i].stopped);
    }
    stage_warm_up(stage);
    stage_play(stage, 60, 60);
    report_group(stage);
    report_table(stage, NULL);
    report_distributions(stage, "redlock async");
    for (unsigned client = 0; client < CLIENTS; client++)
        for (unsigned i = 1; clients[client].face && i < CONDITIONS; i++)
            judge(stage, client, i, entrants[client][i], entrants[client][0]);
    stage_close(stage);
    for (unsigned i = 0; i < CONDITIONS; i++) {
        stage->left_over_keys += servers_left_over(&servers[i], NODES - conditions[i].killed - conditions[i].stopped);
        servers_end(&servers[i]);
    }
}
