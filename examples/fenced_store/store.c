#include "store.h"

#include <stdio.h>
#include <string.h>

enum store_outcome store_write(const char *store, const char *value, uint64_t fence, uint64_t *seen)
{
    if (strncmp(store, "sqlite:", 7) == 0)
        return store_write_sqlite(store + 7, value, fence, seen);
    if (strncmp(store, "redis:", 6) == 0)
        return store_write_redis(store + 6, value, fence, seen);
    fprintf(stderr, "%s: a store is sqlite:FILE or redis:PORT\n", store);
    return STORE_FAILED;
}
