/* The acquire operation: attempts, waiting, fencing tokens, permits, re-entry. Returns REDLOCK_OK if it will call the
 * callback. */
#ifndef RL_ACQUIRE_H
#define RL_ACQUIRE_H

#include "redlock/redlock.h"
#include "src/client/operation.h"

/* The owner of the caller counts if the options have none. */
int rl_acquire_start(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                     struct rl_caller caller, redlock_acquire_callback callback, void *arg);

#endif
