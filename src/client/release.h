/* The release operations: of a handle, or of a lock by its token. Return REDLOCK_OK if they will call the callback. */
#ifndef RL_RELEASE_H
#define RL_RELEASE_H

#include "redlock/redlock.h"

int rl_release_start(redlock_lock *lock, redlock_callback callback, void *arg);
/* Frees the handle of a lost lock without an operation. A close, which releases the locks or leaves them to expire, is
 * such a loss. */
void rl_release_lost(redlock_lock *lock);
/* Says which of the two the close does. */
const char *rl_release_close_text(const redlock_client *client);
int rl_release_token_start(redlock_client *client, const char *resource, size_t size, const char *token,
                           redlock_callback callback, void *arg);

#endif
