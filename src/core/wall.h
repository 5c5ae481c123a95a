/* The wall clock: for tickets of waiters and fencing tokens, which must compare between machines. Nothing is timed by it. */
#ifndef RL_WALL_H
#define RL_WALL_H

#include <stdint.h>

/* Microseconds since 1970. */
uint64_t rl_wall_us(void);

#endif
