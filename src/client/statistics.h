/* What a client counts. */
#ifndef RL_STATISTICS_H
#define RL_STATISTICS_H

#include "quorum/time.h"
#include "redlock/redlock.h"

/* Of one node. */
struct rl_node_statistics {
    uint64_t requests;
    uint64_t timeouts;
    uint64_t connections; /* that became ready */
    uint64_t quarantines;
    redlock_histogram latency;
};

void rl_histogram_add(redlock_histogram *histogram, quorum_duration duration);

/* On the loop's thread. */
void rl_statistics_fill(redlock_client *client, redlock_statistics *statistics);
size_t rl_metrics_write(redlock_client *client, char *text, size_t size);

#endif
