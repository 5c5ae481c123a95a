/* Random numbers that a seed determines (splitmix64). In the simulator each purpose has its own stream, so that one can be
 * turned off without changing the others. */
#ifndef TESTS_RULES_RANDOM_H
#define TESTS_RULES_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 to below - 1. */
static inline unsigned random_below(uint64_t *state, unsigned below)
{
    return (unsigned)(next_random(state) % below);
}

/* A stream that depends on the seed and on its purpose. */
static inline uint64_t random_stream(uint64_t seed, uint64_t purpose)
{
    uint64_t stream = next_random(&seed) ^ purpose * UINT64_C(0xd6e8feb86659fd93);
    next_random(&stream);
    return stream;
}

static inline uint64_t random_between(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + next_random(state) % (most - least + 1);
}

/* True with a probability of per_mille / 1000. */
static inline bool random_chance(uint64_t *state, unsigned per_mille)
{
    return random_below(state, 1000) < per_mille;
}

/* Each power of two between the limits gets the same share, so small values are likely too. */
static inline uint64_t random_log(uint64_t *state, uint64_t least, uint64_t most)
{
    unsigned doublings = 0;
    while (least << doublings <= most / 2)
        doublings++;
    uint64_t low = least << random_below(state, doublings + 1);
    return random_between(state, low, low > most / 2 ? most : 2 * low);
}

#endif
