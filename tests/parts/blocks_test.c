/* Freed blocks are kept by size and reused, up to a bound, and all of them end with the client. */
#include "src/core/blocks.h"
#include "support/allocator.h"
#include "support/test.h"

#include <string.h>

enum { LARGEST = RL_BLOCK_GRAIN * RL_BLOCK_CLASSES };

static struct test_allocator *counting;
static redlock_allocator allocator;
static struct rl_blocks blocks;

static void setup(void)
{
    counting = test_allocator_new();
    allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, counting};
    memset(&blocks, 0, sizeof blocks);
}

static void teardown(void)
{
    rl_blocks_free(&blocks, &allocator);
    ck_assert_uint_eq(test_allocator_live(counting), 0);
    test_allocator_free(counting);
}

static void *take(size_t size)
{
    void *memory = rl_blocks_take(&blocks, &allocator, size);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0x11, size);
    return memory;
}

static void give(void *memory, size_t size)
{
    rl_blocks_give(&blocks, &allocator, memory, size);
}

static const struct {
    size_t given, taken;
    bool reused;
} pairs[] = {
    {1, 1, true},
    {1, RL_BLOCK_GRAIN, true},
    {RL_BLOCK_GRAIN, 1, true},
    {RL_BLOCK_GRAIN, RL_BLOCK_GRAIN + 1, false},
    {RL_BLOCK_GRAIN + 1, RL_BLOCK_GRAIN, false},
    {LARGEST, LARGEST, true},
    {LARGEST + 1, LARGEST + 1, false},
};

TEST_CASE(blocks, setup, teardown);

TEST_ROWS(blocks, a_block_is_reused_for_a_size_of_its_class, ROWS(pairs))
{
    give(take(pairs[_i].given), pairs[_i].given);
    give(take(pairs[_i].taken), pairs[_i].taken);
    ck_assert_uint_eq(test_allocator_allocations(counting), pairs[_i].reused ? 1 : 2);
}

TEST(blocks, blocks_in_use_at_the_same_time_are_different)
{
    void *first = take(100), *second = take(100);
    ck_assert_ptr_ne(first, second);
    give(first, 100);
    give(second, 100);
    ck_assert_ptr_eq(take(100), second);
    ck_assert_ptr_eq(take(100), first);
    give(first, 100);
    give(second, 100);
}

TEST(blocks, blocks_beyond_the_bound_are_freed)
{
    enum { COUNT = RL_BLOCKS_KEPT / LARGEST + 10 };
    static void *block[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        block[i] = take(LARGEST);
    for (unsigned i = 0; i < COUNT; i++)
        give(block[i], LARGEST);
    ck_assert_uint_le(blocks.kept, RL_BLOCKS_KEPT);
    ck_assert_uint_eq(test_allocator_live(counting), RL_BLOCKS_KEPT / LARGEST);
}

TEST(blocks, a_failed_allocation_returns_null)
{
    test_allocator_fail_at(counting, 1);
    ck_assert_ptr_null(rl_blocks_take(&blocks, &allocator, 100));
}

TEST_PROGRAM("blocks")
