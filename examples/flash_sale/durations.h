/*
 * durations.h - a list of durations and its percentiles
 */
#ifndef FLASH_SALE_DURATIONS_H
#define FLASH_SALE_DURATIONS_H

#include <stddef.h>
#include <stdint.h>

struct durations {
    uint64_t *us;
    size_t count;
    size_t capacity;
};

/* Both end the process if memory is exhausted. */
void durations_add(struct durations *durations, uint64_t us);

/* The shortest duration that `percent` percent of them do not exceed, in milliseconds. Sorts them. There must be at
 * least one. */
double durations_percentile_ms(struct durations *durations, unsigned percent);

void durations_free(struct durations *durations);

#endif
