/*
 * Fencing tokens: numbers that increase with each acquire of a resource, usually in one round trip. Each node keeps a
 * record per resource, the largest token it has received. The client proposes a number; it becomes the token if a
 * majority records it and had a smaller record before. Otherwise the client raises the records to a larger number, on
 * the nodes that still have the lock.
 *
 * Two tokens cannot be equal: one node of both majorities would have gone from a smaller record to the same number
 * twice. And they increase: when a holder has token a, a majority has a record of a or more. A later acquire counts on
 * one node of that majority, whose record was smaller than the new token.
 */
#ifndef QUORUM_FENCE_H
#define QUORUM_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

/* A proposal this far above a node's clock, or below its record, comes from a wrong clock: a day, in microseconds. */
#define QUORUM_FENCE_FAR UINT64_C(86400000000)

/*
 * The source of proposals: microseconds of the wall clock, so that the tokens of different clients are comparable; no
 * guarantee depends on it. The lead of other clients is relative to the steady clock: relative to a wall clock that is
 * then set forward, each step would push all clients further.
 */
struct quorum_fence_clock {
    uint64_t lead; /* from our steady clock to the largest record that we had to go beyond, in microseconds */
    uint64_t last; /* the largest token that a majority recorded, or that another client's record required */
};

/* Whether the record can come from a correct clock. Otherwise one side's clock is more than a day off, and the record
 * does not count. */
bool quorum_fence_is_near(uint64_t token, uint64_t record);

/* The token of one acquire. */
struct quorum_fence {
    unsigned nodes;
    uint64_t steady_us;   /* when the proposal was made */
    uint64_t token;       /* the proposal, or the number that the records are raised to */
    uint64_t seen;        /* the largest record that prevented it */
    quorum_nodes counted; /* nodes whose record was below the token, and is now the token */
    unsigned raises;      /* rounds beyond the first */
    bool settled;         /* the token is the lock's */
};

/* Sets `token` to a new proposal. */
void quorum_fence_init(struct quorum_fence *fence, unsigned nodes, const struct quorum_fence_clock *clock,
                       uint64_t wall_us, quorum_time now);

/* Learns the last token and the lead from an acquire that a majority granted: the same proposal, made with it, would have sufficed. */
void quorum_fence_learn(struct quorum_fence_clock *clock, const struct quorum_fence *fence);

/* The node granted, or still has the lock; its record was `record` before it got the token. A record equal to the token does
 * not count: it may be another client's. */
void quorum_fence_answered(struct quorum_fence *fence, unsigned node, uint64_t record);

/* A majority has done so. true: `token` is the lock's token. false: it is a larger number now: send it to the nodes that still
 * have the lock, in a new round. */
bool quorum_fence_confirmed(struct quorum_fence *fence);

#endif
