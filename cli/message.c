#include "message.h"

#include "times.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 2048, DEFAULT_COLUMNS = 80 };

const char *cli_message_command;
bool cli_is_verbose, cli_is_quiet;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for the terminal's line */
static bool live_shown;

/* Copies text so that no byte of it can command a terminal; returns the length. What redlock_escape() has written into it
 * is not escaped again: each backslash is copied alone. */
static size_t show_bytes(const char *text, char *shown, size_t size)
{
    size_t length = 0;
    bool fits = true;

    for (shown[0] = '\0'; *text != '\0' && fits;) {
        size_t part = *text == '\\' ? 1 : strcspn(text, "\\");
        fits = redlock_escape(text, part, shown + length, size - length) <= size - length;
        length += strlen(shown + length);
        text += part;
    }
    return length;
}

const char *cli_quote(const char *text, char buffer[CLI_QUOTED_SIZE])
{
    char shown[CLI_QUOTED_SIZE - 8];
    bool cut = redlock_escape(text, 0, shown, sizeof(shown)) > sizeof(shown);

    snprintf(buffer, CLI_QUOTED_SIZE, "'%s%s'", shown, cut ? "..." : "");
    return buffer;
}

/* One write(), so that lines of several processes do not mix. */
static void write_line(const char *line, size_t length)
{
    pthread_mutex_lock(&mutex);
    if (live_shown)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
    live_shown = false;
    (void)!write(STDERR_FILENO, line, length);
    pthread_mutex_unlock(&mutex);
}

void cli_say(const char *format, ...)
{
    char text[LINE_SIZE];
    char line[LINE_SIZE + 64];
    va_list arguments;
    int start = snprintf(line, 48, "redlock%s%s: ", cli_message_command != NULL ? " " : "",
                         cli_message_command != NULL ? cli_message_command : "");

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t length = (size_t)start + show_bytes(text, line + start, sizeof(line) - 1 - (size_t)start);
    line[length++] = '\n';
    write_line(line, length);
}

void cli_say_no_descriptor(void)
{
    cli_say("cannot create a descriptor: %s%s", strerror(errno),
            errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

static void explain_node(const redlock_node_result *node)
{
    char latency[32] = "";

    if (node->latency_us > 0)
        snprintf(latency, sizeof(latency), " after %.1f ms", node->latency_us / 1000.0);
    cli_explain("  %s: %s%s%s%s", node->name, redlock_outcome_name(node->outcome), latency,
                *node->text != '\0' ? ": " : "", node->text);
}

void cli_explain_result(const char *step, const redlock_result *result)
{
    redlock_result copy;

    if (!cli_is_verbose)
        return;
    copy = *result; /* redlock_result_text() may write its text */
    cli_explain("%s: %s", step, redlock_result_text(&copy));
    for (uint32_t i = 0; i < copy.nodes; i++)
        explain_node(&copy.node[i]);
}

const char *cli_holder_text(const redlock_holder *holder, char buffer[CLI_HOLDER_SIZE])
{
    char clock[32] = "";
    struct tm local;
    time_t since = (time_t)holder->since_s;
    time_t now = time(NULL);

    *buffer = '\0';
    if (*holder->label == '\0')
        return buffer;
    if (localtime_r(&since, &local) != NULL)
        strftime(clock, sizeof(clock), since <= now && now - since < 12 * 60 * 60 ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S",
                 &local);
    snprintf(buffer, CLI_HOLDER_SIZE, " by %s%s%s", holder->label, *clock != '\0' ? " since " : "", clock);
    return buffer;
}

const char *cli_left_text(int64_t remaining_ms, const char *unless, char buffer[CLI_LEFT_SIZE])
{
    char left[CLI_DURATION_SIZE];

    if (remaining_ms == REDLOCK_STATE_NO_EXPIRY)
        snprintf(buffer, CLI_LEFT_SIZE, ", without an expiry");
    else
        snprintf(buffer, CLI_LEFT_SIZE, ", for %s unless %s", cli_duration_text(remaining_ms, left), unless);
    return buffer;
}

bool cli_is_live(void)
{
    return !cli_is_quiet && isatty(STDERR_FILENO) == 1;
}

static size_t terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : DEFAULT_COLUMNS;
}

void cli_live(const char *format, ...)
{
    char text[LINE_SIZE];
    char line[LINE_SIZE + 8] = "\r\033[K";
    va_list arguments;

    if (!cli_is_live())
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t length = show_bytes(text, line + 4, sizeof(line) - 4);
    if (length >= terminal_columns())
        length = terminal_columns() - 1;                    /* a wrapped line could not be erased */
    while (length > 0 && (line[4 + length] & 0xc0) == 0x80) /* within a character */
        length--;
    pthread_mutex_lock(&mutex);
    if (length > 0 || live_shown)
        (void)!write(STDERR_FILENO, line, length + 4);
    live_shown = length > 0;
    pthread_mutex_unlock(&mutex);
}
