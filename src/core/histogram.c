#include "src/core/histogram.h"

#include <assert.h>

static uint32_t bucket_of(uint64_t us)
{
    if (us < RL_HISTOGRAM_PER_POWER)
        return (uint32_t)us;
    unsigned power = 63u - (unsigned)__builtin_clzll(us);
    uint32_t bucket =
        (power - 1) * RL_HISTOGRAM_PER_POWER + (uint32_t)(us >> (power - 2) & (RL_HISTOGRAM_PER_POWER - 1));
    return bucket < REDLOCK_HISTOGRAM_BUCKETS ? bucket : REDLOCK_HISTOGRAM_BUCKETS - 1;
}

uint64_t redlock_histogram_bound_us(uint32_t bucket)
{
    if (bucket >= REDLOCK_HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    if (bucket < RL_HISTOGRAM_PER_POWER)
        return bucket;
    unsigned power = bucket / RL_HISTOGRAM_PER_POWER + 1;
    return ((uint64_t)RL_HISTOGRAM_PER_POWER + bucket % RL_HISTOGRAM_PER_POWER + 1) * (UINT64_C(1) << (power - 2)) - 1;
}

void rl_histogram_add(redlock_histogram *histogram, quorum_duration duration)
{
    uint64_t us = duration / QUORUM_MICROSECOND;
    histogram->count++;
    histogram->sum_us += us;
    histogram->bucket[bucket_of(us)]++;
}

void rl_latency_add(struct rl_latency *latency, quorum_duration duration)
{
    uint64_t us = duration / QUORUM_MICROSECOND;
    latency->count++;
    latency->sum_us += us;
    latency->power[bucket_of(us) / RL_HISTOGRAM_PER_POWER]++;
}

uint64_t redlock_histogram_quantile_us(const redlock_histogram *histogram, double quantile)
{
    if (!histogram || histogram->count == 0 || !(quantile >= 0 && quantile <= 1))
        return 0;
    uint64_t wanted = (uint64_t)(quantile * (double)histogram->count), seen = 0;
    wanted += wanted < histogram->count;
    for (uint32_t bucket = 0; bucket < REDLOCK_HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->bucket[bucket];
        if (seen >= wanted)
            return redlock_histogram_bound_us(bucket);
    }
    return UINT64_MAX;
}
