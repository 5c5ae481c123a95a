/*
 * src/core is the lowest floor: clock, timers, memory, random numbers, threads, wake-ups, and the text of results and
 * tokens. It knows no nodes and no locks. Its files do not call each other in cycles.
 *
 * struct rl_core is the state that all floors of one client share. The client owns it; each floor above keeps a
 * pointer. Only the loop's thread uses it.
 */
#ifndef RL_CORE_H
#define RL_CORE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"
#include "src/core/process.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"

/* Bytes of another owner, without a NUL. */
struct rl_text {
    const char *bytes;
    size_t size;
};

bool rl_text_equals(struct rl_text text, struct rl_text other);

/* It has exactly these characters. */
bool rl_text_is(struct rl_text text, const char *characters);

/* The user's allocator if it is set, otherwise malloc(3)'s. */
redlock_allocator rl_memory_allocator(const redlock_allocator *given);

/* Zeroed memory, or NULL. */
void *rl_allocate(const redlock_allocator *allocator, size_t size);

void rl_free(const redlock_allocator *allocator, void *memory); /* may be NULL */

/* A copy of size bytes, followed by a NUL; or NULL. */
char *rl_copy(const redlock_allocator *allocator, const char *bytes, size_t size);

/* FNV-1a: a hash of these bytes behind those of `before`. Not for bytes that an attacker chooses. */
#define RL_HASH_OF_NOTHING UINT64_C(14695981039346656037)
uint64_t rl_hash(uint64_t before, const char *bytes, size_t size);

/* Overwrites a secret. The compiler does not optimize this away. */
void rl_wipe(void *memory, size_t size);

/* Random bits from getrandom(2), read in blocks, so that a token costs a fraction of a system call. */
#define RL_RANDOM_TOKEN_SIZE 41 /* digits and a NUL */

struct rl_random {
    unsigned char block[512];
    size_t left; /* unused bytes, at the end of the block */
};

/* Never blocks. false: the system has no random bits yet (early boot). */
bool rl_random_bytes(struct rl_random *random, void *bytes, size_t size);

/* For jitter only: returns 0, which means no jitter, if the system has no random bits. */
uint64_t rl_random_u64(struct rl_random *random);

/* A new token: 160 random bits in hexadecimal. false: as above. */
bool rl_random_token(struct rl_random *random, char token[RL_RANDOM_TOKEN_SIZE]);

struct rl_core {
    redlock_allocator allocator;
    redlock_options options; /* the client owns the strings */
    struct ev_loop *loop;
    struct rl_timers timers;
    struct rl_random random;
    struct rl_wakeup *wakeup; /* wakes the loop from other threads */
    redlock_statistics statistics;
    bool closing;
    bool forked; /* a forked child frees the client: it sends nothing, logs nothing and calls no callback */
    rl_process *owner;
};

/* Uninitialised memory, or NULL. */
static inline void *rl_core_allocate(struct rl_core *core, size_t size)
{
    return core->allocator.allocate(size, core->allocator.user);
}

/* memory may be NULL. */
static inline void rl_core_free(struct rl_core *core, void *memory)
{
    rl_free(&core->allocator, memory);
}

/* True if the log callback receives lines of this level: worth formatting them. */
bool rl_logs(const struct rl_core *core, int level);
void rl_log(const struct rl_core *core, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
