#define _GNU_SOURCE
#include "allocator.h"

#include "fixture.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Precedes each block. Its size keeps the block aligned for any type. */
struct header {
    _Alignas(max_align_t) struct test_allocator *allocator;
    size_t size;
    size_t number; /* of the allocation */
};

struct test_allocator {
    pthread_mutex_t lock;
    size_t live_count;
    size_t live_bytes;
    size_t allocations;
    size_t failures;
    size_t fail_first; /* ordinals of the allocations that fail; 0: none */
    size_t fail_last;
};

static void free_object(void *allocator)
{
    test_allocator_free(allocator);
}

struct test_allocator *test_allocator_new(void)
{
    struct test_allocator *allocator = fixture_allocate(sizeof *allocator);
    pthread_mutex_init(&allocator->lock, NULL);
    fixture_register(allocator, free_object);
    return allocator;
}

static struct header *header_of(void *block, const struct test_allocator *allocator)
{
    struct header *header = (struct header *)block - 1;
    if (header->allocator != allocator)
        fixture_fail("block %p is freed or reallocated, but is not live in this allocator", block);
    return header;
}

static bool must_fail(struct test_allocator *allocator)
{
    size_t number = ++allocator->allocations;
    bool fails = allocator->fail_first > 0 && number >= allocator->fail_first && number <= allocator->fail_last;
    allocator->failures += fails;
    return fails;
}

static void *allocate(struct test_allocator *allocator, size_t size)
{
    struct header *header = size < SIZE_MAX - sizeof *header ? malloc(sizeof *header + size) : NULL;
    if (!header)
        fixture_fail("out of memory for %zu bytes", size);
    *header = (struct header){.allocator = allocator, .size = size, .number = allocator->allocations};
    allocator->live_count++;
    allocator->live_bytes += size;
    return memset(header + 1, 0xA5, size);
}

static void release(struct test_allocator *allocator, struct header *header)
{
    header->allocator = NULL;
    allocator->live_count--;
    allocator->live_bytes -= header->size;
    memset(header + 1, 0x5A, header->size);
    free(header);
}

/* Always moves the block, so that the sanitizers find pointers that still refer to the old place. */
void *test_reallocate(void *old, size_t size, void *user)
{
    struct test_allocator *allocator = user;
    pthread_mutex_lock(&allocator->lock);
    void *block = must_fail(allocator) ? NULL : allocate(allocator, size);
    if (old && block) {
        struct header *header = header_of(old, allocator);
        memcpy(block, old, header->size < size ? header->size : size);
        release(allocator, header);
    }
    pthread_mutex_unlock(&allocator->lock);
    return block;
}

void *test_allocate(size_t size, void *user)
{
    return test_reallocate(NULL, size, user);
}

void test_release(void *block, void *user)
{
    struct test_allocator *allocator = user;
    if (!block)
        return;
    pthread_mutex_lock(&allocator->lock);
    struct header *header = header_of(block, allocator);
    if (memmem(block, header->size, TEST_SECRET, strlen(TEST_SECRET)))
        fixture_fail("a password is left in the freed block of allocation %zu, %zu bytes", header->number,
                     header->size);
    release(allocator, header);
    pthread_mutex_unlock(&allocator->lock);
}

void test_allocator_free(struct test_allocator *allocator)
{
    fixture_unregister(allocator);
    pthread_mutex_destroy(&allocator->lock);
    free(allocator);
}

static void fail_between(struct test_allocator *allocator, size_t k, bool onwards)
{
    pthread_mutex_lock(&allocator->lock);
    allocator->fail_first = k > 0 ? allocator->allocations + k : 0;
    allocator->fail_last = onwards ? SIZE_MAX : allocator->fail_first;
    pthread_mutex_unlock(&allocator->lock);
}

void test_allocator_fail_at(struct test_allocator *allocator, size_t k)
{
    fail_between(allocator, k, false);
}

void test_allocator_fail_from(struct test_allocator *allocator, size_t k)
{
    fail_between(allocator, k, true);
}

static size_t locked(struct test_allocator *allocator, const size_t *figure)
{
    pthread_mutex_lock(&allocator->lock);
    size_t value = *figure;
    pthread_mutex_unlock(&allocator->lock);
    return value;
}

size_t test_allocator_failures(struct test_allocator *allocator)
{
    return locked(allocator, &allocator->failures);
}

size_t test_allocator_live(struct test_allocator *allocator)
{
    return locked(allocator, &allocator->live_count);
}

size_t test_allocator_live_bytes(struct test_allocator *allocator)
{
    return locked(allocator, &allocator->live_bytes);
}
