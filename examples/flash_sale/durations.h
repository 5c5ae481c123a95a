/*
 * durations.h - how long things took, and what was usual and what was rare
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

/* They end the process when there is no memory. */
void durations_add(struct durations *durations, uint64_t us);

/* The shortest of them that so many percent do not exceed, in milliseconds. Sorts them; there must be one. */
double durations_percentile_ms(struct durations *durations, unsigned percent);

void durations_free(struct durations *durations);

#endif
