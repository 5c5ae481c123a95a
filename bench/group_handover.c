/* One lock passed from process to process: over nodes 1 ms away, in round trips; and past the first waiter when that
 * one was killed, in milliseconds. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "apis.h"
#include "contest.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, ROUNDS = 5, QUICK_ROUNDS = 2, PROCESSES = 8, ROUND_TRIP_US = 1000, KILLS = 10, QUICK_KILLS = 3 };

static void judge_distance(const struct stage *stage, const struct api *api, const char *nodes,
                           const struct entrant *ping)
{
    char name[64];
    struct contest contest = {.api = api->name, .processes = PROCESSES};
    unsigned rounds = stage->quick ? QUICK_ROUNDS : ROUNDS;
    double round_trips[ROUNDS];
    for (unsigned i = 0; i < rounds; i++) {
        struct measurement measurement;
        entrant_block(ping, 200000, 0, &measurement);
        contest_play(&contest, nodes, 2);
        round_trips[i] = contest.figures[CONTEST_HAND_OVER][i] * 1e3 / acquire_p50(&measurement);
    }
    contest_report(&contest);
    struct estimate each = estimate_median(round_trips, rounds);
    report_figure(api->label, "hand-over p50, 1 ms away", each, "round trips");
    snprintf(name, sizeof name, "hand-over-round-trips/%s", api->name);
    target_at_most(name, each, 1.2);
}

static void judge_dead_head(const struct stage *stage)
{
    char path[PATH_MAX], line[512], count[16], *rest = line;
    double values[KILLS];
    int kills = stage->quick ? QUICK_KILLS : KILLS;
    struct process process;
    process_sibling("bench-dead-head", path, sizeof path);
    snprintf(count, sizeof count, "%d", kills);
    const char *arguments[] = {path, stage->nodes, count, NULL};
    process_start(&process, arguments, PROCESS_PIPED);
    process_read_line(&process, line, sizeof line);
    for (int i = 0; i < kills; i++)
        values[i] = strtod(rest, &rest) / 1e6;
    if (process_finish(&process) != 0)
        die("bench-dead-head did not end well");
    struct estimate cost = estimate_median(values, (unsigned)kills);
    report_figure("past a killed first waiter", "release until acquired", cost, "ms");
    target_at_most("killed-head-ms", cost, 50);
}

void group_handover(struct stage *stage)
{
    char nodes[NODE_LIST_SIZE];
    stage_open(stage, NODES);
    stage_place_at(stage, ROUND_TRIP_US, nodes);
    struct entrant *ping = stage_enter(stage, "PING, 1 ms away", "bench-ping", nodes, 1);
    for (unsigned i = 0; i < APIS; i++)
        judge_distance(stage, &apis[i], nodes, ping);
    judge_dead_head(stage);
}
