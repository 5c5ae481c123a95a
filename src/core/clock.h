/* The one clock: monotonic, and counting suspend, because the nodes' ttls do. Read afresh before each decision. */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include <time.h>

#include "quorum/time.h"

/* CLOCK_BOOTTIME where there is one, else CLOCK_MONOTONIC: for the clock and for timerfds alike. */
#ifdef CLOCK_BOOTTIME
#define RL_CLOCK CLOCK_BOOTTIME
#else
#define RL_CLOCK CLOCK_MONOTONIC
#endif

quorum_time rl_now(void);

#endif
