/* The resource that the lock protects. It stores the largest fencing token it has seen and rejects smaller ones. The
 * check and the write are one atomic step. */
#ifndef STORE_H
#define STORE_H

#include <stdint.h>

enum store_outcome { STORE_WRITTEN, STORE_REFUSED, STORE_FAILED /* with a message */ };

/* seen: the largest token so far, if the write is refused. */
enum store_outcome store_write(const char *store, const char *value, uint64_t fence, uint64_t *seen);

enum store_outcome store_write_sqlite(const char *file, const char *value, uint64_t fence, uint64_t *seen);
enum store_outcome store_write_redis(const char *port, const char *value, uint64_t fence, uint64_t *seen);

#endif
