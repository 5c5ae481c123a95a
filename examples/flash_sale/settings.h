/*
 * settings.h - the command line
 */
#ifndef FLASH_SALE_SETTINGS_H
#define FLASH_SALE_SETTINGS_H

enum { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_UNTRIED = 2, EXIT_INCONCLUSIVE = 3 };

struct settings {
    const char *nodes;
    const char *kill; /* shell commands, or NULL */
    const char *stop;
    int items;
    int sellers;
    int think_ms;
};

/* Ends the process with a message if there is nothing to sell or an argument is invalid. */
void settings_take(struct settings *settings, int argc, char **argv);

#endif
