/* Durations that were measured, and their quantiles. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct cli_samples {
    uint32_t *us; /* microseconds */
    size_t count;
    size_t size;
};

/* Adds one. Drops it without memory, and beyond a million: enough for every quantile here. */
void cli_samples_add(struct cli_samples *samples, uint64_t us);

/* Adds those of `more`, and frees them. */
void cli_samples_join(struct cli_samples *samples, struct cli_samples *more);

/* Call it before the quantiles. */
void cli_samples_sort(struct cli_samples *samples);

/* The smallest duration that at least this share (0 to 1) of them does not exceed; 0 without samples. */
uint64_t cli_samples_quantile(const struct cli_samples *samples, double share);

void cli_samples_free(struct cli_samples *samples);

#endif
