/* The config file: INI, keys in [redlock] or before any section. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "settings.h"

/* Fills what the file says into the settings. False when it cannot be read or understood: it has been said, with the
 * line. */
bool cli_config_read(const char *path, struct cli_settings *settings);

/* Copies a text for the life of the process; ends it with CLI_SYSTEM when there is no memory. */
char *cli_keep(const char *text);

/* Reads a password from a file: its first line. NULL when it cannot be read; said. Lives until the process ends. */
char *cli_password_read(const char *path);

#endif
