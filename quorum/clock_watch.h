/*
 * Did a clock jump? Each answer to TIME bounds what a node's clock is ahead of ours: between TIME - received and TIME -
 * sent. A late answer is a wide bound, not a wrong one. Only bounds that exclude each other by more than the drift,
 * within one max_ttl, say that a clock jumped. One node's: it jumped. A majority's in the same direction: ours stood
 * still, and no node is to blame.
 */
#ifndef QUORUM_CLOCK_WATCH_H
#define QUORUM_CLOCK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

struct quorum_offset {
    int64_t low;  /* the node's clock less ours, in ns, is not below this ... */
    int64_t high; /* ... nor above this */
};

struct quorum_clock_node {
    bool known;
    struct quorum_offset offset; /* what all samples since `since` agree on, the drift allowed for */
    quorum_time since;
    int direction; /* of a jump that is not judged yet: 1 ahead, -1 back, 0 none */
    quorum_time jumped_at;
};

struct quorum_clock_watch {
    unsigned nodes;
    quorum_duration max_ttl;
    uint32_t drift_ppm;
    quorum_duration patience; /* how long the other nodes' samples are waited for, before one is blamed */
    struct quorum_clock_node node[QUORUM_NODES_MAX];
};

struct quorum_clock_sample {
    unsigned node;
    quorum_time sent;
    quorum_time received;
    quorum_time time; /* the node's, in ns */
};

struct quorum_clock_actions {
    quorum_nodes suspect; /* jumped, or we did: not to grant until it is judged */
    quorum_nodes jumped;  /* judged: they did */
    bool own;             /* judged: we did */
};

void quorum_clock_init(struct quorum_clock_watch *watch, unsigned nodes, quorum_duration max_ttl, uint32_t drift_ppm,
                       quorum_duration patience);

struct quorum_clock_actions quorum_clock_step(struct quorum_clock_watch *watch,
                                              const struct quorum_clock_sample *sample);

/* Another server answers under the node's name: its clock is another one. */
void quorum_clock_forget(struct quorum_clock_watch *watch, unsigned node);

#endif
