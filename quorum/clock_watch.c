#include "quorum/clock_watch.h"

#include <assert.h>
#include <string.h>

#include "quorum/validity.h"

void quorum_clock_init(struct quorum_clock_watch *watch, unsigned nodes, quorum_duration max_ttl, uint32_t drift_ppm,
                       quorum_duration patience)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    memset(watch, 0, sizeof *watch);
    watch->nodes = nodes;
    watch->max_ttl = max_ttl;
    watch->drift_ppm = drift_ppm;
    watch->patience = patience;
}

void quorum_clock_forget(struct quorum_clock_watch *watch, unsigned node)
{
    memset(&watch->node[node], 0, sizeof watch->node[node]);
}

/* Saturated: a node may answer any number. */
static int64_t difference(quorum_time a, quorum_time b)
{
    quorum_duration most = INT64_MAX / 4;
    if (a >= b)
        return (int64_t)(a - b < most ? a - b : most);
    return -(int64_t)(b - a < most ? b - a : most);
}

static struct quorum_offset offset_of(const struct quorum_clock_sample *sample)
{
    return (struct quorum_offset){difference(sample->time, sample->received), difference(sample->time, sample->sent)};
}

/* How far the sample is off what is known: 1 ahead of it, -1 behind, 0 they can both be true. */
static int direction(struct quorum_offset known, struct quorum_offset sample, int64_t tolerance)
{
    if (sample.low - known.high > tolerance)
        return 1;
    return known.low - sample.high > tolerance ? -1 : 0;
}

static void start_anew(struct quorum_clock_node *node, struct quorum_offset offset, quorum_time now)
{
    node->known = true;
    node->offset = offset;
    node->since = now;
}

/* Both bounds hold, the sample's widened by what the clocks may have drifted since. */
static void narrow(struct quorum_clock_node *node, struct quorum_offset sample, int64_t tolerance)
{
    if (sample.low - tolerance > node->offset.low)
        node->offset.low = sample.low - tolerance;
    if (sample.high + tolerance < node->offset.high)
        node->offset.high = sample.high + tolerance;
}

/* What honest clocks may be apart by: for one max_ttl, or for as long as nobody has looked. */
static int64_t tolerance_of(const struct quorum_clock_watch *watch, const struct quorum_clock_node *node,
                            quorum_time now)
{
    quorum_duration unseen = quorum_time_since(node->since, now);
    return (int64_t)quorum_drift(unseen > watch->max_ttl ? unseen : watch->max_ttl, watch->drift_ppm);
}

static void take(struct quorum_clock_watch *watch, const struct quorum_clock_sample *sample)
{
    struct quorum_clock_node *node = &watch->node[sample->node];
    struct quorum_offset offset = offset_of(sample);
    int64_t tolerance = tolerance_of(watch, node, sample->received);
    int jump = node->known ? direction(node->offset, offset, tolerance) : 0;
    if (jump) {
        node->direction = jump;
        node->jumped_at = sample->received;
    }
    if (jump || !node->known || quorum_time_since(node->since, sample->received) >= watch->max_ttl)
        start_anew(node, offset, sample->received);
    else
        narrow(node, offset, tolerance);
}

static quorum_nodes jumped(const struct quorum_clock_watch *watch, int way)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < watch->nodes; i++)
        if (watch->node[i].direction == way)
            nodes |= quorum_node(i);
    return nodes;
}

static void judged(struct quorum_clock_watch *watch, quorum_nodes nodes)
{
    for (unsigned i = 0; i < watch->nodes; i++)
        if (nodes & quorum_node(i))
            watch->node[i].direction = 0;
}

/* A majority the same way: it was us. With a single node nobody can tell, and both are assumed. */
static void judge_own(struct quorum_clock_watch *watch, struct quorum_clock_actions *actions, int way)
{
    quorum_nodes nodes = jumped(watch, way);
    if (quorum_count(nodes) < quorum_majority(watch->nodes))
        return;
    actions->own = true;
    if (watch->nodes == 1)
        actions->jumped = nodes;
    judged(watch, nodes);
    /* The others' clocks are off ours, too, when they are heard next: that is no jump of theirs. */
    for (unsigned i = 0; i < watch->nodes; i++)
        if (!(nodes & quorum_node(i)) && !watch->node[i].direction)
            quorum_clock_forget(watch, i);
}

static void judge_nodes(struct quorum_clock_watch *watch, struct quorum_clock_actions *actions, quorum_time now)
{
    for (unsigned i = 0; i < watch->nodes; i++) {
        const struct quorum_clock_node *node = &watch->node[i];
        if (!node->direction)
            continue;
        if (quorum_time_since(node->jumped_at, now) >= watch->patience)
            actions->jumped |= quorum_node(i);
        else
            actions->suspect |= quorum_node(i);
    }
    judged(watch, actions->jumped);
}

struct quorum_clock_actions quorum_clock_step(struct quorum_clock_watch *watch,
                                              const struct quorum_clock_sample *sample)
{
    struct quorum_clock_actions actions = {0, 0, false};
    assert(sample->node < watch->nodes && sample->sent <= sample->received);
    take(watch, sample);
    judge_own(watch, &actions, 1);
    judge_own(watch, &actions, -1);
    judge_nodes(watch, &actions, sample->received);
    return actions;
}
