/* Readable output on standard output, coloured on a terminal that supports it. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>

enum cli_colour { CLI_PLAIN, CLI_GOOD, CLI_DOUBTFUL, CLI_BAD, CLI_BRIGHT };

/* Prints the text, coloured if standard output is a terminal and NO_COLOR is not set, padded to `width` columns. */
void cli_print(enum cli_colour colour, int width, const char *text);

/* Clears the screen, on a terminal. */
void cli_screen_clear(void);

/* Flushes the output. False: standard output is closed. */
bool cli_screen_show(void);

#endif
