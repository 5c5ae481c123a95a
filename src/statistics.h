/* What a client counts. */
#ifndef RL_STATISTICS_H
#define RL_STATISTICS_H

#include <stdint.h>

struct rl_statistics {
    uint64_t renewed;
    uint64_t renewals_failed;
    uint64_t healed;
    uint64_t reentered;
    uint64_t quarantines;
    uint64_t node_clock_jumps;
};

#endif
