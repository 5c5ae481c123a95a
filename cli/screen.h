/* Readable output on standard output, coloured on a terminal that supports it. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>

enum cli_colour { CLI_PLAIN, CLI_GOOD, CLI_DOUBTFUL, CLI_BAD, CLI_BRIGHT };

/* Prints the text, coloured if standard output is a terminal and NO_COLOR is not set, padded to `width` columns. */
void cli_print(enum cli_colour colour, int width, const char *text);

/* The width of a column that has this text too. */
int cli_wider(int width, const char *text);

/* Clears the screen, on a terminal, and cuts the lines of what follows at its right edge. */
void cli_screen_clear(void);

/* The lines of the terminal; UINT_MAX: it is none, or they are not known. */
unsigned cli_screen_rows(void);

/* Ends what cli_screen_clear() began, and flushes the output. False: standard output is closed. */
bool cli_screen_show(void);

#endif
