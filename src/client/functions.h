/* Reads a client where it may be read. */
#ifndef RL_FUNCTIONS_H
#define RL_FUNCTIONS_H

#include "redlock/redlock.h"

/* Calls ask(data), which reads the client and returns a status or a number: at once, or on the loop's thread, for which it
 * waits; not for a node. REDLOCK_INVALID: the client is closed, or this is the wrong thread. */
int rl_client_ask(redlock_client *client, int (*ask)(void *data), void *data);

#endif
