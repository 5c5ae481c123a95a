/* The resource that the leader writes: a file with one line per write, "TIME TOKEN CANDIDATE". It rejects a token that is
 * smaller than the last one, so a deposed leader cannot write. A service would keep the token in its database:
 * see ../fenced_store. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdint.h>

enum journal_outcome { JOURNAL_WRITTEN, JOURNAL_REFUSED, JOURNAL_FAILED /* after a message */ };

/* Appends a line. seen: the last token in the file, if the write is refused. */
enum journal_outcome journal_write(const char *path, uint64_t token, const char *candidate, uint64_t *seen);

#endif
