#include "src/client/statistics.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/client/blocking.h"
#include "src/client/client.h"
#include "src/core/clock.h"
#include "src/core/histogram.h"

/* --------------------------------------------------------------------------------------------------------- snapshot */

static uint32_t held(const redlock_client *client)
{
    uint32_t count = 0;
    for (const struct rl_lease *lease = client->locks.leases.first; lease; lease = lease->links.next)
        count += lease->rules.loss == QUORUM_NOT_LOST;
    return count;
}

void rl_statistics_fill(redlock_client *client, redlock_statistics *statistics)
{
    *statistics = client->core.statistics;
    statistics->locks_held = held(client);
    statistics->operations_pending = client->operations.count;
}

int redlock_statistics_get(redlock_client *client, redlock_statistics *statistics)
{
    if (!client || !statistics || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    if (client->loop_thread)
        return rl_blocking_statistics(client, statistics);
    if (rl_client_enter(client))
        return REDLOCK_INVALID;
    rl_statistics_fill(client, statistics);
    return REDLOCK_OK;
}

/* ------------------------------------------------------------------------------------------------------------- text */

/* A text in the caller's buffer. Text that does not fit is counted, too, so that the caller learns the size. */
struct text {
    char *at;
    size_t size;
    size_t used;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
    size_t left = text->used < text->size ? text->size - text->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(left ? text->at + text->used : NULL, left, format, arguments);
    va_end(arguments);
    if (wrote > 0)
        text->used += (size_t)wrote;
}

static void head(struct text *text, const char *name, const char *type, const char *help)
{
    add(text, "# HELP redlock_%s %s\n# TYPE redlock_%s %s\n", name, help, name, type);
}

/* One bound per power of two: precise enough for monitoring, with a quarter of the lines. */
static void histogram(struct text *text, const char *name, const char *labels, const redlock_histogram *values)
{
    uint64_t seen = 0;
    const char *comma = labels[0] ? "," : "";
    for (uint32_t bucket = 0; bucket < REDLOCK_HISTOGRAM_BUCKETS - 1; bucket++) {
        seen += values->bucket[bucket];
        if (bucket % RL_HISTOGRAM_PER_POWER == RL_HISTOGRAM_PER_POWER - 1)
            add(text, "redlock_%s_bucket{%s%sle=\"%.6f\"} %llu\n", name, labels, comma,
                (double)(redlock_histogram_bound_us(bucket) + 1) / 1e6, (unsigned long long)seen);
    }
    add(text, "redlock_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, (unsigned long long)values->count);
    add(text, labels[0] ? "redlock_%s_sum{%s} %.6f\n" : "redlock_%s_sum%s %.6f\n", name, labels,
        (double)values->sum_us / 1e6);
    add(text, labels[0] ? "redlock_%s_count{%s} %llu\n" : "redlock_%s_count%s %llu\n", name, labels,
        (unsigned long long)values->count);
}

static void add_operations(struct text *text, const redlock_statistics *statistics)
{
    head(text, "acquires_total", "counter", "Acquire operations, by status.");
    for (int status = 0; status < REDLOCK_STATUSES; status++)
        add(text, "redlock_acquires_total{status=\"%s\"} %llu\n", redlock_status_name(-status) + strlen("REDLOCK_"),
            (unsigned long long)statistics->acquires[status]);
    head(text, "losses_total", "counter", "Lost locks, by reason.");
    for (int loss = REDLOCK_LOSS_EXPIRED; loss <= REDLOCK_LOSS_CLOSED; loss++)
        add(text, "redlock_losses_total{reason=\"%s\"} %llu\n", redlock_loss_name(loss),
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

static void add_metrics(struct text *text, const redlock_statistics *statistics)
{
    for (const struct metric *metric = metrics; metric < metrics + sizeof metrics / sizeof *metrics; metric++) {
        head(text, metric->name, metric->type, metric->help);
        add(text, "redlock_%s %llu\n", metric->name, value_of(metric, statistics));
    }
}

#define LABEL_SIZE 600 /* a name with every character escaped */

/* Escapes the name, because a socket's path may have any character. */
static const char *label(const struct rl_node *node, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "node=\"");
    for (const char *c = node->address.name; *c && used + 4 < size; c++) {
        if (*c == '"' || *c == '\\')
            buffer[used++] = '\\';
        buffer[used++] = *c == '\n' ? ' ' : *c;
    }
    buffer[used++] = '"';
    buffer[used] = '\0';
    return buffer;
}

static void add_node_metric(struct text *text, const redlock_client *client, const struct metric *metric)
{
    char buffer[LABEL_SIZE];
    head(text, metric->name, metric->type, metric->help);
    for (unsigned i = 0; i < client->nodes->count; i++)
        add(text, "redlock_%s{%s} %llu\n", metric->name, label(&client->nodes->node[i], buffer, sizeof buffer),
            value_of(metric, &client->nodes->node[i].statistics));
}

static void add_nodes(struct text *text, redlock_client *client)
{
    char buffer[LABEL_SIZE];
    for (size_t i = 0; i < sizeof node_metrics / sizeof *node_metrics; i++)
        add_node_metric(text, client, &node_metrics[i]);
    head(text, "node_usable", "gauge", "1 if the node gets requests for new locks, otherwise 0.");
    for (unsigned i = 0; i < client->nodes->count; i++)
        add(text, "redlock_node_usable{%s} %d\n", label(&client->nodes->node[i], buffer, sizeof buffer),
            rl_node_usable(&client->nodes->node[i], rl_now(), true).is == RL_USABLE);
    head(text, "node_latency_seconds", "histogram", "Time from a request to its reply.");
    for (unsigned i = 0; i < client->nodes->count; i++)
        histogram(text, "node_latency_seconds", label(&client->nodes->node[i], buffer, sizeof buffer),
                  &client->nodes->node[i].statistics.latency);
}

size_t rl_metrics_write(redlock_client *client, char *buffer, size_t size)
{
    struct text text = {buffer, size, 0};
    redlock_statistics statistics;
    rl_statistics_fill(client, &statistics);
    add_operations(&text, &statistics);
    add_metrics(&text, &statistics);
    head(&text, "acquire_seconds", "histogram", "Duration of successful acquires.");
    histogram(&text, "acquire_seconds", "", &statistics.acquire_latency);
    add_nodes(&text, client);
    return text.used;
}

int redlock_metrics(redlock_client *client, char *text, size_t size, size_t *needed)
{
    if (!client || (!text && size) || !rl_client_in_owner_process(client))
        return REDLOCK_INVALID;
    if (!client->loop_thread && rl_client_enter(client))
        return REDLOCK_INVALID;
    size_t used = client->loop_thread ? rl_blocking_metrics(client, text, size) : rl_metrics_write(client, text, size);
    if (needed)
        *needed = used + 1;
    return used < size ? REDLOCK_OK : REDLOCK_INVALID;
}
