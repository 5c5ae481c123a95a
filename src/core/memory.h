/* One client's memory, from the allocator in its options. */
#ifndef RL_MEMORY_H
#define RL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

/* Bytes of another owner, without a NUL. */
struct rl_text {
    const char *bytes;
    size_t size;
};

/* It has exactly these characters. */
bool rl_text_is(struct rl_text text, const char *characters);

/* The user's allocator if it is set, otherwise malloc(3)'s. */
redlock_allocator rl_memory_allocator(const redlock_allocator *given);

/* Zeroed memory, or NULL. */
void *rl_allocate(const redlock_allocator *allocator, size_t size);

void rl_free(const redlock_allocator *allocator, void *memory);

/* A copy of size bytes, followed by a NUL; or NULL. */
char *rl_copy(const redlock_allocator *allocator, const char *bytes, size_t size);

/* FNV-1a: a hash of these bytes behind those of `before`. Not for bytes that an attacker chooses. */
#define RL_HASH_OF_NOTHING UINT64_C(14695981039346656037)
uint64_t rl_hash(uint64_t before, const char *bytes, size_t size);

/* Overwrites a secret. The compiler does not optimize this away. */
void rl_wipe(void *memory, size_t size);

#endif
