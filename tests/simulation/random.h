/* Random numbers that are determined by a seed: splitmix64. Each purpose has its own stream, so that one can be
 * turned off without changing the others. */
#ifndef SIMULATION_RANDOM_H
#define SIMULATION_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

static inline uint64_t sim_random_next(struct sim_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A stream that depends on the seed and on its purpose. */
static inline struct sim_random sim_random_stream(uint64_t seed, uint64_t purpose)
{
    struct sim_random random = {seed};
    random.state = sim_random_next(&random) ^ purpose * UINT64_C(0xd6e8feb86659fd93);
    sim_random_next(&random);
    return random;
}

/* Returns 0 to bound - 1; with bound 0 it returns 0. */
static inline uint64_t sim_random_below(struct sim_random *random, uint64_t bound)
{
    return bound ? sim_random_next(random) % bound : 0;
}

static inline uint64_t sim_random_between(struct sim_random *random, uint64_t least, uint64_t most)
{
    return least + sim_random_below(random, most - least + 1);
}

/* True with a probability of per_mille / 1000. */
static inline bool sim_random_chance(struct sim_random *random, unsigned per_mille)
{
    return sim_random_below(random, 1000) < per_mille;
}

/* Each power of two between the limits gets the same share, so small values are likely too. */
static inline uint64_t sim_random_log(struct sim_random *random, uint64_t least, uint64_t most)
{
    unsigned doublings = 0;
    while (doublings < 62 && least << (doublings + 1) <= most && (least << (doublings + 1)) >> (doublings + 1) == least)
        doublings++;
    uint64_t low = least << sim_random_below(random, doublings + 1);
    uint64_t high = low > most / 2 ? most : 2 * low;
    return sim_random_between(random, low, high);
}

#endif
