#include "quorum/clock_watch.h"

#include <assert.h>
#include <string.h>

#include "quorum/validity.h"

/* Bound on the difference of two clocks (109 years), and on one drift: sums of two such values fit. */
#define MOST_APART   (INT64_MAX / 8 * 3)
#define MOST_DRIFTED (INT64_MAX / 16)

void quorum_clock_init(struct quorum_clock_watch *watch, unsigned nodes, uint32_t drift_ppm, quorum_duration patience)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    memset(watch, 0, QUORUM_CLOCK_SIZE(nodes));
    watch->nodes = nodes;
    watch->drift_ppm = drift_ppm;
    watch->patience = patience;
}

void quorum_clock_forget(struct quorum_clock_watch *watch, unsigned node)
{
    memset(&watch->node[node], 0, sizeof watch->node[node]);
}

/* A node may send any number. */
static int64_t difference(quorum_time a, quorum_time b)
{
    quorum_duration most = MOST_APART;
    if (a >= b)
        return (int64_t)(a - b < most ? a - b : most);
    return -(int64_t)(b - a < most ? b - a : most);
}

/* The most that correct clocks gain or lose in this time, by their rates. */
static int64_t rate(const struct quorum_clock_watch *watch, quorum_duration time)
{
    quorum_duration gained = quorum_drift(time, watch->drift_ppm) - QUORUM_DRIFT_FLOOR;
    return gained < MOST_DRIFTED ? (int64_t)gained : MOST_DRIFTED;
}

/* ---------------------------------------------------------------------------------------------------------- samples */

/* As of its receipt: the node may have read its clock as early as the request was sent. */
static struct quorum_offset offset_of(const struct quorum_clock_watch *watch, const struct quorum_clock_sample *sample)
{
    quorum_duration took = quorum_time_since(sample->sent, sample->received);
    return (struct quorum_offset){difference(sample->time, sample->received),
                                  difference(sample->time, sample->sent) + rate(watch, took)};
}

static void note_last(struct quorum_clock_node *node, struct quorum_offset offset,
                      const struct quorum_clock_sample *sample)
{
    node->last = offset;
    node->last_sent = sample->sent;
}

static void start_anew(struct quorum_clock_node *node, struct quorum_offset offset,
                       const struct quorum_clock_sample *sample)
{
    node->known = true;
    node->offset = offset;
    node->at = node->since = sample->received;
    node->low_at = node->high_at = sample->sent;
    note_last(node, offset, sample);
}

/* Intersects the old bounds, widened by `drifted`, with the sample. */
static void narrow(struct quorum_clock_node *node, struct quorum_offset offset, int64_t drifted,
                   const struct quorum_clock_sample *sample)
{
    node->offset.low -= drifted;
    node->offset.high += drifted;
    node->at = sample->received;
    if (offset.low > node->offset.low) {
        node->offset.low = offset.low;
        node->low_at = sample->sent;
    }
    if (offset.high < node->offset.high) {
        node->offset.high = offset.high;
        node->high_at = sample->sent;
    }
    note_last(node, offset, sample);
}

/* Bounds of the clock's gain between two samples, without drift. */
static struct quorum_offset change_of(struct quorum_offset before, struct quorum_offset offset)
{
    return (struct quorum_offset){offset.low - before.high, offset.high - before.low};
}

/* By more than `most`: 1 ahead, -1 back; otherwise 0. */
static int direction_of(struct quorum_offset change, int64_t most)
{
    return (change.low > most) - (-change.high > most);
}

/* A jump that the last sample alone shows happened after that one. The sample that gave the best bound may be much
 * older, and fewer nodes were known before it. */
static void note_size(struct quorum_clock_node *node, struct quorum_offset offset, int direction, int64_t most)
{
    struct quorum_offset change = change_of(node->last, offset);
    bool since_last = direction_of(change, most) == direction;
    if (!since_last)
        change = change_of(node->offset, offset);
    node->direction = direction;
    node->size = direction > 0 ? change.low : -change.high;
    node->after = since_last ? node->last_sent : direction > 0 ? node->high_at : node->low_at;
}

/* Suspects do not vouch for each other, and do not wait for each other. */
static void note_jump(struct quorum_clock_watch *watch, const struct quorum_clock_sample *sample)
{
    struct quorum_clock_node *node = &watch->node[sample->node];
    node->jumped_at = sample->received;
    node->vouched = node->ignorant = 0;
    for (unsigned i = 0; i < watch->nodes; i++) {
        if (!watch->node[i].direction)
            continue;
        watch->node[i].ignorant |= quorum_node(sample->node);
        node->ignorant |= quorum_node(i);
    }
}

/* The node's clock gained `change`. Marks the suspects for which this shows that our clock did not stop: the node must
 * have been sampled before the jump, and again after it. */
