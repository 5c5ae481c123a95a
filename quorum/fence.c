#include "quorum/fence.h"

#include <assert.h>
#include <string.h>

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Above all earlier tokens. A proposal is no token yet: one that the nodes refuse, because the wall clock is a day ahead,
 * must not stay when the clock is set right. */
static uint64_t propose(const struct quorum_fence_clock *clock, uint64_t wall_us, uint64_t steady_us)
{
    uint64_t time_us = clock->lead ? larger(wall_us, steady_us + clock->lead) : wall_us;
    return larger(time_us, clock->last + 1);
}

void quorum_fence_learn(struct quorum_fence_clock *clock, const struct quorum_fence *fence)
{
    clock->last = larger(clock->last, fence->token);
    if (fence->raises && fence->token > fence->steady_us)
        clock->lead = larger(clock->lead, fence->token - fence->steady_us);
}

bool quorum_fence_is_near(uint64_t token, uint64_t record)
{
    return record < token || record - token <= QUORUM_FENCE_FAR;
}

void quorum_fence_init(struct quorum_fence *fence, unsigned nodes, const struct quorum_fence_clock *clock,
                       uint64_t wall_us, quorum_time now)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    memset(fence, 0, sizeof *fence);
    fence->nodes = nodes;
    fence->steady_us = now / QUORUM_MICROSECOND;
    fence->token = propose(clock, wall_us, fence->steady_us);
}

void quorum_fence_answered(struct quorum_fence *fence, unsigned node, uint64_t record)
{
    assert(node < fence->nodes);
    if (fence->settled)
        return; /* renewal and release send the token to late nodes */
    if (record < fence->token)
        fence->counted |= quorum_node(node);
    else
        fence->seen = larger(fence->seen, record);
}

bool quorum_fence_confirmed(struct quorum_fence *fence)
{
    assert(!fence->settled);
    fence->settled = quorum_count(fence->counted) >= quorum_majority(fence->nodes);
    if (fence->settled)
        return true;
    assert(fence->seen >= fence->token); /* a majority has replied, and some of it did not count */
    fence->token = fence->seen + 1;
    fence->counted = 0;
    fence->raises++;
    return false;
}
