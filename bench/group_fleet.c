/* Many clients of the same five nodes, most of them idle: what each costs a node, its memory, and what another client
 * notices when all reconnect to a node that was restarted. */
#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "groups.h"
#include "report.h"

enum { NODES = 5, FLEET = 500, STORM = 2000, THREADED = 100, HOLDERS = 200, SETTLED_S = 24 };

/* ------------------------------------------------------------------------------------------------------------ nodes */

static long long info(int port, const char *section, const char *field)
{
    redisContext *connection = redisConnect("127.0.0.1", port);
    redisReply *reply = connection && !connection->err ? redisCommand(connection, "INFO %s", section) : NULL;
    char *at = reply && reply->str ? strstr(reply->str, field) : NULL;
    if (!at)
        die("127.0.0.1:%d does not report %s", port, field);
    long long value = (long long)(atof(at + strlen(field) + 1) * 1e6);
    freeReplyObject(reply);
    redisFree(connection);
    return value;
}

/* Microseconds of processor time that the nodes have used, on average. */
static double node_cpu(const struct stage *stage)
{
    long long sum = 0;
    for (unsigned i = 0; i < NODES; i++)
        sum += info(stage->servers.ports[i], "cpu", "used_cpu_user") +
               info(stage->servers.ports[i], "cpu", "used_cpu_sys");
    return (double)sum / NODES;
}

/* Per second. */
static double node_load(const struct stage *stage, unsigned seconds)
{
    uint64_t began = clock_now();
    double before = node_cpu(stage);
    sleep(seconds);
    return (node_cpu(stage) - before) * 1e9 / (double)(clock_now() - began);
}

/* ----------------------------------------------------------------------------------------------------------- fleets */

/* Returns each client's memory in bytes. */
static double start_fleet(struct process *fleet, const struct stage *stage, unsigned count, const char *kind)
{
    char path[PATH_MAX], number[16], line[64];
    long bytes;
    process_sibling("bench-fleet", path, sizeof path);
    snprintf(number, sizeof number, "%u", count);
    const char *arguments[] = {path, stage->nodes, number, kind, NULL};
    process_start(fleet, arguments, PROCESS_PIPED);
    process_read_line(fleet, line, sizeof line);
    if (sscanf(line, "ready %ld", &bytes) != 1)
        die("bench-fleet answered '%s'", line);
    return (double)bytes;
}

static void order(struct process *fleet, const char *what, char *line, size_t size)
{
    fprintf(fleet->to, "%s\n", what);
    fflush(fleet->to);
    process_read_line(fleet, line, size);
}

static void end_fleet(struct process *fleet)
{
    if (process_finish(fleet) != 0)
        die("bench-fleet failed");
}

/* ----------------------------------------------------------------------------------------------------- measurements */

static void measure_costs(const struct stage *stage)
{
    struct process fleet;
    char line[64];
    unsigned seconds = stage->quick ? 30 : 60;
    double alone = node_load(stage, 5), before = node_cpu(stage);
    uint64_t began = clock_now();
    double bytes = start_fleet(&fleet, stage, FLEET, "attached");
    double connect = (node_cpu(stage) - before - alone * (double)(clock_now() - began) / 1e9) / FLEET;
    sleep(SETTLED_S);
    double idle = (node_load(stage, seconds) - alone) / FLEET;
    end_fleet(&fleet);
    start_fleet(&fleet, stage, HOLDERS, "attached");
    order(&fleet, "hold", line, sizeof line);
    sleep(2);
    double holder = (node_load(stage, seconds / 2) - alone) / HOLDERS;
    end_fleet(&fleet);
    double threaded = start_fleet(&fleet, stage, THREADED, "blocking");
    end_fleet(&fleet);
    report_figure("no client", "a node's CPU, per second", estimate_exact(alone), "us");
    target_at_most("fleet/idle-us-per-second", estimate_exact(idle), 2);
    target_at_most("fleet/holder-us-per-second", estimate_exact(holder), 30);
    target_at_most("fleet/connect-us", estimate_exact(connect), 120);
    target_at_most("fleet/attached-client-kb", estimate_exact(bytes / 1000), 60);
    target_at_most("fleet/client-kb", estimate_exact(threaded / 1000), 100);
}

struct latency {
    double p50, p99, failures; /* us */
};

static struct latency latency(struct process *probe)
{
    struct latency latency;
    char line[64];
    order(probe, "latency", line, sizeof line);
    if (sscanf(line, "%lf %lf %lf", &latency.p50, &latency.p99, &latency.failures) != 3)
        die("the probe answered '%s'", line);
    latency.p50 /= 1e3;
    latency.p99 /= 1e3;
    return latency;
}

static void report_latency(const char *label, const struct latency *latency)
{
    report_figure(label, "acquire p50", estimate_exact(latency->p50), "us");
    report_figure(label, "acquire p99", estimate_exact(latency->p99), "us");
}

/* The probe's process is not one of the fleet's: their client CPU is not measured. */
static void measure_storm(struct stage *stage, struct process *probe)
{
    struct process fleet;
    start_fleet(&fleet, stage, STORM, "attached");
    sleep(stage->quick ? 5 : 10);
    latency(probe);
    sleep(stage->quick ? 5 : 10);
    struct latency idle = latency(probe);
    uint64_t began = clock_now();
    servers_restart(&stage->servers, 0);
    while (info(stage->servers.ports[0], "clients", "connected_clients") / 1000000 < STORM)
        usleep(50000);
    double took = (double)(clock_now() - began) / 1e6;
    sleep(1);
    struct latency storm = latency(probe);
    end_fleet(&fleet);
    report_latency("2,000 idle clients", &idle);
    report_latency("2,000 clients reconnect", &storm);
    report_figure("2,000 clients reconnect", "within", estimate_exact(took), "ms");
    target_at_most("fleet/storm-p99-to-idle", estimate_exact(storm.p99 / idle.p99), 2);
    target_at_most("fleet/storm-failures", estimate_exact(storm.failures), 0);
}

void group_fleet(struct stage *stage)
{
    struct process probe;
    stage_open(stage, NODES);
    start_fleet(&probe, stage, 1, "trust");
    end_fleet(&probe);
    measure_costs(stage);
    start_fleet(&probe, stage, 1, "probe");
    measure_storm(stage, &probe);
    end_fleet(&probe);
}
