/* The ready operation: waits for a majority of usable nodes. Returns REDLOCK_OK if it will call the callback. */
#ifndef RL_READY_H
#define RL_READY_H

#include "redlock/redlock.h"

int rl_ready_start(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg);

#endif
