#include "bytes.h"

#include "fixture.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bytes_room(struct bytes *bytes, size_t size)
{
    if (bytes->capacity - bytes->length < size) {
        bytes->capacity = 2 * bytes->capacity + size;
        bytes->data = fixture_reallocate(bytes->data, bytes->capacity);
    }
    return bytes->data + bytes->length;
}

void bytes_append(struct bytes *bytes, const void *data, size_t length)
{
    if (length == 0)
        return;
    memcpy(bytes_room(bytes, length), data, length);
    bytes->length += length;
}

void bytes_print(struct bytes *bytes, const char *format, ...)
{
    va_list arguments;
    int length = 63;
    size_t room;
    do {
        room = (size_t)length + 1;
        va_start(arguments, format);
        length = vsnprintf(bytes_room(bytes, room), room, format, arguments);
        va_end(arguments);
        assert(length >= 0);
    } while ((size_t)length >= room);
    bytes->length += (size_t)length;
}

void bytes_consume(struct bytes *bytes, size_t length)
{
    assert(length <= bytes->length);
    bytes->length -= length;
    if (bytes->length > 0)
        memmove(bytes->data, bytes->data + length, bytes->length);
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}
