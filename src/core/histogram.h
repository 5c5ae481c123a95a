/* Histograms of durations: the public one, and a smaller one. */
#ifndef RL_HISTOGRAM_H
#define RL_HISTOGRAM_H

#include "quorum/time.h"
#include "redlock/redlock.h"

/* Buckets per power of two: a bucket's width is at most a fifth of its upper bound, from 4 us to an hour. */
#define RL_HISTOGRAM_PER_POWER 4u

void rl_histogram_add(redlock_histogram *histogram, quorum_duration duration);

/* A histogram with one bucket for each power of two, as the metrics show it: a client has one for each node. */
struct rl_latency {
    uint64_t count;
    uint64_t sum_us;
    uint64_t power[REDLOCK_HISTOGRAM_BUCKETS / RL_HISTOGRAM_PER_POWER];
};

void rl_latency_add(struct rl_latency *latency, quorum_duration duration);

#endif
