/* Complete files; the open descriptors and memory of this process. */
#ifndef TESTS_SUPPORT_FILE_H
#define TESTS_SUPPORT_FILE_H

#include "fixture.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends the complete file, and a NUL that the length does not include. Returns false if the file cannot be
 * read. */
bool file_read(const char *path, struct bytes *content);

/* Replaces the file. Ends the test if it cannot. */
void file_write(const char *path, const void *data, size_t length);

/* Number of open descriptors of this process. */
size_t file_open_descriptors(void);

/* Resident memory of this process. 0 with a sanitizer, which keeps freed memory in quarantine. */
size_t file_resident_bytes(void);

/* --- A private directory --- */

struct temp_dir;

/* Under TMPDIR, or /tmp. Registers itself for fixtures_end(). */
struct temp_dir *temp_dir_make(void);
const char *temp_dir_path(const struct temp_dir *dir);
/* NULL does nothing. */
void temp_dir_remove(struct temp_dir *dir);

#endif
