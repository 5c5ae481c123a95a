/* Which nodes, and how: from the command line, the environment, the config file, in this order of precedence. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>

enum { CLI_SOURCE_SIZE = 256 };

/* Bounds of what can be set: a ttl, and a timeout of a node. */
enum { CLI_TTL_LEAST_MS = 10, CLI_TTL_MOST_MS = 24 * 60 * 60 * 1000, CLI_TIMEOUT_MOST_MS = 60 * 60 * 1000 };

struct cli_settings {
    const char *nodes;                  /* NULL: nobody named any */
    char nodes_source[CLI_SOURCE_SIZE]; /* who named them: "--nodes", "REDLOCK_NODES", "/etc/redlock.conf" */
    char config_path[CLI_SOURCE_SIZE];  /* the config file that was read; "": none */
    redlock_options options;            /* strings live until the process ends */
};

/* The global options, as the command line says them; strings are argv's own. */
struct cli_overrides {
    const char *nodes;
    const char *config;
    const char *user;
    const char *timeout;
};
extern struct cli_overrides cli_overrides;

/* Reads them, once; the same afterwards. NULL when something is wrong with them: it has been said, exit with
 * CLI_MISCONFIGURED, or with CLI_USAGE if the command line was to blame: *exit_status. */
const struct cli_settings *cli_settings_get(int *exit_status);

/* Has a node of this list a password in its address? */
bool cli_nodes_hold_password(const char *nodes);

/* Can a lock have this ttl in the deployment? False when it said why not: exit with CLI_USAGE. */
bool cli_ttl_fits(const struct cli_settings *settings, int64_t ttl_ms);
/* Can a lock with this ttl have this cap? */
bool cli_cap_fits(int64_t cap_ms, int64_t ttl_ms);

#endif
