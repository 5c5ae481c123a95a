/* A growing byte array. A zeroed struct is an empty one. */
#ifndef TESTS_SUPPORT_BYTES_H
#define TESTS_SUPPORT_BYTES_H

#include <stddef.h>

struct bytes {
    char *data;
    size_t length;
    size_t capacity;
};

/* Makes room for `size` more bytes after the end. The caller adds the number of bytes used to `length`. */
char *bytes_room(struct bytes *bytes, size_t size);

void bytes_append(struct bytes *bytes, const void *data, size_t length);
void bytes_print(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `length` bytes. */
void bytes_consume(struct bytes *bytes, size_t length);

void bytes_free(struct bytes *bytes);

#endif
