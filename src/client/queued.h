/* The asynchronous functions of a client that owns its loop's thread: the call is queued to that thread, its completion
 * is queued back, and redlock_dispatch() calls the user's callback. */
#ifndef RL_QUEUED_H
#define RL_QUEUED_H

#include "redlock/redlock.h"

int rl_queued_ready(redlock_client *client, int64_t wait_ms, redlock_callback callback, void *arg);
int rl_queued_acquire(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                      redlock_acquire_callback callback, void *arg);
int rl_queued_adopt(redlock_client *client, const char *resource, const redlock_acquire_options *options,
                    const char *token, redlock_acquire_callback callback, void *arg);
int rl_queued_release_token(redlock_client *client, const char *resource, size_t size, const char *token,
                            redlock_callback callback, void *arg);
int rl_queued_extend(redlock_lock *lock, uint32_t ttl_ms, redlock_callback callback, void *arg);
int rl_queued_release(redlock_lock *lock, redlock_callback callback, void *arg);
int rl_queued_trust(redlock_client *client, redlock_callback callback, void *arg);
int rl_queued_inspect(redlock_client *client, const char *resource, size_t size, redlock_callback callback, void *arg);
int rl_queued_query(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                    void *arg);

#endif
