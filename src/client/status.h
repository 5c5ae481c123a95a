/* The state of one node, for redlock_node_status_get(). Call it on the loop's thread. */
#ifndef RL_STATUS_H
#define RL_STATUS_H

#include "redlock/redlock.h"

struct rl_node;

void rl_status_fill(struct rl_node *node, redlock_node_status *status);

#endif
