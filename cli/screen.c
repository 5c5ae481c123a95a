#include "screen.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_terminal(void)
{
    static int known = -1;

    if (known < 0)
        known = isatty(STDOUT_FILENO) == 1;
    return known == 1;
}

static bool has_colours(void)
{
    const char *forbidden = getenv("NO_COLOR"); /* https://no-color.org */
    const char *terminal = getenv("TERM");

    return is_terminal() && (forbidden == NULL || *forbidden == '\0') && terminal != NULL && *terminal != '\0' &&
           !(terminal[0] == 'd' && terminal[1] == 'u'); /* "dumb" */
}

void cli_print(enum cli_colour colour, int width, const char *text)
{
    static const char *const codes[] = {"", "\033[32m", "\033[33m", "\033[31m", "\033[1m"};
    bool coloured = colour != CLI_PLAIN && has_colours();

    printf("%s%-*s%s", coloured ? codes[colour] : "", width, text, coloured ? "\033[m" : "");
}

int cli_wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static bool cuts_lines;

void cli_screen_clear(void)
{
    cuts_lines = is_terminal();
    if (cuts_lines)
        fputs("\033[?7l\033[H\033[2J", stdout);
}

unsigned cli_screen_rows(void)
{
    struct winsize size;

    return is_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : UINT_MAX;
}

bool cli_screen_show(void)
{
    if (cuts_lines)
        fputs("\033[?7h", stdout);
    cuts_lines = false;
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}
