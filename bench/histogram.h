/* Durations in log-linear buckets: fixed memory, 0.1 % wide, so that recording costs the same for every contender. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_SHIFT = 10,   /* 2^10 buckets per power of two */
    HISTOGRAM_OCTAVES = 26, /* the last bucket holds all durations from 2^36 ns = 69 s */
    HISTOGRAM_BUCKETS = (HISTOGRAM_OCTAVES + 1) << HISTOGRAM_SHIFT,
};

struct histogram {
    uint64_t count;
    uint64_t worst; /* ns, exact */
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t duration_ns);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The duration that a share (0..1) of all durations does not exceed; 0 if there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

/* The smallest duration of the bucket. */
uint64_t histogram_bucket_start(unsigned bucket);

#endif
