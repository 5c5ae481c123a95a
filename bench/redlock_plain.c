/* The default: a plain lock. */
#include "redlock_common.h"

const redlock_acquire_options *redlock_bench_how(struct slot *slot)
{
    (void)slot;
    return NULL;
}