static void vouch(struct quorum_clock_watch *watch, const struct quorum_clock_sample *sample, quorum_time since,
                  struct quorum_offset change)
{
    for (unsigned i = 0; i < watch->nodes; i++) {
        struct quorum_clock_node *suspect = &watch->node[i];
        int64_t moved = suspect->direction > 0 ? change.high : -change.low;
        if (!suspect->direction || i == sample->node || sample->sent < suspect->jumped_at)
            continue;
        if (since > suspect->after)
            suspect->ignorant |= quorum_node(sample->node);
        else if (moved <= suspect->size / 2)
            suspect->vouched |= quorum_node(sample->node);
    }
}

/* true: the sample shows a jump. */
static bool take(struct quorum_clock_watch *watch, const struct quorum_clock_sample *sample)
{
    struct quorum_clock_node *node = &watch->node[sample->node];
    struct quorum_offset offset = offset_of(watch, sample);
    if (!node->known) {
        start_anew(node, offset, sample);
        return false;
    }
    struct quorum_offset change = change_of(node->offset, offset);
    int64_t drifted = rate(watch, quorum_time_since(node->at, sample->received));
    int64_t most = drifted + (int64_t)QUORUM_DRIFT_FLOOR;
    int direction = direction_of(change, most);
    vouch(watch, sample, node->since, change);
    if (direction) {
        note_size(node, offset, direction, most);
        note_jump(watch, sample);
        start_anew(node, offset, sample);
    } else {
        narrow(node, offset, drifted, sample);
    }
    return direction != 0;
}

/* --------------------------------------------------------------------------------------------------------- verdicts */

static quorum_nodes suspects(const struct quorum_clock_watch *watch, int direction)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < watch->nodes; i++)
        if (watch->node[i].direction == direction)
            nodes |= quorum_node(i);
    return nodes;
}

static void settle(struct quorum_clock_watch *watch, quorum_nodes nodes)
{
    for (unsigned i = 0; i < watch->nodes; i++)
        if (nodes & quorum_node(i))
            watch->node[i].direction = 0;
}

/* Nodes whose reply can still contribute to this verdict. */
static quorum_nodes awaited(const struct quorum_clock_watch *watch, const struct quorum_clock_node *suspect,
                            quorum_nodes answering)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < watch->nodes; i++)
        if (watch->node[i].known)
            nodes |= quorum_node(i);
    return nodes & answering & ~(suspect->vouched | suspect->ignorant);
}

/* No further reply would change the verdict, or the wait for it is over. The wait ends with a request that was sent
 * after the patience: after a pause of this process, replies have arrived but have not been read yet. */
static bool is_due(const struct quorum_clock_watch *watch, const struct quorum_clock_node *suspect,
                   const struct quorum_clock_sample *sample)
{
    return quorum_count(suspect->vouched) + quorum_majority(watch->nodes) > watch->nodes ||
           !awaited(watch, suspect, sample->answering) ||
           quorum_time_since(suspect->jumped_at, sample->sent) >= watch->patience;
}

/* The other nodes' clocks will differ from ours in their next replies too: that is no jump of theirs. */
static void judge_own(struct quorum_clock_watch *watch, struct quorum_clock_actions *actions, quorum_nodes same)
{
    actions->own = true;
    settle(watch, same);
    for (unsigned i = 0; i < watch->nodes; i++)
        if (!(same & quorum_node(i)) && !watch->node[i].direction)
            quorum_clock_forget(watch, i);
}

static void judge(struct quorum_clock_watch *watch, struct quorum_clock_actions *actions,
                  const struct quorum_clock_sample *sample, int direction)
{
    quorum_nodes same = suspects(watch, direction), jumped = 0;
    bool outvoted = true;
    if (watch->nodes > 1 && quorum_count(same) >= quorum_majority(watch->nodes)) {
        judge_own(watch, actions, same);
        return;
    }
    for (unsigned i = 0; i < watch->nodes; i++) {
        const struct quorum_clock_node *suspect = &watch->node[i];
        if (!(same & quorum_node(i)) || !is_due(watch, suspect, sample))
            continue;
        jumped |= quorum_node(i);
        outvoted = outvoted && quorum_count(suspect->vouched) >= quorum_count(same);
    }
    if (!outvoted)
        judge_own(watch, actions, jumped = same);
    settle(watch, jumped);
    actions->jumped |= jumped;
    actions->suspect |= same & ~jumped;
}

struct quorum_clock_actions quorum_clock_step(struct quorum_clock_watch *watch,
                                              const struct quorum_clock_sample *sample)
{
    struct quorum_clock_actions actions = {0, 0, 0, false};
    assert(sample->node < watch->nodes && sample->sent <= sample->received);
    bool jump = take(watch, sample);
    judge(watch, &actions, sample, 1);
    judge(watch, &actions, sample, -1);
    if (jump && (actions.suspect & quorum_node(sample->node)))
        actions.ask = quorum_all(watch->nodes) & ~actions.suspect;
    return actions;
}
