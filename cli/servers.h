/* Throw-away server processes on free ports of 127.0.0.1. */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H

struct cli_servers;

/* Starts them and waits until all are ready and trusted. `program` NULL: the one that REDLOCK_SERVER_PROGRAM names, or
 * redis-server, or valkey-server where only that is installed. Nothing of them is on disk, and they die with the calling
 * thread. CLI_OK, or the exit status; the reason has been said. */
int cli_servers_start(unsigned count, const char *program, struct cli_servers **servers);

/* "127.0.0.1:4711,127.0.0.1:4712"; lives until they end. */
const char *cli_servers_nodes(const struct cli_servers *servers);

/* Ends them, and frees. */
void cli_servers_end(struct cli_servers *servers);

#endif
