/* What is written for people on standard output: colours where there is a terminal that shows them. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>

enum cli_colour { CLI_PLAIN, CLI_GOOD, CLI_DOUBTFUL, CLI_BAD, CLI_BRIGHT };

/* The text in the colour, if standard output is a terminal and NO_COLOR is not set. width: at least so many columns,
 * filled with spaces. */
void cli_print(enum cli_colour colour, int width, const char *text);

/* Begins the screen anew, on a terminal. */
void cli_screen_clear(void);

/* So that what comes next is seen at once. False: nobody reads any more. */
bool cli_screen_show(void);

#endif
