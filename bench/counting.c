#include "counting.h"

#include <malloc.h>
#include <stdlib.h>

struct counting counting;

/* malloc_usable_size() rather than a header in each block: that would change where the library's data lies in the
 * caches. */
static void *add(void *memory)
{
    size_t size = malloc_usable_size(memory);
    size_t bytes = atomic_fetch_add_explicit(&counting.bytes, size, memory_order_relaxed) + size;
    if (bytes > atomic_load_explicit(&counting.most, memory_order_relaxed))
        atomic_store_explicit(&counting.most, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&counting.allocations, 1, memory_order_relaxed);
    return memory;
}

static void subtract(size_t size)
{
    atomic_fetch_sub_explicit(&counting.bytes, size, memory_order_relaxed);
}

static void *allocate(size_t size, void *user)
{
    (void)user;
    return add(malloc(size));
}

static void *reallocate(void *memory, size_t size, void *user)
{
    size_t before = malloc_usable_size(memory);
    void *moved = realloc(memory, size);
    (void)user;
    if (!moved)
        return NULL;
    subtract(before);
    return add(moved);
}

static void release(void *memory, void *user)
{
    (void)user;
    subtract(malloc_usable_size(memory));
    free(memory);
}

redlock_allocator counting_allocator(void)
{
    return (redlock_allocator){allocate, reallocate, release, NULL};
}
