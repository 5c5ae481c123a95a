/* The trust operation: ends the quarantine of all nodes. Returns REDLOCK_OK if it will call the callback. */
#ifndef RL_TRUST_H
#define RL_TRUST_H

#include "redlock/redlock.h"

int rl_trust_start(redlock_client *client, redlock_callback callback, void *arg);

#endif
