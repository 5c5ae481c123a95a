/* The extension of a lease, for the operation and for a re-entry. */
#ifndef RL_EXTEND_H
#define RL_EXTEND_H

#include <stdint.h>

struct rl_lease;
struct rl_round;

/* Creates a round that extends the lease; the caller starts it. NULL: no memory. */
struct rl_round *rl_extend_round(struct rl_lease *lease, uint32_t ttl_ms);

#endif
