/* The wall clock, for waiters' tickets and fencing tokens, which must be comparable between machines. No duration is
 * measured with it. */
#ifndef RL_WALL_H
#define RL_WALL_H

#include <stdint.h>

/* Microseconds since 1970. */
uint64_t rl_wall_us(void);

#endif
