/* The blocking API: passes calls to the thread that runs the loop. */
#ifndef RL_BLOCKING_H
#define RL_BLOCKING_H

#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"

int rl_blocking_statistics(redlock_client *client, redlock_statistics *statistics);
size_t rl_blocking_metrics(redlock_client *client, char *text, size_t size);
int rl_blocking_node_status(redlock_client *client, uint32_t node, redlock_node_status *status);
int rl_blocking_held_by_me(redlock_client *client, const char *resource, size_t size);
uint32_t rl_blocking_hold_count(const redlock_lock *lock);
int rl_blocking_renewal_result(const redlock_lock *lock, redlock_result *result);
int rl_blocking_lost_descriptor(const redlock_lock *lock);

/* Releases the handle without an operation's memory. Waits for the loop's thread, not for a node. */
void rl_blocking_release_detached(redlock_lock *lock);

#endif
