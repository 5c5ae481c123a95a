/*
 * Fencing tokens: numbers that grow with each acquisition of a resource, in one round trip as a rule. Each node keeps a
 * record per resource, the largest token it was told. The client proposes one; it is the token when a majority has it
 * and had less before. Else a larger one is raised to on the nodes that still have the lock.
 *
 * Two tokens cannot be equal: of two majorities one node would have gone from below to the same number twice. And they
 * grow: when a holder has token a, a majority has a record of a or more; whoever acquires later counts on one node of
 * it, which had less than the new token.
 */
#ifndef QUORUM_FENCE_H
#define QUORUM_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

/* A proposal so far above a node's clock, or so far below its record, is a mad clock's: in microseconds, a day. */
#define QUORUM_FENCE_FAR UINT64_C(86400000000)

/*
 * What a client proposes by: microseconds of the wall clock, which make tokens of different clients comparable, but
 * prove nothing. How far others are ahead is counted from the steady clock: where it added to a wall clock that is set
 * later, every such setting would push all clients further on.
 */
struct quorum_fence_clock {
    uint64_t lead; /* from our steady clock, in microseconds, to the largest record that we had to go beyond */
    uint64_t last; /* the largest token proposed or seen */
};

/* Can a record be what others' clocks brought about? If not one side's clock is more than a day off: the two do not
 * make tokens together. */
bool quorum_fence_is_near(uint64_t token, uint64_t record);

/* One acquisition. */
struct quorum_fence {
    unsigned nodes;
    uint64_t steady_us;   /* when the proposal was made */
    uint64_t token;       /* proposed, or being raised to */
    uint64_t seen;        /* the largest record that stood in its way */
    quorum_nodes counted; /* nodes whose record was below the token, and is the token now */
    unsigned raises;      /* rounds beyond the first */
    bool settled;         /* the token is the lock's */
};

enum quorum_fence_event_type {
    QUORUM_FENCE_ANSWERED, /* node granted, or still has the lock; its record was `record` before it was told the token */
    QUORUM_FENCE_CONFIRMED /* a majority has answered so */
};

struct quorum_fence_event {
    enum quorum_fence_event_type type;
    unsigned node;
    uint64_t record;
};

enum quorum_fence_action {
    QUORUM_FENCE_NOTHING,
    QUORUM_FENCE_SETTLED, /* `token` is the lock's token */
    QUORUM_FENCE_RAISE    /* tell `token` to the nodes that still have the lock, in a new round */
};

/* Makes a proposal, as `token`. */
void quorum_fence_init(struct quorum_fence *fence, unsigned nodes, struct quorum_fence_clock *clock, uint64_t wall_us,
                       quorum_time now);

/* What the acquisition had to go up to: the next proposal at its moment would be enough. */
void quorum_fence_learn(struct quorum_fence_clock *clock, const struct quorum_fence *fence);

enum quorum_fence_action quorum_fence_step(struct quorum_fence *fence, const struct quorum_fence_event *event);

#endif
