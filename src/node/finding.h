/* The table of findings about a node: a new finding is one line there, beside its bit in the public header. */
#ifndef RL_FINDING_H
#define RL_FINDING_H

#include <stdint.h>

/* The most important one of these bits of enum redlock_finding, or 0. */
uint32_t rl_finding_first(uint32_t findings);

#endif
