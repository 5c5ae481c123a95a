/*
 * Detects clock jumps. Each reply to TIME bounds how far a node's clock is ahead of ours: by at least TIME - received,
 * by at most TIME - sent. A late reply gives a wide bound, not a wrong one. All samples of a node form one pair of
 * bounds, which widens by the drift with time: two samples that contradict each other by more than the drift of the
 * time between them show a jump, however many samples lie between.
 *
 * The other nodes' samples, sent after the jump was seen, decide whose clock it was. If a majority of all nodes jumped
 * in the same direction, our own clock stopped, and no node is blamed. A node whose clock did not move by even half of
 * the jump vouches for our clock. If fewer nodes vouch than jumped, both are assumed: our clock stopped, and the nodes
 * jumped.
 */
#ifndef QUORUM_CLOCK_WATCH_H
#define QUORUM_CLOCK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

/* Bounds of the node's clock less ours, in ns. Noise within the constant part of the drift may put `low` above
 * `high`. */
struct quorum_offset {
    int64_t low;
    int64_t high;
};

struct quorum_clock_node {
    bool known;
    struct quorum_offset offset; /* all samples since `since` agree on this; valid at `at`, and widens afterwards */
    quorum_time at;
    quorum_time since;         /* the first of these samples was received */
    quorum_time low_at;        /* the sample that gave the lower bound was sent */
    quorum_time high_at;       /* the sample that gave the upper bound was sent */
    struct quorum_offset last; /* by the last sample alone */
    quorum_time last_sent;

    int direction;         /* of a jump whose verdict is open: 1 ahead, -1 back, 0 none */
    int64_t size;          /* its minimum size, without an allowance for drift */
    quorum_time after;     /* it happened after this: the last sample was sent if that one alone shows it ... */
    quorum_time jumped_at; /* ... and before this */
    quorum_nodes vouched;  /* nodes whose samples show that our clock did not stop */
    quorum_nodes ignorant; /* nodes that cannot vouch: not sampled before the jump, or jumped too */
};

struct quorum_clock_watch {
    unsigned nodes;
    uint32_t drift_ppm;
    quorum_duration patience; /* how long a verdict waits for nodes that do not reply */
    struct quorum_clock_node node[QUORUM_NODES_MAX];
};

/* The first bytes of it: what a deployment of that many nodes uses. */
#define QUORUM_CLOCK_SIZE(nodes)                                                                                       \
    (offsetof(struct quorum_clock_watch, node) + (nodes) * sizeof(struct quorum_clock_node))

struct quorum_clock_sample {
    unsigned node;
    quorum_time sent;
    quorum_time received;
    quorum_time time;       /* the node's TIME, in ns */
    quorum_nodes answering; /* nodes that are expected to reply: they are connected */
};

struct quorum_clock_actions {
    quorum_nodes ask;     /* request a sample of these nodes at once: the verdict depends on them */
    quorum_nodes suspect; /* these nodes jumped, or our clock stopped: they must not grant until the verdict */
    quorum_nodes jumped;  /* verdict: these nodes jumped */
    bool own;             /* verdict: our clock stopped */
};

void quorum_clock_init(struct quorum_clock_watch *watch, unsigned nodes, uint32_t drift_ppm, quorum_duration patience);

struct quorum_clock_actions quorum_clock_step(struct quorum_clock_watch *watch,
                                              const struct quorum_clock_sample *sample);

/* Another server has the node's name: it has a different clock. */
void quorum_clock_forget(struct quorum_clock_watch *watch, unsigned node);

#endif
