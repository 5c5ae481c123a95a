/* The adopt operation: takes over a lock by its token. Returns REDLOCK_OK if it will call the callback. */
#ifndef RL_ADOPT_H
#define RL_ADOPT_H

#include "redlock/redlock.h"
#include "src/client/operation.h"

/* The owner of the caller counts if the options have none. */
int rl_adopt_start(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                   const char *token, struct rl_caller caller, redlock_acquire_callback callback, void *arg);

#endif
