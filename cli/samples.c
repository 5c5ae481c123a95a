#include "samples.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_SIZE = 1024, SAMPLES_MAX = 1 << 20 };

void cli_samples_add(struct cli_samples *samples, uint64_t us)
{
    if (samples->count == samples->size) {
        size_t size = samples->size > 0 ? 2 * samples->size : FIRST_SIZE;
        uint32_t *larger = size <= SAMPLES_MAX ? realloc(samples->us, size * sizeof(*larger)) : NULL;
        if (larger == NULL)
            return;
        samples->us = larger;
        samples->size = size;
    }
    samples->us[samples->count++] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

void cli_samples_join(struct cli_samples *samples, struct cli_samples *more)
{
    for (size_t i = 0; i < more->count; i++)
        cli_samples_add(samples, more->us[i]);
    cli_samples_free(more);
}

static int compare(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

void cli_samples_sort(struct cli_samples *samples)
{
    if (samples->count > 0)
        qsort(samples->us, samples->count, sizeof(*samples->us), compare);
}

uint64_t cli_samples_quantile(const struct cli_samples *samples, double share)
{
    if (samples->count == 0)
        return 0;
    double rank = ceil(share * (double)samples->count);
    return samples->us[rank > 1 ? (size_t)rank - 1 : 0];
}

void cli_samples_free(struct cli_samples *samples)
{
    free(samples->us);
    *samples = (struct cli_samples){0};
}
