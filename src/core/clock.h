/* The library's only clock for durations: monotonic, and it counts suspend, as the nodes' ttls do. Each decision
 * reads it anew. */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include <time.h>

#include "quorum/time.h"

/* The clock of rl_now() and of the timerfd. Linux has CLOCK_BOOTTIME; CLOCK_MONOTONIC stops during suspend. */
#ifdef CLOCK_BOOTTIME
#define RL_CLOCK CLOCK_BOOTTIME
#else
#define RL_CLOCK CLOCK_MONOTONIC
#endif

quorum_time rl_now(void);

#endif
