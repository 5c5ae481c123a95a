/* Independent locks, many in flight at once from one process. */
#include "groups.h"
#include "report.h"
#include "servers.h"

enum { DEPTHS = 4 };

static const unsigned depths[DEPTHS] = {1, 16, 100, 1000};

static struct entrant *enter_depths(struct stage *stage, const char *name, const char *program, const char *nodes,
                                    unsigned count)
{
    char label[LABEL_SIZE];
    struct entrant *entrant = NULL;
    for (unsigned i = 0; i < count; i++) {
        snprintf(label, sizeof label, "%s, %u in flight", name, depths[i]);
        entrant = i == 0 ? stage_enter(stage, label, program, nodes, depths[i])
                         : stage_enter_again(stage, label, entrant, depths[i]);
    }
    return entrant;
}

void group_throughput(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, 5);
    servers_list(&servers, 5, nodes);
    enter_depths(stage, "floor A", "bench-floor-a", nodes, DEPTHS);
    struct entrant *floor_b = enter_depths(stage, "floor B", "bench-floor-b", nodes, DEPTHS);
    enter_depths(stage, "floor C", "bench-floor-c", nodes, DEPTHS);
    struct entrant *async = enter_depths(stage, "redlock, asynchronous", "bench-redlock-async", nodes, DEPTHS);
    enter_depths(stage, "redlock, blocking threads", "bench-redlock-blocking", nodes, 2);
    stage_play(stage, 24, 200);
    report_group(stage);
    report_table(stage, NULL);
    target_at_least("throughput-1000/async/floor-b", entrant_ratio(stage, async, floor_b, lock_rate), 0.90);
    target_at_most("cpu-per-lock-1000/async/floor-b", entrant_ratio(stage, async, floor_b, cpu_per_lock), 1.20);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, 5);
    servers_end(&servers);
}
