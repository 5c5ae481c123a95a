/* Temporary server processes on free ports of 127.0.0.1. */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H

struct cli_servers;

/* Each node is one server, or a master with a replica behind three Sentinels, or a Redis Cluster of three masters. */
enum cli_servers_kind { CLI_SERVERS_PLAIN, CLI_SERVERS_SENTINEL, CLI_SERVERS_CLUSTER };

/* Starts them and waits until all are ready and trusted. `program` NULL: the one in REDLOCK_SERVER_PROGRAM, or
 * redis-server, or valkey-server if only that is installed. They die with the calling thread, and leave nothing on disk.
 * CLI_OK, or the exit status after a message. */
int cli_servers_start(unsigned count, enum cli_servers_kind kind, const char *program, struct cli_servers **servers);

/* "127.0.0.1:4711,127.0.0.1:4712", or "sentinel://..." or "cluster://..."; lives until they end. */
const char *cli_servers_nodes(const struct cli_servers *servers);

/* The config file that their clients need; "/dev/null": none. */
const char *cli_servers_config(const struct cli_servers *servers);

/* Ends and frees them. */
void cli_servers_end(struct cli_servers *servers);

#endif
