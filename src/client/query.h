/* The query operation: finds a lock's holder. Returns REDLOCK_OK if it will call the callback. */
#ifndef RL_QUERY_H
#define RL_QUERY_H

#include "redlock/redlock.h"

int rl_query_start(redlock_client *client, const char *resource, size_t size, redlock_query_callback callback,
                   void *arg);

#endif
