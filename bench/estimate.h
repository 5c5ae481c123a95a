/* An estimate from many short blocks: the median, and a 95 % interval around it that is computed from ranks only
 * (the inverted sign test), for any distribution of the noise. */
#ifndef BENCH_ESTIMATE_H
#define BENCH_ESTIMATE_H

struct estimate {
    double value, low, high;
};

/* Of `count` values. Sorts them. */
struct estimate estimate_median(double *values, unsigned count);

/* A counted value, without an interval. */
struct estimate estimate_exact(double value);

#endif
