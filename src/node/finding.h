/* The table of findings about a node: a new finding is one line there, beside its bit in the public header. */
#ifndef RL_FINDING_H
#define RL_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rl_finding {
    uint32_t bit; /* enum redlock_finding */
    const char *name;
    const char *text;
    const char *remedy;
};

/* All findings, the most important ones first. */
extern const struct rl_finding rl_findings[];
extern const size_t rl_finding_count;

#endif
