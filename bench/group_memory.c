/* Tests whether a client's memory grows while one of its five nodes accepts requests and never replies. */
#include "apis.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, PARTS = 8, IN_FLIGHT = 100, GROWTH_MAX_KIB = 256 };

static double resident_kib(const struct entrant *entrant)
{
    struct entrant_state state;
    entrant_state(entrant, &state);
    return (double)state.resident_kib;
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
    char name[64];
    const struct entrant *clients[APIS];
    stage_open(stage, NODES);
    struct entrant *floor_b = stage_enter(stage, "floor B", "bench-floor-b", stage->nodes, IN_FLIGHT);
    for (unsigned i = 0; i < APIS; i++)
        clients[i] = stage_enter(stage, apis[i].label, apis[i].program, stage->nodes, IN_FLIGHT);
    servers_stop(&stage->servers, 1);
    measure(stage, floor_b);
    for (unsigned i = 0; i < APIS; i++) {
        double growth = measure(stage, clients[i]);
        snprintf(name, sizeof name, "memory-growth-kib/%s", apis[i].name);
        if (!apis[i].threaded) /* malloc(3) keeps an arena for each thread */
            target_at_most(name, estimate_exact(growth), GROWTH_MAX_KIB);
    }
}
