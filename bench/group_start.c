/* From the start of a process to its first lock: the number of round trips, and the remaining time. The number is
 * the slope over two distances, which excludes the process' constant costs. Connecting takes no time through the
 * proxy. */
#include <limits.h>
#include <string.h>

#include "clock.h"
#include "groups.h"
#include "proxy.h"
#include "report.h"

enum { NODES = 5, STARTS = 40, NEAR_US = 5000, FAR_US = 25000 };

static const char *const programs[] = {"bench-floor-b", "bench-redlock-async", "bench-redlock-blocking"};
static const char *const names[] = {"floor B (SCRIPT LOAD as handshake)", "redlock, asynchronous", "redlock, blocking"};

enum { PROGRAMS = 3 };

/* Time until the first lock was acquired; us. */
static double time_first_lock(const char *program, const char *nodes)
{
    char path[PATH_MAX], line[64];
    struct process process;
    struct entrant entrant = {.process = &process, .in_flight = 1};
    struct measurement measurement;
    process_sibling(program, path, sizeof path);
    const char *arguments[] = {path, nodes, NULL};
    uint64_t started = clock_now();
    process_start(&process, arguments, PROCESS_PIPED);
    process_read_line(&process, line, sizeof line);
    if (strcmp(line, "ready") != 0)
        die("%s does not become ready: %s", program, line);
    entrant_block(&entrant, 1000000, 1, &measurement);
    process_finish(&process);
    if (measurement.first < started)
        die("%s took no lock", program);
    return (double)(measurement.first - started) / 1e3;
}

struct places {
    struct servers servers;
    struct proxy near_proxy, far_proxy;
    char here[NODE_LIST_SIZE], near[NODE_LIST_SIZE], far[NODE_LIST_SIZE]; /* the nodes at each distance */
};

static void open_places(struct places *places)
{
    unsigned near[NODES], far[NODES];
    for (unsigned i = 0; i < NODES; i++) {
        near[i] = NEAR_US;
        far[i] = FAR_US;
    }
    servers_start(&places->servers, NODES);
    proxy_start(&places->near_proxy, &places->servers, near, NODES);
    proxy_start(&places->far_proxy, &places->servers, far, NODES);
    servers_list(&places->servers, NODES, places->here);
    proxy_list(&places->near_proxy, 0, NODES, places->near);
    proxy_list(&places->far_proxy, 0, NODES, places->far);
}

static void close_places(struct places *places)
{
    proxy_end(&places->near_proxy);
    proxy_end(&places->far_proxy);
    servers_end(&places->servers);
}

struct starts {
    double here[STARTS], near[STARTS], round_trips[STARTS];
};

static void start_once(const struct places *places, const char *program, unsigned number, struct starts *starts)
{
    starts->here[number] = time_first_lock(program, places->here);
    starts->near[number] = time_first_lock(program, places->near);
    double far = time_first_lock(program, places->far);
    starts->round_trips[number] = (far - starts->near[number]) / (FAR_US - NEAR_US);
}

static void report_starts(unsigned program, struct starts *starts, unsigned count)
{
    static const char *const targets[PROGRAMS] = {NULL, "start/round-trips/async", "start/round-trips/blocking"};
    struct estimate round_trips = estimate_median(starts->round_trips, count);
    report_figure(names[program], "start to first lock, loopback", estimate_median(starts->here, count), "us");
    report_figure(names[program], "start to first lock, 5 ms away", estimate_median(starts->near, count), "us");
    report_figure(names[program], "round trips until then", round_trips, "");
    if (targets[program])
        target_at_most(targets[program], round_trips, 2.05);
}

void group_start(struct stage *stage)
{
    static struct starts starts[PROGRAMS];
    struct places places;
    unsigned count = stage->quick ? STARTS / 4 : STARTS;
    open_places(&places);
    for (unsigned i = 0; i < count; i++)
        for (unsigned p = 0; p < PROGRAMS; p++)
            start_once(&places, programs[p], i, &starts[p]);
    report_group(stage);
    for (unsigned p = 0; p < PROGRAMS; p++)
        report_starts(p, &starts[p], count);
    stage->left_over_keys += servers_left_over(&places.servers, NODES);
    close_places(&places);
}
