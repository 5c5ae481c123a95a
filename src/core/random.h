/* Random bits from getrandom(2), drawn in blocks so that a token costs a fraction of a system call. */
#ifndef RL_RANDOM_H
#define RL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

struct rl_random {
    unsigned char block[512];
    size_t left; /* bytes of the block, at its end, not handed out yet */
};

/* Fills bytes; false when the system has none (early boot). Never blocks. */
bool rl_random_bytes(struct rl_random *random, void *bytes, size_t size);

/* 64 random bits for jitter; 0 when there are none: jitter then is lost, nothing else. */
uint64_t rl_random_u64(struct rl_random *random);

/* A fresh token: 160 random bits as hexadecimal digits. */
bool rl_random_token(struct rl_random *random, char token[REDLOCK_TOKEN_SIZE]);

#endif
