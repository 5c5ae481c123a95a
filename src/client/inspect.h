/* The inspect operation: finds out what the user may do on each node. Returns REDLOCK_OK if the callback will be called, exactly once. */
#ifndef RL_INSPECT_H
#define RL_INSPECT_H

#include "redlock/redlock.h"

int rl_inspect_start(redlock_client *client, const char *resource, size_t size, redlock_callback callback, void *arg);

#endif
