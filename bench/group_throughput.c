/* Independent locks, as many at a time as stated. */
#include "apis.h"
#include "groups.h"
#include "report.h"

enum { DEPTHS = 4, THREADED_DEPTHS = 3, NODES = 5 };

static const unsigned depths[DEPTHS] = {1, 16, 100, 1000};

/* Returns the deepest. */
static struct entrant *enter(struct stage *stage, const char *name, const char *program, unsigned count)
{
    char label[LABEL_SIZE];
    struct entrant *entrant = NULL;
    for (unsigned i = 0; i < count; i++) {
        snprintf(label, sizeof label, "%s, %u in flight", name, depths[i]);
        entrant = i == 0 ? stage_enter(stage, label, program, stage->nodes, depths[i])
                         : stage_enter_again(stage, label, entrant, depths[i]);
    }
    return entrant;
}

static void judge(const struct stage *stage, const struct api *api, const struct entrant *client,
                  const struct entrant *floor)
{
    char name[64];
    struct estimate rate = entrant_ratio(stage, client, floor, lock_rate);
    struct estimate cpu = entrant_ratio(stage, client, floor, cpu_per_lock);
    report_figure(client->label, "rate to floor C's", rate, "");
    report_figure(client->label, "client CPU per lock to floor C's", cpu, "");
    snprintf(name, sizeof name, "throughput-1000/%s/floor-c", api->name);
    target_at_least(name, rate, api->limits.rate_to_floor_c);
    snprintf(name, sizeof name, "cpu-per-lock-1000/%s/floor-c", api->name);
    target_at_most(name, cpu, api->limits.cpu_to_floor_c);
}

void group_throughput(struct stage *stage)
{
    const struct entrant *clients[APIS];
    stage_open(stage, NODES);
    enter(stage, "raw sockets", "bench-floor-raw", DEPTHS);
    enter(stage, "floor A", "bench-floor-a", DEPTHS);
    enter(stage, "floor B", "bench-floor-b", DEPTHS);
    const struct entrant *floor = enter(stage, "floor C", "bench-floor-c", DEPTHS);
    for (unsigned i = 0; i < APIS; i++)
        clients[i] = enter(stage, apis[i].label, apis[i].program, apis[i].threaded ? THREADED_DEPTHS : DEPTHS);
    stage_play(stage, 24, 200);
    report_table(stage, NULL);
    for (unsigned i = 0; i < APIS; i++)
        if (apis[i].limits.rate_to_floor_c > 0)
            judge(stage, &apis[i], clients[i], floor);
}
