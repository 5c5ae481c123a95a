/* The release operations: of a handle, or of a lock by its token. Return REDLOCK_OK if they will call the callback. */
#ifndef RL_RELEASE_H
#define RL_RELEASE_H

#include "redlock/redlock.h"

int rl_release_start(redlock_lock *lock, redlock_callback callback, void *arg);
/* Ends the handle during a close, which releases the lock or leaves it to expire. */
void rl_release_in_close(redlock_lock *lock);
int rl_release_token_start(redlock_client *client, const char *resource, size_t size, const char *token,
                           redlock_callback callback, void *arg);

#endif
