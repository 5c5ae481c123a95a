/* The extend operation. Returns REDLOCK_OK if it will call the callback. */
#ifndef RL_EXTEND_H
#define RL_EXTEND_H

#include "redlock/redlock.h"

struct rl_lease;
struct rl_round;

int rl_extend_start(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg);

/* Creates a round that extends the lease; the caller starts it. NULL: no memory. */
struct rl_round *rl_extend_round(struct rl_lease *lease, uint32_t ttl_ms);

#endif
