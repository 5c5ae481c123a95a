/*
 * Calls by descriptor: the asynchronous functions of a client that owns its loop's thread.
 *
 * In: an asynchronous function posts a call, one block of memory with copies of the arguments. Out: redlock_dispatch()
 * runs the user's callback. What must never happen: a completion that fails, so everything it needs is allocated by the
 * starting call (except for texts, which only a failure has); and the loop's thread waiting for one that dispatches.
 */
#ifndef RL_POSTED_H
#define RL_POSTED_H

#include "src/client/operation.h"

/* Not OK: nothing was done, and the callback will not be called. */
int rl_posted_start(const struct rl_operation_type *type, const struct rl_arguments *arguments,
                    struct rl_callback callback);

#endif
