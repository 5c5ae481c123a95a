/* One lock on several resources. */
#include <stdio.h>

#include "contender.h"
#include "redlock_common.h"
#include "several.h"

const redlock_acquire_options *redlock_bench_how(struct slot *slot)
{
    static redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    static char names[SEVERAL - 1][SEVERAL_NAME_SIZE];
    static redlock_name also[SEVERAL - 1];
    for (unsigned i = 0; i < SEVERAL - 1; i++) {
        also[i].bytes = names[i];
        also[i].size = several_name(names[i], i + 1, slot);
    }
    options.also = also; /* copied by the acquire */
    options.also_count = SEVERAL - 1;
    return &options;
}
