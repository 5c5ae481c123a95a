/* Temporary server processes on free ports of 127.0.0.1. */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H

#include <stdbool.h>

struct cli_servers;

/* Starts them and waits until all are ready and trusted. sentinels: each node is a master with a replica behind three
 * Sentinels; otherwise one server. `program` NULL: the one in REDLOCK_SERVER_PROGRAM, or redis-server, or valkey-server if
 * only that is installed. They keep nothing on disk, and die with the calling thread. CLI_OK, or the exit status after a
 * message. */
int cli_servers_start(unsigned count, bool sentinels, const char *program, struct cli_servers **servers);

/* "127.0.0.1:4711,127.0.0.1:4712", or "sentinel://..."; lives until they end. */
const char *cli_servers_nodes(const struct cli_servers *servers);

/* Ends and frees them. */
void cli_servers_end(struct cli_servers *servers);

#endif
