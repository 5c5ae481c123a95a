/* What a client counts. */
#ifndef RL_STATISTICS_H
#define RL_STATISTICS_H

#include "redlock/redlock.h"

/* On the loop's thread. */
void rl_statistics_fill(redlock_client *client, redlock_statistics *statistics);
size_t rl_metrics_write(redlock_client *client, char *text, size_t size);

#endif
