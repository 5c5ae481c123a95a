/* Adds a duration to a histogram of the public statistics. */
#ifndef RL_HISTOGRAM_H
#define RL_HISTOGRAM_H

#include "quorum/time.h"
#include "redlock/redlock.h"

/* Buckets per power of two: a bucket's width is at most a fifth of its upper bound, from 4 us to an hour. */
#define RL_HISTOGRAM_PER_POWER 4u

void rl_histogram_add(redlock_histogram *histogram, quorum_duration duration);

#endif
