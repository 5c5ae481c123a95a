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
    target_at_least(name, rate, 1.00);
    snprintf(name, sizeof name, "cpu-per-lock-1000/%s/floor-c", api->name);
    target_at_most(name, cpu, 1.10);
}

/* Blocking calls have their own depths, and no target: what limits them is how often threads are switched. */
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
        if (!apis[i].threaded)
            judge(stage, &apis[i], clients[i], floor);
}
