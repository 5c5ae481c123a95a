/* Settings from the command line, the environment and the config file, in this order of precedence. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <redlock/redlock.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CLI_SOURCE_SIZE = 256 };

/* Bounds of a ttl, and of a node's timeout. */
enum { CLI_TTL_LEAST_MS = 10, CLI_TTL_MOST_MS = 24 * 60 * 60 * 1000, CLI_TIMEOUT_MOST_MS = 60 * 60 * 1000 };

struct cli_settings {
    const char *nodes;                  /* NULL: not set */
    char nodes_source[CLI_SOURCE_SIZE]; /* their source: "--nodes", "REDLOCK_NODES", "/etc/redlock.conf" */
    char config_path[CLI_SOURCE_SIZE];  /* the config file that was read; "": none */
    redlock_options options;            /* strings live until the process ends */
};

/* The global options of the command line; the strings belong to argv. */
struct cli_overrides {
    const char *nodes;
    const char *config;
    const char *user;
    const char *timeout;
    const char *label;
};
extern struct cli_overrides cli_overrides;

/* Sets the process and the command that the default label of the locks names; before cli_settings_load(). command may
 * be NULL. */
void cli_settings_label(pid_t process, const char *command);

/* Sets cli_settings at the first call. CLI_OK; or after a message CLI_MISCONFIGURED, or CLI_USAGE for an error on the
 * command line. */
int cli_settings_load(void);
extern struct cli_settings cli_settings;

/* Whether a node of this list has a password in its address. */
bool cli_nodes_hold_password(const char *nodes);

/* Whether the deployment allows this ttl. False after a message, which names the file that it is from; "": none. */
bool cli_ttl_fits(int64_t ttl_ms, const char *file);

#endif
