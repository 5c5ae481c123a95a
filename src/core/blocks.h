/*
 * Freed blocks of a client, kept by size for reuse: in the steady state its operations, leases and rounds cost no call
 * of the allocator, and their memory is in the cache already. Only the loop's thread uses them.
 */
#ifndef RL_BLOCKS_H
#define RL_BLOCKS_H

#include <stddef.h>

#include "redlock/redlock.h"

#define RL_BLOCK_GRAIN   32
#define RL_BLOCK_CLASSES 48
#define RL_BLOCKS_KEPT   (4u << 20) /* bytes; beyond them, and above the largest class, blocks are freed */

struct rl_block;

struct rl_blocks {
    struct rl_block *spare[RL_BLOCK_CLASSES]; /* by size */
    size_t kept;                              /* bytes */
};

/* Uninitialised memory, or NULL. */
void *rl_blocks_take(struct rl_blocks *blocks, const redlock_allocator *allocator, size_t size);

/* Ends a block. size: as it was taken. */
void rl_blocks_give(struct rl_blocks *blocks, const redlock_allocator *allocator, void *memory, size_t size);

void rl_blocks_free(struct rl_blocks *blocks, const redlock_allocator *allocator);

#endif
