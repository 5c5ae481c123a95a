#include "flash_sale/durations.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void grow(struct durations *durations)
{
    size_t capacity = durations->capacity ? 2 * durations->capacity : 1024;
    uint64_t *us = realloc(durations->us, capacity * sizeof(*us));
    if (!us) {
        perror("durations");
        exit(EXIT_FAILURE);
    }
    durations->us = us;
    durations->capacity = capacity;
}

void durations_add(struct durations *durations, uint64_t us)
{
    if (durations->count == durations->capacity)
        grow(durations);
    durations->us[durations->count++] = us;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

double durations_percentile_ms(struct durations *durations, unsigned percent)
{
    assert(durations->count > 0);
    assert(percent >= 1 && percent <= 100);
    qsort(durations->us, durations->count, sizeof(*durations->us), compare);
    size_t rank = (durations->count * percent + 99) / 100;
    return (double)durations->us[rank - 1] / 1000;
}

void durations_free(struct durations *durations)
{
    free(durations->us);
    *durations = (struct durations){0};
}
