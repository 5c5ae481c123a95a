#define _GNU_SOURCE
#include "fixture.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    struct entry *next;
    void *object;
    void (*destroy)(void *object);
    pid_t owner;
    uint64_t serial;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* newest first */
static uint64_t last_serial;
static uint64_t begun_at; /* last_serial when the running test began */
static bool exit_handler_set;

void fixture_fail(const char *format, ...)
{
    va_list arguments;
    fputs("fixture: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(stderr);
    abort();
}

void *fixture_reallocate(void *block, size_t size)
{
    block = realloc(block, size > 0 ? size : 1);
    if (!block)
        fixture_fail("out of memory for %zu bytes", size);
    return block;
}

void *fixture_allocate(size_t size)
{
    return memset(fixture_reallocate(NULL, size), 0, size);
}

char *fixture_text(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        fixture_fail("out of memory for a text");
    va_end(arguments);
    return text;
}

/* Removes the newest entry that this process created after `serial` from the list. */
static struct entry *take_newest(uint64_t serial)
{
    pthread_mutex_lock(&lock);
    struct entry **link = &entries;
    while (*link && (*link)->owner != getpid())
        link = &(*link)->next;
    struct entry *entry = *link;
    if (entry && entry->serial <= serial)
        entry = NULL;
    if (entry)
        *link = entry->next;
    pthread_mutex_unlock(&lock);
    return entry;
}

static void destroy_newer_than(uint64_t serial)
{
    struct entry *entry;
    while ((entry = take_newest(serial)) != NULL) {
        entry->destroy(entry->object);
        free(entry);
    }
}

static void destroy_all(void)
{
    destroy_newer_than(0);
}

void fixtures_begin(void)
{
    pthread_mutex_lock(&lock);
    begun_at = last_serial;
    pthread_mutex_unlock(&lock);
}

void fixtures_end(void)
{
    destroy_newer_than(begun_at);
}

void fixture_register(void *object, void (*destroy)(void *object))
{
    struct entry *entry = fixture_allocate(sizeof *entry);
    pthread_mutex_lock(&lock);
    *entry = (struct entry){
        .next = entries, .object = object, .destroy = destroy, .owner = getpid(), .serial = ++last_serial};
    entries = entry;
    if (!exit_handler_set)
        exit_handler_set = atexit(destroy_all) == 0;
    pthread_mutex_unlock(&lock);
}

void fixture_unregister(void *object)
{
    pthread_mutex_lock(&lock);
    struct entry **link = &entries;
    while (*link && (*link)->object != object)
        link = &(*link)->next;
    struct entry *entry = *link;
    if (entry)
        *link = entry->next;
    pthread_mutex_unlock(&lock);
    free(entry);
}

/* --- A growing byte array --- */

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
