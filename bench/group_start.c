/* From the start of a process to its first lock: the number of round trips, and the remaining time. The number is
 * the slope over two distances, which excludes the process' constant costs. Connecting takes no time through the
 * proxy. */
#include "apis.h"
#include "clock.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, STARTS = 40, NEAR_US = 5000, FAR_US = 25000, CLIENTS = APIS + 1 };

struct client {
    const char *label, *program;
    const char *name; /* in targets; NULL: none */
    double here[STARTS], near[STARTS], round_trips[STARTS];
};

/* Time until the first lock was acquired; us. */
static double time_first_lock(const char *program, const char *nodes)
{
    struct process process;
    struct entrant entrant = {.process = &process, .in_flight = 1};
    struct measurement measurement;
    uint64_t started = clock_now();
    contender_start(&process, NULL, program, nodes);
    entrant_block(&entrant, 1000000, 1, &measurement);
    process_finish(&process);
    if (measurement.first < started)
        die("%s took no lock", program);
    return (double)(measurement.first - started) / 1e3;
}

static void report_client(struct client *client, unsigned count)
{
    char name[64];
    struct estimate round_trips = estimate_median(client->round_trips, count);
    report_figure(client->label, "start to first lock, loopback", estimate_median(client->here, count), "us");
    report_figure(client->label, "start to first lock, 5 ms away", estimate_median(client->near, count), "us");
    report_figure(client->label, "round trips until then", round_trips, "");
    if (!client->name)
        return;
    snprintf(name, sizeof name, "start/round-trips/%s", client->name);
    target_at_most(name, round_trips, 2.05);
}

void group_start(struct stage *stage)
{
    static struct client clients[CLIENTS] = {
        {.label = "floor B (SCRIPT LOAD as handshake)", .program = "bench-floor-b"}};
    char near[NODE_LIST_SIZE], far[NODE_LIST_SIZE];
    unsigned count = stage->quick ? STARTS / 4 : STARTS;
    for (unsigned i = 0; i < APIS; i++)
        clients[i + 1] = (struct client){.label = apis[i].label, .program = apis[i].program, .name = apis[i].name};
    stage_open(stage, NODES);
    stage_place_at(stage, NEAR_US, near);
    stage_place_at(stage, FAR_US, far);
    for (unsigned i = 0; i < count; i++)
        for (struct client *client = clients; client < clients + CLIENTS; client++) {
            client->here[i] = time_first_lock(client->program, stage->nodes);
            client->near[i] = time_first_lock(client->program, near);
            client->round_trips[i] = (time_first_lock(client->program, far) - client->near[i]) / (FAR_US - NEAR_US);
        }
    for (unsigned i = 0; i < CLIENTS; i++)
        report_client(&clients[i], count);
}
