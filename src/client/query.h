/* The query operation: who holds a lock. Returns REDLOCK_OK if the callback will be called, exactly once. */
#ifndef RL_QUERY_H
#define RL_QUERY_H

#include "redlock/redlock.h"

int rl_query_start(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                   void *arg);

#endif
