#include "quorum/guard.h"

#include <assert.h>
#include <string.h>

#include "quorum/validity.h"

quorum_duration quorum_quarantine(quorum_time since, quorum_time time, quorum_duration max_ttl, uint32_t drift_ppm)
{
    if (since == QUORUM_TRUSTED)
        return 0;
    quorum_duration whole =
        quorum_time_add(quorum_time_add(max_ttl, quorum_drift(max_ttl, drift_ppm)), QUORUM_GUARD_MARGIN);
    /* A marker from the future: the clock was set back, so the elapsed time is unknown. */
    return time < since ? whole : quorum_time_until(quorum_time_add(since, whole), time);
}

void quorum_guard_init(struct quorum_guard *guard, unsigned nodes, uint32_t drift_ppm, quorum_duration max_ttl)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    memset(guard, 0, QUORUM_GUARD_SIZE(nodes));
    guard->nodes = nodes;
    guard->drift_ppm = drift_ppm;
    guard->max_ttl = max_ttl;
}

static void set_end(const struct quorum_guard *guard, struct quorum_guard_node *node)
{
    quorum_duration left = quorum_quarantine(node->since, node->time, guard->max_ttl, guard->drift_ppm);
    node->end = left ? quorum_time_add(node->received, left) : 0;
    quorum_duration young = node->time < node->since
                                ? QUORUM_SETTLING
                                : quorum_time_until(quorum_time_add(node->since, QUORUM_SETTLING), node->time);
    node->settled = node->changes && young ? quorum_time_add(node->received, young) : 0;
}

bool quorum_guard_learn(struct quorum_guard *guard, quorum_duration max_ttl, quorum_time now)
{
    if (max_ttl <= guard->max_ttl)
        return false;
    guard->max_ttl = max_ttl;
    guard->learned = now;
    for (unsigned i = 0; i < guard->nodes; i++)
        if (guard->node[i].received)
            set_end(guard, &guard->node[i]);
    return true;
}

bool quorum_guard_voids(const struct quorum_guard *guard, quorum_nodes granted, quorum_time sent, quorum_time now)
{
    if (guard->learned < sent)
        return false;
    for (; granted; granted &= granted - 1)
        if (guard->node[__builtin_ctz(granted)].end > now)
            return true;
    return false;
}

void quorum_guard_read(struct quorum_guard *guard, unsigned node, quorum_time since, quorum_time time,
                       quorum_time received)
{
    struct quorum_guard_node *read = &guard->node[node];
    assert(node < guard->nodes);
    read->since = since;
    read->time = time;
    read->received = received;
    set_end(guard, read);
}

bool quorum_guard_counts_held(const struct quorum_guard *guard, unsigned node, bool adopts, quorum_time now)
{
    const struct quorum_guard_node *judged = &guard->node[node];
    assert(node < guard->nodes);
    return !judged->changes || (judged->settled <= now && (!adopts || judged->end <= now));
}
