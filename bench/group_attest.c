/* The cost of the guard's attested grants: the same client with and without the guard, with one lock at a time and
 * with many. */
#include "groups.h"
#include "report.h"
#include "servers.h"

enum { NODES = 5, MANY = 1000 };

void group_attest(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, NODES);
    servers_list(&servers, NODES, nodes);
    struct entrant *off = stage_enter(stage, "guard off", "bench-redlock-async", nodes, 1);
    struct entrant *on = stage_enter(stage, "guard on", "bench-redlock-guarded", nodes, 1);
    struct entrant *many_off = stage_enter_again(stage, "guard off, 1000 in flight", off, MANY);
    struct entrant *many_on = stage_enter_again(stage, "guard on, 1000 in flight", on, MANY);
    stage_play(stage, 60, 100);
    report_group(stage);
    report_table(stage, off);
    struct estimate one = entrant_ratio(stage, on, off, acquire_p50);
    struct estimate many = entrant_ratio(stage, many_on, many_off, lock_rate);
    report_figure("guard on", "acquire p50 to guard off", one, "");
    report_figure("guard on, 1000 in flight", "rate to guard off", many, "");
    target_at_most("attest-acquire-p50/guard-off", one, 1.05);
    target_at_least("attest-throughput-1000/guard-off", many, 1 / 1.03);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, NODES);
    servers_end(&servers);
}
