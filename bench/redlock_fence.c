/* A lock with a fencing token. */
#include "redlock_common.h"

const redlock_acquire_options *redlock_bench_how(struct slot *slot)
{
    static redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    (void)slot;
    options.fence = 1;
    return &options;
}
