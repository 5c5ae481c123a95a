#include "sha1.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t word, unsigned by)
{
    return word << by | word >> (32 - by);
}

static uint32_t mix(const uint32_t *h, unsigned round)
{
    if (round < 20)
        return ((h[1] & h[2]) | (~h[1] & h[3])) + 0x5a827999u;
    if (round < 40)
        return (h[1] ^ h[2] ^ h[3]) + 0x6ed9eba1u;
    if (round < 60)
        return ((h[1] & h[2]) | (h[1] & h[3]) | (h[2] & h[3])) + 0x8f1bbcdcu;
    return (h[1] ^ h[2] ^ h[3]) + 0xca62c1d6u;
}

static void add_block(uint32_t state[5], const uint8_t block[64])
{
    uint32_t w[80];
    uint32_t h[5];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(h, state, sizeof h);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = rotate(h[0], 5) + mix(h, i) + h[4] + w[i];
        h[4] = h[3];
        h[3] = h[2];
        h[2] = rotate(h[1], 30);
        h[1] = h[0];
        h[0] = next;
    }
    for (unsigned i = 0; i < 5; i++)
        state[i] += h[i];
}

void sha1_hex(const void *data, size_t length, char digest[41])
{
    uint32_t state[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
    uint8_t tail[128] = {0};
    size_t whole = length / 64 * 64;
    size_t rest = length - whole;
    size_t tail_length = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64)
        add_block(state, (const uint8_t *)data + at);
    if (rest > 0)
        memcpy(tail, (const uint8_t *)data + whole, rest);
    tail[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        tail[tail_length - 1 - i] = (uint8_t)((uint64_t)length * 8 >> 8 * i);
    for (size_t at = 0; at < tail_length; at += 64)
        add_block(state, tail + at);
    for (unsigned i = 0; i < 5; i++)
        snprintf(digest + (size_t)8 * i, 9, "%08x", state[i]);
}
