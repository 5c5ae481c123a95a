/* What a client counts, as a snapshot and as text for Prometheus; and the state of its nodes. */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/client/functions.h"
#include "src/core/escape.h"
#include "src/core/histogram.h"
#include "src/node/guard.h"
#include "src/node/witnesses.h"

/* --------------------------------------------------------------------------------------------------------- snapshot */

static uint32_t held(const redlock_client *client)
{
    uint32_t count = 0;
    for (const struct rl_lease *lease = client->locks.leases.first; lease; lease = lease->links.next)
        count += lease->rules.loss == QUORUM_NOT_LOST;
    return count;
}

struct snapshot {
    const redlock_client *client;
    redlock_statistics *statistics;
};

static int take_snapshot(void *data)
{
    const struct snapshot *snapshot = data;
    *snapshot->statistics = snapshot->client->core.statistics;
    snapshot->statistics->locks_held = held(snapshot->client);
    snapshot->statistics->operations_pending = snapshot->client->operations.count;
    return REDLOCK_OK;
}

int redlock_statistics_get(redlock_client *client, redlock_statistics *statistics)
{
    if (!client || !statistics || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    return rl_client_ask(client, take_snapshot, &(struct snapshot){client, statistics});
}

/* ------------------------------------------------------------------------------------------------------------- text */

static void head(struct rl_writer *text, const char *name, const char *type, const char *help)
{
    rl_write(text, "# HELP redlock_%s %s\n# TYPE redlock_%s %s\n", name, help, name, type);
}

/* One bound per power of two: precise enough for monitoring, with a quarter of the lines. */
static void histogram(struct rl_writer *text, const char *name, const char *labels, const struct rl_latency *values)
{
    uint64_t seen = 0;
    const char *comma = labels[0] ? "," : "";
    for (uint32_t power = 0; power < sizeof values->power / sizeof *values->power - 1; power++) {
        uint32_t last = power * RL_HISTOGRAM_PER_POWER + RL_HISTOGRAM_PER_POWER - 1;
        seen += values->power[power];
        rl_write(text, "redlock_%s_bucket{%s%sle=\"%.6f\"} %llu\n", name, labels, comma,
                 (double)(redlock_histogram_bound_us(last) + 1) / 1e6, (unsigned long long)seen);
    }
    rl_write(text, "redlock_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, (unsigned long long)values->count);
    rl_write(text, labels[0] ? "redlock_%s_sum{%s} %.6f\n" : "redlock_%s_sum%s %.6f\n", name, labels,
             (double)values->sum_us / 1e6);
    rl_write(text, labels[0] ? "redlock_%s_count{%s} %llu\n" : "redlock_%s_count%s %llu\n", name, labels,
             (unsigned long long)values->count);
}

static void add_operations(struct rl_writer *text, const redlock_statistics *statistics)
{
    head(text, "acquires_total", "counter", "Acquire operations, by status.");
    for (int status = 0; status < REDLOCK_STATUSES; status++)
        rl_write(text, "redlock_acquires_total{status=\"%s\"} %llu\n",
                 redlock_status_name(-status) + strlen("REDLOCK_"), (unsigned long long)statistics->acquires[status]);
    head(text, "losses_total", "counter", "Lost locks, by reason.");
    for (int loss = REDLOCK_LOSS_EXPIRED; loss <= REDLOCK_LOSS_CLOSED; loss++)
        rl_write(text, "redlock_losses_total{reason=\"%s\"} %llu\n", redlock_loss_name(loss),
                 (unsigned long long)statistics->losses[loss]);
}

/* A number of the snapshot, or of a node. A new one is one line in a table below. */
struct metric {
    const char *name;
    const char *type;
    const char *help;
    size_t offset;
    size_t size; /* 4 or 8 */
};
#define METRIC(name, type, help, structure, field)                                                                     \
    {                                                                                                                  \
        name, type, help, offsetof(structure, field), sizeof(((structure *)NULL)->field)                               \
    }
#define COUNTER(name, help, field) METRIC(name, "counter", help, redlock_statistics, field)
#define GAUGE(name, help, field)   METRIC(name, "gauge", help, redlock_statistics, field)
#define OF_NODE(name, help, field) METRIC(name, "counter", help, struct rl_node_statistics, field)

static const struct metric metrics[] = {
    COUNTER("attempts_total", "Rounds of acquire operations.", attempts),
    COUNTER("hand_offs_total", "Locks acquired by a waiter from the queue.", hand_offs),
    COUNTER("reentries_total", "Acquires that re-entered a held lock.", reentered),
    COUNTER("releases_total", "Releases confirmed by a majority.", released),
    COUNTER("renewals_total", "Renewals confirmed by a majority.", renewed),
    COUNTER("renewals_failed_total", "Renewals that failed.", renewals_failed),
    COUNTER("healed_total", "Locks set again on a node that had lost them.", healed),
    COUNTER("late_grants_undone_total", "Grants that arrived after their attempt had failed.", late_grants),
    COUNTER("unattested_grants_total", "Grants that did not count because the node's marker had changed.", unattested),
    COUNTER("undos_dropped_total", "Undos dropped before their node executed them.", undos_dropped),
    COUNTER("messages_dropped_total", "Messages of hand-overs that answered no offer of this client.",
            messages_dropped),
    COUNTER("node_clock_jumps_total", "Clock jumps of nodes.", node_clock_jumps),
    COUNTER("quarantines_total", "Quarantines of nodes that may have lost locks.", quarantines),
    GAUGE("locks_held", "Locks held now.", locks_held),
    GAUGE("operations_pending", "Operations in progress.", operations_pending),
};

static const struct metric node_metrics[] = {
    OF_NODE("node_requests_total", "Requests sent to the node.", requests),
    OF_NODE("node_timeouts_total", "Requests without a reply within the node's timeout.", timeouts),
    OF_NODE("node_connections_total", "Connections that completed the handshake.", connections),
    OF_NODE("node_quarantines_total", "Quarantines of the node.", quarantines),
};

static unsigned long long value_of(const struct metric *metric, const void *statistics)
{
    uint32_t narrow;
    uint64_t wide;
    const char *from = (const char *)statistics + metric->offset;
    if (metric->size == sizeof narrow) {
        memcpy(&narrow, from, sizeof narrow);
        return narrow;
    }
    assert(metric->size == sizeof wide);
    memcpy(&wide, from, sizeof wide);
    return wide;
}

static void add_metrics(struct rl_writer *text, const redlock_statistics *statistics)
{
    for (const struct metric *metric = metrics; metric < metrics + sizeof metrics / sizeof *metrics; metric++) {
        head(text, metric->name, metric->type, metric->help);
        rl_write(text, "redlock_%s %llu\n", metric->name, value_of(metric, statistics));
    }
}

#define LABEL_SIZE 600 /* a name with every character escaped */

/* Escapes the name, because a socket's path may have any character. */
static const char *label(const struct rl_node *node, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "node=\"");
    for (const char *c = node->address->name; *c && used + 4 < size; c++) {
        if (*c == '"' || *c == '\\')
            buffer[used++] = '\\';
        buffer[used++] = *c == '\n' ? ' ' : *c;
    }
    buffer[used++] = '"';
    buffer[used] = '\0';
    return buffer;
}

static void add_node_metric(struct rl_writer *text, const redlock_client *client, const struct metric *metric)
{
    char buffer[LABEL_SIZE];
    head(text, metric->name, metric->type, metric->help);
    for (unsigned i = 0; i < client->nodes->count; i++)
        rl_write(text, "redlock_%s{%s} %llu\n", metric->name, label(&client->nodes->node[i], buffer, sizeof buffer),
                 value_of(metric, &client->nodes->node[i].statistics));
}

static void add_nodes(struct rl_writer *text, redlock_client *client)
{
    char buffer[LABEL_SIZE];
    for (size_t i = 0; i < sizeof node_metrics / sizeof *node_metrics; i++)
        add_node_metric(text, client, &node_metrics[i]);
    head(text, "node_usable", "gauge", "1 if the node gets requests for new locks, otherwise 0.");
    for (unsigned i = 0; i < client->nodes->count; i++)
        rl_write(text, "redlock_node_usable{%s} %d\n", label(&client->nodes->node[i], buffer, sizeof buffer),
                 rl_node_usable(&client->nodes->node[i], rl_now(), true).is == RL_USABLE);
    head(text, "node_latency_seconds", "histogram", "Time from a request to its reply.");
    for (unsigned i = 0; i < client->nodes->count; i++)
        histogram(text, "node_latency_seconds", label(&client->nodes->node[i], buffer, sizeof buffer),
                  &client->nodes->node[i].statistics.latency);
}

struct metrics {
    redlock_client *client;
    struct rl_writer text;
};

static int write_metrics(void *data)
{
    struct metrics *written = data;
    struct rl_writer *text = &written->text;
    redlock_statistics statistics;
    take_snapshot(&(struct snapshot){written->client, &statistics});
    add_operations(text, &statistics);
    add_metrics(text, &statistics);
    head(text, "acquire_seconds", "histogram", "Duration of successful acquires.");
    struct rl_latency latency = {statistics.acquire_latency.count, statistics.acquire_latency.sum_us, {0}};
    for (uint32_t bucket = 0; bucket < REDLOCK_HISTOGRAM_BUCKETS; bucket++)
        latency.power[bucket / RL_HISTOGRAM_PER_POWER] += statistics.acquire_latency.bucket[bucket];
    histogram(text, "acquire_seconds", "", &latency);
    add_nodes(text, written->client);
    return REDLOCK_OK;
}

int redlock_metrics(redlock_client *client, char *text, size_t size, size_t *needed)
{
    if (!client || (!text && size) || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    struct metrics written = {client, {text, size, 0}};
    if (rl_client_ask(client, write_metrics, &written))
        return REDLOCK_INVALID;
    if (needed)
        *needed = written.text.used + 1;
    return written.text.used < size ? REDLOCK_OK : REDLOCK_INVALID;
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

static const char *const states[] = {
    [RL_NODE_BACKOFF] = "disconnected",  [RL_NODE_RESOLVING] = "resolving its name",
    [RL_NODE_CONNECTING] = "connecting", [RL_NODE_HANDSHAKE] = "handshake",
    [RL_NODE_READY] = "ready",           [RL_NODE_CLOSED] = "closed",
};

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

/* Why the node has no vote, and how long its quarantine lasts. */
static void fill_objection(struct rl_node *node, redlock_node_status *status, quorum_time now)
{
    const char *objection = rl_guard_objection(node, now);
    copy(status->objection, sizeof status->objection, node->state == RL_NODE_READY ? objection : NULL);
    if (node->nodes->core->options.guard)
        status->quarantine_ms =
            (int64_t)((quorum_time_until(rl_guard_free_at(node), now) + QUORUM_MILLISECOND - 1) / QUORUM_MILLISECOND);
}

static void fill_facts(const struct rl_facts *facts, redlock_node_status *status)
{
    status->append_only = facts->append_only;
    status->snapshots = facts->snapshots;
    status->marker_nodes = (uint32_t)facts->marker.nodes;
    status->marker_max_ttl_ms = (uint32_t)facts->marker.max_ttl;
    copy(status->maxmemory_policy, sizeof status->maxmemory_policy, facts->maxmemory_policy);
    copy(status->append_fsync, sizeof status->append_fsync, facts->append_fsync);
    copy(status->marker_why, sizeof status->marker_why, facts->marker.why);
    copy(status->marker_deployment, sizeof status->marker_deployment, facts->marker.deployment);
    copy(status->user, sizeof status->user, facts->user);
}

static void fill_status(struct rl_node *node, redlock_node_status *status)
{
    const struct quorum_clock_node *clock = &node->nodes->clock_watch->node[node->index];
    quorum_time now = rl_now();
    memset(status, 0, sizeof *status);
    status->name = node->name;
    status->usable = rl_node_usable(node, now, true).is == RL_USABLE;
    status->findings = node->findings;
    copy(status->state, sizeof status->state, states[node->state]);
    copy(status->error, sizeof status->error, node->attempts.error);
    copy(status->server, sizeof status->server, node->server.name);
    copy(status->version, sizeof status->version, node->server.version);
    copy(status->run_id, sizeof status->run_id, node->server.run_id);
    copy(status->role, sizeof status->role, node->reading.role);
    fill_facts(&node->facts, status);
    copy(status->lacking, sizeof status->lacking, node->lacking);
    if (node->witnesses)
        rl_witnesses_describe(node->witnesses, now, status->witnesses, sizeof status->witnesses);
    fill_objection(node, status, now);
    status->round_trip_us = node->heartbeat.round_trip_us;
    status->requests_pending = node->flight.sent.count;
    status->undos_pending = node->kept.count;
    status->clock_known = clock->known;
    if (!clock->known)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t ahead = (int64_t)((quorum_time)wall.tv_sec * QUORUM_SECOND + (quorum_time)wall.tv_nsec - now);
    bool crossed = clock->offset.low > clock->offset.high; /* noise within the drift crosses the bounds */
    status->clock_low_us = ((crossed ? clock->offset.high : clock->offset.low) - ahead) / 1000;
    status->clock_high_us = ((crossed ? clock->offset.low : clock->offset.high) - ahead) / 1000;
}

uint32_t redlock_nodes(const redlock_client *client)
{
    return client && rl_client_in_owner_process(client) ? client->nodes->count : 0;
}

struct node_question {
    struct rl_node *node;
    redlock_node_status *status;
};

static int read_node_status(void *data)
{
    const struct node_question *question = data;
    fill_status(question->node, question->status);
    return REDLOCK_OK;
}

int redlock_node_status_get(redlock_client *client, uint32_t node, redlock_node_status *status)
{
    if (!client || !status || !rl_client_in_owner_process(client) || node >= client->nodes->count)
        return REDLOCK_INVALID;
    return rl_client_ask(client, read_node_status, &(struct node_question){&client->nodes->node[node], status});
}
