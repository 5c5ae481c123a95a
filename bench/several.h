/* Eight fresh names at a time: for one lock on all of them, and for eight locks. */
#ifndef BENCH_SEVERAL_H
#define BENCH_SEVERAL_H

#include <string.h>

#include "contender.h"

enum { SEVERAL = 8, SEVERAL_NAME_SIZE = sizeof((struct slot *)0)->resource + 1 };

/* Writes the slot's name with a digit before it. Returns its length. */
static inline size_t several_name(char name[SEVERAL_NAME_SIZE], unsigned number, const struct slot *slot)
{
    name[0] = (char)('0' + number);
    memcpy(name + 1, slot->resource, slot->resource_length + 1);
    return slot->resource_length + 1;
}

#endif
