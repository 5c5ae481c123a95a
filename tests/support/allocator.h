/* An allocator that fails on request and knows which blocks were never freed. Every function takes the allocator as
 * its user pointer and may be called from any thread.
 *
 *   for (size_t k = 1; ; k++) {
 *       struct test_allocator *allocator = test_allocator_new();
 *       test_allocator_fail_at(allocator, k);
 *       …use the library with test_allocate, test_reallocate, test_release and allocator…
 *       bool done = test_allocator_failures(allocator) == 0;
 *       ck_assert_uint_eq(test_allocator_live(allocator), 0);
 *       test_allocator_free(allocator);
 *       if (done)
 *           break;
 *   }
 *
 * Freeing a block that has the tests' password ends the test. New memory is filled with 0xA5, freed memory with 0x5A. Freeing a block that was not allocated here ends the test. */
#ifndef TESTS_SUPPORT_ALLOCATOR_H
#define TESTS_SUPPORT_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#define TEST_SECRET "s3cret-word"

struct test_allocator;

/* Registers itself for fixtures_end(). */
struct test_allocator *test_allocator_new(void);
void test_allocator_free(struct test_allocator *allocator);

void *test_allocate(size_t size, void *allocator);
void *test_reallocate(void *block, size_t size, void *allocator);
void test_release(void *block, void *allocator);

/* From now on the k-th allocation fails (a reallocation counts as one), or it and all later ones; 0: none fails. */
void test_allocator_fail_at(struct test_allocator *allocator, size_t k);
void test_allocator_fail_from(struct test_allocator *allocator, size_t k);

/* Since the allocator was created. */
size_t test_allocator_failures(struct test_allocator *allocator);

size_t test_allocator_live(struct test_allocator *allocator); /* blocks not freed */
size_t test_allocator_live_bytes(struct test_allocator *allocator);

#endif
