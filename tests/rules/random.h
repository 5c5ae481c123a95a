/* Random numbers that are the same in every run (splitmix64). */
#ifndef TESTS_RULES_RANDOM_H
#define TESTS_RULES_RANDOM_H

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

#endif
