/* Many clients of the same five nodes, most of them idle: what each costs a node, its memory, and how long another
 * client waits for the node that all reconnect to after a restart. */
#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "groups.h"
#include "histogram.h"
#include "report.h"

enum { NODES = 5, FLEET = 500, STORM = 2000, THREADED = 100, HOLDERS = 200, SETTLED_S = 24 };

/* ------------------------------------------------------------------------------------------------------------ nodes */

static redisContext *connect_to(int port)
{
    redisContext *connection = redisConnect("127.0.0.1", port);
    if (!connection || connection->err)
        die("127.0.0.1:%d cannot be connected to", port);
    return connection;
}

static void ping(redisContext *connection)
{
    redisReply *reply = redisCommand(connection, "PING");
    if (!reply)
        die("a node does not reply: %s", connection->errstr);
    freeReplyObject(reply);
}

static long long info(int port, const char *section, const char *field)
{
    redisContext *connection = connect_to(port);
    redisReply *reply = redisCommand(connection, "INFO %s", section);
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

/* What a client costs a node that does no more than to keep its connection in use: bare connections, as many as there
 * are holders, that send one PING a second each. */
static double ping_load(const struct stage *stage, unsigned seconds)
{
    static redisContext *connections[HOLDERS * NODES];
    const unsigned count = HOLDERS * NODES;
    for (unsigned i = 0; i < count; i++)
        connections[i] = connect_to(stage->servers.ports[i % NODES]);
    double before = node_cpu(stage);
    uint64_t began = clock_now(), now;
    for (uint64_t sent = 0; (now = clock_now()) < began + seconds * 1000000000ull; sent++) {
        uint64_t due = began + sent * (1000000000u / count);
        if (due > now)
            usleep((useconds_t)((due - now) / 1000));
        ping(connections[sent % count]);
    }
    double load = (node_cpu(stage) - before) * 1e9 / (double)(clock_now() - began);
    for (unsigned i = 0; i < count; i++)
        redisFree(connections[i]);
    return load;
}

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
    double floor = (ping_load(stage, seconds / 2) - alone) / HOLDERS;
    double threaded = start_fleet(&fleet, stage, THREADED, "blocking");
    end_fleet(&fleet);
    report_figure("no client", "a node's CPU, per second", estimate_exact(alone), "us");
    report_figure("a bare PING a second", "a node's CPU, per second", estimate_exact(floor), "us");
    report_figure("a client that holds a lock", "to a bare PING a second", estimate_exact(holder / floor), "times");
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

/* Until all have reconnected, PINGs alternate between the restarted node and one that was not: both wait alike for a
 * processor, which the fleet itself keeps busy, and the first one for its node, too. Returns by how many microseconds the
 * p99 of the first is the larger one. */
static double wait_for_storm(const struct stage *stage)
{
    static struct histogram restarted, other;
    redisContext *to[] = {connect_to(stage->servers.ports[0]), connect_to(stage->servers.ports[1])};
    struct histogram *took[] = {&restarted, &other};
    histogram_clear(&restarted);
    histogram_clear(&other);
    for (unsigned i = 0; i % 100 || info(stage->servers.ports[0], "clients", "connected_clients") / 1000000 < STORM;
         i++) {
        uint64_t began = clock_now();
        ping(to[i % 2]);
        histogram_add(took[i % 2], clock_now() - began);
        usleep(500);
    }
    redisFree(to[0]);
    redisFree(to[1]);
    uint64_t own = histogram_quantile(&restarted, 0.99), base = histogram_quantile(&other, 0.99);
    report_figure("2,000 clients reconnect", "PING p99, restarted node", estimate_exact((double)own / 1e3), "us");
    report_figure("2,000 clients reconnect", "PING p99, another node", estimate_exact((double)base / 1e3), "us");
    return own > base ? (double)(own - base) / 1e3 : 0;
}

/* The fleet keeps a processor busy while it reconnects. Where that is half of the machine, the probe waits for it as well,
 * so its own latencies show the machine; the target is what the node adds to the latency of an idle fleet's probe. */
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
    double node = wait_for_storm(stage);
    double took = (double)(clock_now() - began) / 1e6;
    sleep(1);
    struct latency storm = latency(probe);
    end_fleet(&fleet);
    report_latency("2,000 idle clients", &idle);
    report_latency("2,000 clients reconnect", &storm);
    report_figure("2,000 clients reconnect", "within", estimate_exact(took), "ms");
    report_figure("2,000 clients reconnect", "acquire p99 to idle", estimate_exact(storm.p99 / idle.p99), "times");
    target_at_most("fleet/storm-p99-to-idle", estimate_exact((idle.p99 + node) / idle.p99), 2);
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
