/* The cost of the guard's attested grants: the same client with and without the guard, with one lock at a time and
 * with many; and the number of round trips of an acquire with it, as the slope over two distances. */
#include "apis.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, MANY = 1000, MANY_THREADS = 100, NEAR_US = 5000, FAR_US = 25000 };

struct attested {
    struct entrant *off, *on, *many_off, *many_on, *near, *far;
};

static void enter(struct stage *stage, const struct api *api, const char *near, const char *far,
                  struct attested *attested)
{
    char guarded[64];
    unsigned many = api->threaded ? MANY_THREADS : MANY;
    snprintf(guarded, sizeof guarded, "%s guard", api->program);
    attested->off = stage_enter(stage, api->name, api->program, stage->nodes, 1);
    attested->on = stage_enter(stage, "  guard on", guarded, stage->nodes, 1);
    attested->many_off = stage_enter_again(stage, "  many in flight", attested->off, many);
    attested->many_on = stage_enter_again(stage, "  many in flight, guard on", attested->on, many);
    attested->near = stage_enter(stage, "  5 ms away, guard on", guarded, near, 1);
    attested->far = stage_enter(stage, "  25 ms away, guard on", guarded, far, 1);
}

static struct estimate round_trips(const struct stage *stage, const struct attested *attested)
{
    double values[ROUNDS_MAX];
    for (unsigned i = 0; i < stage->round_count; i++)
        values[i] =
            (acquire_p50(&attested->far->rounds[i]) - acquire_p50(&attested->near->rounds[i])) / (FAR_US - NEAR_US);
    return estimate_median(values, stage->round_count);
}

static void judge(const struct stage *stage, const struct api *api, const struct attested *attested)
{
    char name[64];
    struct estimate one = entrant_ratio(stage, attested->on, attested->off, acquire_p50);
    struct estimate many = entrant_ratio(stage, attested->many_on, attested->many_off, lock_rate);
    report_figure(api->label, "acquire p50, guard on, to guard off", one, "");
    report_figure(api->label, "rate of many, guard on, to guard off", many, "");
    report_figure(api->label, "round trips of an acquire, guard on", round_trips(stage, attested), "");
    snprintf(name, sizeof name, "attest-acquire-p50/%s/guard-off", api->name);
    target_at_most(name, one, 1.05);
    snprintf(name, sizeof name, "attest-throughput/%s/guard-off", api->name);
    target_at_least(name, many, 1 / 1.03);
    snprintf(name, sizeof name, "attest-round-trips/%s", api->name);
    target_at_most(name, round_trips(stage, attested), 1.05);
}

void group_attest(struct stage *stage)
{
    static struct attested attested[APIS];
    char near[NODE_LIST_SIZE], far[NODE_LIST_SIZE];
    stage_open(stage, NODES);
    stage_place_at(stage, NEAR_US, near);
    stage_place_at(stage, FAR_US, far);
    for (unsigned i = 0; i < APIS; i++)
        enter(stage, &apis[i], near, far, &attested[i]);
    stage->fresh_every = 10;
    stage_play(stage, 200, 100); /* the limits are narrow: with 40 rounds the intervals reach across them */
    report_table(stage, NULL);
    for (unsigned i = 0; i < APIS; i++)
        judge(stage, &apis[i], &attested[i]);
}
