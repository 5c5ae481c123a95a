#include "src/core/memory.h"

#include <stdlib.h>
#include <string.h>

static void *libc_allocate(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void *libc_reallocate(void *memory, size_t size, void *user)
{
    (void)user;
    return realloc(memory, size);
}

static void libc_release(void *memory, void *user)
{
    (void)user;
    free(memory);
}

bool rl_text_is(struct rl_text text, const char *characters)
{
    return text.size == strlen(characters) && memcmp(text.bytes, characters, text.size) == 0;
}

redlock_allocator rl_memory_allocator(const redlock_allocator *given)
{
    static const redlock_allocator libc = {libc_allocate, libc_reallocate, libc_release, NULL};
    return given->allocate ? *given : libc;
}

void *rl_allocate(const redlock_allocator *allocator, size_t size)
{
    void *memory = allocator->allocate(size, allocator->user);
    return memory ? memset(memory, 0, size) : NULL;
}

void rl_free(const redlock_allocator *allocator, void *memory)
{
    if (memory)
        allocator->release(memory, allocator->user);
}

char *rl_copy(const redlock_allocator *allocator, const char *bytes, size_t size)
{
    char *copy = rl_allocate(allocator, size + 1);
    if (copy && size)
        memcpy(copy, bytes, size);
    return copy;
}

uint64_t rl_hash(uint64_t before, const char *bytes, size_t size)
{
    uint64_t hash = before;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

void rl_wipe(void *memory, size_t size)
{
    explicit_bzero(memory, size);
}
