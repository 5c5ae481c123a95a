#include "src/core/random.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "src/core/memory.h"

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
