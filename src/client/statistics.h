/* A client's counters. */
#ifndef RL_STATISTICS_H
#define RL_STATISTICS_H

#include "redlock/redlock.h"

/* Call them on the loop's thread. rl_metrics_write() returns the size of the complete text, without its NUL. */
void rl_statistics_fill(redlock_client *client, redlock_statistics *statistics);
size_t rl_metrics_write(redlock_client *client, char *text, size_t size);

#endif
