/* One lock on eight resources, beside one plain lock, and beside eight plain locks in sequence: eight times one. */
#include "groups.h"
#include "report.h"

enum { NODES = 5, SEVERAL = 8 };

void group_several(struct stage *stage)
{
    stage_open(stage, NODES);
    struct entrant *one = stage_enter(stage, "one plain lock", "bench-redlock-async", stage->nodes, 1);
    struct entrant *several =
        stage_enter(stage, "one lock on eight resources", "bench-redlock-async eight", stage->nodes, 1);
    stage_play(stage, 60, 100);
    report_table(stage, one);
    struct estimate to_one = entrant_ratio(stage, several, one, both_p50), to_eight = to_one;
    to_eight.value /= SEVERAL, to_eight.low /= SEVERAL, to_eight.high /= SEVERAL;
    report_figure("one lock on eight resources", "acquire + release p50 to one lock's", to_one, "");
    report_figure("one lock on eight resources", "acquire + release p50 to eight locks'", to_eight, "");
    target_at_most("several-8-p50/one-lock", to_one, 2.2);
    target_at_most("several-8-p50/eight-locks", to_eight, 0.4);
}
