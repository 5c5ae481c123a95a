/* The inspect operation: finds the user's missing rights on each node. Returns REDLOCK_OK if it will call the
 * callback. */
#ifndef RL_INSPECT_H
#define RL_INSPECT_H

#include "redlock/redlock.h"

int rl_inspect_start(redlock_client *client, const char *resource, size_t size, redlock_callback callback, void *arg);

#endif
