/* What the lock protects. It remembers the largest fencing token it has seen, and refuses less: looking and writing are
 * one step. */
#ifndef STORE_H
#define STORE_H

#include <stdint.h>

enum store_outcome { STORE_WRITTEN, STORE_REFUSED, STORE_FAILED /* and said why */ };

/* seen: the largest token so far, when it is refused. */
enum store_outcome store_write(const char *store, const char *value, uint64_t fence, uint64_t *seen);

enum store_outcome store_write_sqlite(const char *file, const char *value, uint64_t fence, uint64_t *seen);
enum store_outcome store_write_redis(const char *port, const char *value, uint64_t fence, uint64_t *seen);

#endif
