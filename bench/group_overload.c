/* More locks in flight than the nodes can answer within the node timeout, with default options, the guard included:
 * locks may become slow, but none may fail, and no grant may come too late. */
#include "apis.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, THREADS_MAX = 1000 };

static const unsigned depths[] = {1000, 5000, 10000};

static void judge(const char *what, const struct entrant *entrant, const struct api *api, double number)
{
    char name[64];
    snprintf(name, sizeof name, "overload-%u/%s/%s", entrant->in_flight, what, api->name);
    target_at_most(name, estimate_exact(number), 0);
}

/* A separate process without a warm-up: the first moments are the hardest. Keys are counted at once, because they
 * expire. */
static void measure(struct stage *stage, const struct api *api, unsigned in_flight)
{
    char program[64];
    struct process process;
    struct entrant entrant = {.process = &process, .in_flight = in_flight};
    struct measurement measurement;
    struct entrant_state state;
    snprintf(program, sizeof program, "%s defaults", api->program);
    snprintf(entrant.label, sizeof entrant.label, "%s, %u in flight", api->label, in_flight);
    contender_start(&process, NULL, program, stage->nodes);
    entrant_block(&entrant, stage->quick ? 2000000 : 5000000, 0, &measurement);
    entrant_state(&entrant, &state);
    if (process_finish(&process) != 0)
        die("%s did not end well", program);
    unsigned long keys = servers_left_over(&stage->servers);
    report_figure(entrant.label, "locks", estimate_exact(lock_rate(&measurement)), "per second");
    report_figure(entrant.label, "acquire p50", estimate_exact(acquire_p50(&measurement) / 1e3), "ms");
    report_figure(entrant.label, "acquire worst", estimate_exact(acquire_worst(&measurement) / 1e3), "ms");
    judge("failed-locks", &entrant, api, (double)measurement.failed);
    judge("late-grants", &entrant, api, (double)state.late_grants);
    judge("left-over-keys", &entrant, api, (double)keys);
}

void group_overload(struct stage *stage)
{
    stage_open(stage, NODES);
    for (unsigned api = 0; api < APIS; api++)
        for (unsigned i = 0; i < sizeof depths / sizeof depths[0]; i++)
            if (!apis[api].threaded || depths[i] <= THREADS_MAX)
                measure(stage, &apis[api], depths[i]);
}
