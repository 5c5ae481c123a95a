#include "src/core/core.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/core/escape.h"

bool rl_logs(const struct rl_core *core, int level)
{
    return core->options.log && level <= (int)core->options.log_level && !core->forked;
}

void rl_log(const struct rl_core *core, int level, const char *format, ...)
{
    char line[256];
    if (!rl_logs(core, level))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* A node may send any bytes; control characters must not reach the terminal that shows the log. */
    rl_text_tame(line, strlen(line));
    core->options.log(level, line, core->options.log_arg);
}

static void *libc_allocate(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void libc_release(void *memory, void *user)
{
    (void)user;
    free(memory);
}

bool rl_text_equals(struct rl_text text, struct rl_text other)
{
    return text.size == other.size && memcmp(text.bytes, other.bytes, text.size) == 0;
}

bool rl_text_is(struct rl_text text, const char *characters)
{
    return rl_text_equals(text, (struct rl_text){characters, strlen(characters)});
}

redlock_allocator rl_memory_allocator(const redlock_allocator *given)
{
    static const redlock_allocator libc = {.allocate = libc_allocate,
                                           .release = libc_release}; /* nothing is reallocated */
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

static bool refill(struct rl_random *random)
{
    size_t filled = 0;
    /* A signal can interrupt a request for more than 256 bytes, or shorten its result. */
    while (filled < sizeof random->block) {
        ssize_t got = getrandom(random->block + filled, sizeof random->block - filled, GRND_NONBLOCK);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        filled += got > 0 ? (size_t)got : 0;
    }
    random->left = sizeof random->block;
    return true;
}

bool rl_random_bytes(struct rl_random *random, void *bytes, size_t size)
{
    assert(size <= sizeof random->block);
    if (random->left < size && !refill(random))
        return false;
    unsigned char *from = random->block + sizeof random->block - random->left;
    memcpy(bytes, from, size);
    rl_wipe(from, size); /* a stray read of this memory must not find a token */
    random->left -= size;
    assert(random->left <= sizeof random->block);
    return true;
}

uint64_t rl_random_u64(struct rl_random *random)
{
    uint64_t bits = 0;
    return rl_random_bytes(random, &bits, sizeof bits) ? bits : 0;
}

bool rl_random_token(struct rl_random *random, char token[RL_RANDOM_TOKEN_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bits[(RL_RANDOM_TOKEN_SIZE - 1) / 2];
    if (!rl_random_bytes(random, bits, sizeof bits))
        return false;
    for (size_t i = 0; i < sizeof bits; i++) {
        token[2 * i] = digits[bits[i] >> 4];
        token[2 * i + 1] = digits[bits[i] & 15];
    }
    token[RL_RANDOM_TOKEN_SIZE - 1] = '\0';
    return true;
}
