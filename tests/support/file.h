/* Whole files, and the descriptors this process has open. */
#ifndef TESTS_SUPPORT_FILE_H
#define TESTS_SUPPORT_FILE_H

#include "bytes.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends the whole file and, not counted in the length, a NUL. False and errno when it cannot be read. */
bool file_read(const char *path, struct bytes *content);

/* Replaces the file; ends the test when it cannot. */
void file_write(const char *path, const void *data, size_t length);

/* How many descriptors are open in this process. */
size_t file_open_descriptors(void);

#endif
