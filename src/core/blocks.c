#include "src/core/blocks.h"

#include <assert.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, size)   ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#endif

struct rl_block {
    struct rl_block *next;
};

static size_t class_of(size_t size)
{
    assert(size > 0);
    return (size - 1) / RL_BLOCK_GRAIN;
}

static size_t size_of(size_t class)
{
    return (class + 1) * RL_BLOCK_GRAIN;
}

static struct rl_block *take_spare(struct rl_blocks *blocks, size_t class)
{
    struct rl_block *block = blocks->spare[class];
    if (!block)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(block, size_of(class));
    blocks->spare[class] = block->next;
    assert(blocks->kept >= size_of(class));
    blocks->kept -= size_of(class);
    return block;
}

void *rl_blocks_take(struct rl_blocks *blocks, const redlock_allocator *allocator, size_t size)
{
    size_t class = class_of(size);
    if (class >= RL_BLOCK_CLASSES)
        return allocator->allocate(size, allocator->user);
    struct rl_block *block = take_spare(blocks, class);
    return block ? block : allocator->allocate(size_of(class), allocator->user);
}

void rl_blocks_give(struct rl_blocks *blocks, const redlock_allocator *allocator, void *memory, size_t size)
{
    size_t class = class_of(size);
    if (class >= RL_BLOCK_CLASSES || blocks->kept + size_of(class) > RL_BLOCKS_KEPT) {
        allocator->release(memory, allocator->user);
        return;
    }
    struct rl_block *block = memory;
    block->next = blocks->spare[class];
    blocks->spare[class] = block;
    blocks->kept += size_of(class);
    ASAN_POISON_MEMORY_REGION(block, size_of(class));
}

void rl_blocks_free(struct rl_blocks *blocks, const redlock_allocator *allocator)
{
    for (size_t class = 0; class < RL_BLOCK_CLASSES; class ++)
        for (struct rl_block *block; (block = take_spare(blocks, class)) != NULL;)
            allocator->release(block, allocator->user);
    assert(blocks->kept == 0);
}
