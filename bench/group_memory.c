/* Tests whether a client's memory grows while one of its five nodes accepts requests and never replies. */
#include "groups.h"
#include "report.h"
#include "servers.h"

enum { PARTS = 8, IN_FLIGHT = 100, GROWTH_MAX_KIB = 256 };

static double resident_kib(const struct entrant *entrant)
{
    char line[128];
    long kib;
    fprintf(entrant->process->to, "memory\n");
    fflush(entrant->process->to);
    process_read_line(entrant->process, line, sizeof line);
    if (sscanf(line, "memory resident_kib=%ld", &kib) != 1)
        die("%s answered '%s'", entrant->label, line);
    return (double)kib;
}

/* Resident memory after every part of the run. The growth in the second half counts. */
static double measure(const struct stage *stage, const struct entrant *entrant)
{
    struct measurement measurement;
    double kib[PARTS + 1] = {resident_kib(entrant)};
    uint64_t locks = 0;
    for (unsigned part = 0; part < PARTS; part++) {
        entrant_block(entrant, stage->quick ? 500000 : 2500000, 0, &measurement);
        locks += measurement.operations;
        kib[part + 1] = resident_kib(entrant);
    }
    report_figure(entrant->label, "locks taken", estimate_exact((double)locks), "");
    report_figure(entrant->label, "resident before", estimate_exact(kib[0]), "KiB");
    report_figure(entrant->label, "resident at half time", estimate_exact(kib[PARTS / 2]), "KiB");
    report_figure(entrant->label, "resident at the end", estimate_exact(kib[PARTS]), "KiB");
    return kib[PARTS] - kib[PARTS / 2];
}

void group_memory(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, 5);
    servers_list(&servers, 5, nodes);
    struct entrant *floor_b = stage_enter(stage, "floor B", "bench-floor-b", nodes, IN_FLIGHT);
    struct entrant *async = stage_enter(stage, "redlock, asynchronous", "bench-redlock-async", nodes, IN_FLIGHT);
    servers_stop(&servers, 1);
    report_group(stage);
    measure(stage, floor_b);
    target_at_most("memory-growth-kib/async", estimate_exact(measure(stage, async)), GROWTH_MAX_KIB);
    stage_close(stage);
    stage->left_over_keys += servers_left_over(&servers, 4);
    servers_end(&servers);
}
