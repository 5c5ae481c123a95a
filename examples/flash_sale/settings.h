/*
 * settings.h - what the command line says
 */
#ifndef FLASH_SALE_SETTINGS_H
#define FLASH_SALE_SETTINGS_H

enum { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_UNTRIED = 2, EXIT_INCONCLUSIVE = 3 };

struct settings {
    const char *nodes;
    const char *kill; /* commands for the shell, or NULL */
    const char *stop;
    int items;
    int sellers;
    int think_ms;
};

/* Ends the process, and says why, when there is nothing to sell or the arguments cannot be understood. */
void settings_take(struct settings *settings, int argc, char **argv);

#endif
