/* A lock with a fencing token on TURNS_NAMES names that another process also uses. The two take turns. */
#include <stdio.h>

#include "contender.h"
#include "redlock_common.h"

const redlock_acquire_options *redlock_bench_how(struct slot *slot)
{
    static redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    static unsigned number;
    slot->resource_length = (size_t)snprintf(slot->resource, sizeof slot->resource, "/0000/turns/%u-of-%u",
                                             number++ % TURNS_NAMES, TURNS_NAMES);
    options.fence = 1;
    return &options;
}
