/* A separate file, so that a test can replace the clock at link time. */
#include "src/core/wall.h"

#include <time.h>

uint64_t rl_wall_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000;
}
