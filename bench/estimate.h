/* What many short blocks say about a figure: their median, and the 95 % interval around it that follows from ranks alone
 * (the sign test turned round), whatever the noise is distributed like. */
#ifndef BENCH_ESTIMATE_H
#define BENCH_ESTIMATE_H

struct estimate {
    double value, low, high;
};

/* Of `count` values, which are put in order. */
struct estimate estimate_median(double *values, unsigned count);

/* A figure that was counted, not sampled. */
struct estimate estimate_exact(double value);

#endif
