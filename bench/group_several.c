/* One lock on eight resources, beside one plain lock and eight plain locks in sequence. */
#include "groups.h"
#include "report.h"
#include "servers.h"

enum { NODES = 5 };

void group_several(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, NODES);
    servers_list(&servers, NODES, nodes);
    struct entrant *one = stage_enter(stage, "one plain lock", "bench-redlock-async", nodes, 1);
    struct entrant *several = stage_enter(stage, "one lock on eight resources", "bench-redlock-several", nodes, 1);
    struct entrant *eight = stage_enter(stage, "eight plain locks in sequence", "bench-redlock-eight", nodes, 1);
    stage_play(stage, 60, 100);
    report_group(stage);
    report_table(stage, one);
    struct estimate to_one = entrant_ratio(stage, several, one, both_p50);
    struct estimate to_eight = entrant_ratio(stage, several, eight, both_p50);
    report_figure("one lock on eight resources", "acquire + release p50 to one lock's", to_one, "");
    report_figure("one lock on eight resources", "acquire + release p50 to eight locks'", to_eight, "");
    target_at_most("several-8-p50/one-lock", to_one, 2.2);
    target_at_most("several-8-p50/eight-locks", to_eight, 0.4);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, NODES);
    servers_end(&servers);
}
