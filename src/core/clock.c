#include "src/core/clock.h"

#include <assert.h>

quorum_time rl_now(void)
{
    struct timespec now;
    int failed = clock_gettime(RL_CLOCK, &now);
    assert(!failed);
    (void)failed;
    return (quorum_time)now.tv_sec * QUORUM_SECOND + (quorum_time)now.tv_nsec;
}
