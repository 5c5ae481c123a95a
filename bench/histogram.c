#include "histogram.h"

#include <string.h>

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
}

static unsigned bucket_of(uint64_t duration)
{
    if (duration < (UINT64_C(1) << HISTOGRAM_SHIFT))
        return (unsigned)duration;
    unsigned octave = 63u - (unsigned)__builtin_clzll(duration) - HISTOGRAM_SHIFT;
    if (octave >= HISTOGRAM_OCTAVES)
        return HISTOGRAM_BUCKETS - 1;
    unsigned within = (unsigned)(duration >> octave) - (1u << HISTOGRAM_SHIFT);
    return ((octave + 1) << HISTOGRAM_SHIFT) + within;
}

uint64_t histogram_bucket_start(unsigned bucket)
{
    unsigned octave = bucket >> HISTOGRAM_SHIFT;
    if (octave == 0)
        return bucket;
    uint64_t within = bucket & ((1u << HISTOGRAM_SHIFT) - 1);
    return (within + (UINT64_C(1) << HISTOGRAM_SHIFT)) << (octave - 1);
}

void histogram_add(struct histogram *histogram, uint64_t duration_ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(duration_ns)]++;
    if (duration_ns > histogram->worst)
        histogram->worst = duration_ns;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    if (from->worst > into->worst)
        into->worst = from->worst;
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    double rank = share * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= rank)
            return histogram_bucket_start(i);
    }
    return 0;
}
