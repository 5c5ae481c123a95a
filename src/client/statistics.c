#include "src/client/statistics.h"

#include <stdarg.h>
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

static void one(struct text *text, const char *name, const char *type, const char *help, uint64_t value)
{
    head(text, name, type, help);
    add(text, "redlock_%s %llu\n", name, (unsigned long long)value);
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
    head(text, "acquires_total", "counter", "acquire operations by how they ended");
    for (int status = 0; status < REDLOCK_STATUSES; status++)
        add(text, "redlock_acquires_total{status=\"%s\"} %llu\n", redlock_status_name(-status) + strlen("REDLOCK_"),
            (unsigned long long)statistics->acquires[status]);
    head(text, "losses_total", "counter", "locks lost by reason");
    static const char *const reasons[] = {"", "expired", "gone", "clock", "closed"};
    for (int loss = REDLOCK_LOSS_EXPIRED; loss <= REDLOCK_LOSS_CLOSED; loss++)
        add(text, "redlock_losses_total{reason=\"%s\"} %llu\n", reasons[loss],
            (unsigned long long)statistics->losses[loss]);
}

static void add_counters(struct text *text, const redlock_statistics *statistics)
{
    one(text, "attempts_total", "counter", "rounds that acquire operations needed", statistics->attempts);
    one(text, "hand_offs_total", "counter", "locks taken when called from a queue", statistics->hand_offs);
    one(text, "reentries_total", "counter", "locks acquired again by their owner", statistics->reentered);
    one(text, "releases_total", "counter", "locks released, confirmed by a majority", statistics->released);
    one(text, "renewals_total", "counter", "locks renewed", statistics->renewed);
    one(text, "renewals_failed_total", "counter", "renewals that came to nothing", statistics->renewals_failed);
    one(text, "healed_total", "counter", "locks set again on a node that had lost them", statistics->healed);
    one(text, "late_grants_undone_total", "counter", "grants that came after their attempt was lost",
        statistics->late_grants);
    one(text, "unattested_grants_total", "counter", "grants that did not count because the node's marker had changed",
        statistics->unattested);
    one(text, "undos_dropped_total", "counter", "undos given up", statistics->undos_dropped);
    one(text, "node_clock_jumps_total", "counter", "nodes whose clock jumped", statistics->node_clock_jumps);
    one(text, "quarantines_total", "counter", "nodes that were found to have forgotten", statistics->quarantines);
    one(text, "locks_held", "gauge", "locks held now", statistics->locks_held);
    one(text, "operations_pending", "gauge", "operations under way", statistics->operations_pending);
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

static void add_node_counter(struct text *text, const redlock_client *client, const char *name, const char *help,
                             size_t member)
{
    char buffer[LABEL_SIZE];
    head(text, name, "counter", help);
    for (unsigned i = 0; i < client->nodes->count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&client->nodes->node[i].statistics + member, sizeof value);
        add(text, "redlock_%s{%s} %llu\n", name, label(&client->nodes->node[i], buffer, sizeof buffer),
            (unsigned long long)value);
    }
}

static void add_nodes(struct text *text, redlock_client *client)
{
    char buffer[LABEL_SIZE];
    add_node_counter(text, client, "node_requests_total", "requests sent to the node",
                     offsetof(struct rl_node_statistics, requests));
    add_node_counter(text, client, "node_timeouts_total", "requests it did not answer in time",
                     offsetof(struct rl_node_statistics, timeouts));
    add_node_counter(text, client, "node_connections_total", "connections that became ready",
                     offsetof(struct rl_node_statistics, connections));
    add_node_counter(text, client, "node_quarantines_total", "times it was found to have forgotten",
                     offsetof(struct rl_node_statistics, quarantines));
    head(text, "node_usable", "gauge", "1: it is asked for new locks");
    for (unsigned i = 0; i < client->nodes->count; i++)
        add(text, "redlock_node_usable{%s} %d\n", label(&client->nodes->node[i], buffer, sizeof buffer),
            rl_node_usable(&client->nodes->node[i], rl_now(), true).is == RL_USABLE);
    head(text, "node_latency_seconds", "histogram", "from a request to its answer");
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
    add_counters(&text, &statistics);
    head(&text, "acquire_seconds", "histogram", "duration of acquire operations that got the lock");
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
