/* Random bits from getrandom(2), read in blocks, so that a token costs a fraction of a system call. */
#ifndef RL_RANDOM_H
#define RL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

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

#endif
