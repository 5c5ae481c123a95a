/* The config file: INI, keys in [redlock] or before any section. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "settings.h"

/* Reads the file into the settings. False if it cannot be read or parsed, after a message with the line. */
bool cli_config_read(const char *path, struct cli_settings *settings);

/* Copies a text for the life of the process; exits with CLI_SYSTEM without memory. */
char *cli_keep(const char *text);

/* Reads a password, the first line of a file. NULL after a message. Lives until the process ends. */
char *cli_password_read(const char *path);

#endif
