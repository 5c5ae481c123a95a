/* Replaces src/core/wall.c: a wall clock that is half a second ahead. */
#include <time.h>

#include "src/core/wall.h"

uint64_t rl_wall_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000 + 500000;
}
