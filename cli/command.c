#include "command.h"

#include "message.h"
#include "times.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct cli_command *const cli_commands[] = {
    &cli_command_run,
    &cli_command_acquire,
    &cli_command_extend,
    &cli_command_release,
    &cli_command_status,
    &cli_command_list,
    &cli_command_doctor,
    &cli_command_bench,
    &cli_command_trust,
    &cli_command_local,
    NULL,
};
/* clang-format on */

/* --- Options --- */

bool cli_take_duration(const char *option, const char *value, int64_t *milliseconds)
{
    char quoted[CLI_QUOTED_SIZE];

    if (cli_duration_read(value, milliseconds))
        return true;
    cli_say("--%s %s is not a duration: " CLI_DURATION_FORM, option, cli_quote(value, quoted));
    return false;
}

static bool take_number(const char *option, const char *value, struct cli_number *number)
{
    char quoted[CLI_QUOTED_SIZE];
    char *end;

    errno = 0;
    number->value = strtol(value, &end, 10);
    if (errno == 0 && value[0] >= '0' && value[0] <= '9' && *end == '\0' && number->value >= number->least &&
        number->value <= number->most)
        return true;
    cli_say("--%s %s is not a number from %ld to %ld", option, cli_quote(value, quoted), number->least, number->most);
    return false;
}

bool cli_take_option(const struct cli_option *option, const char *value)
{
    if (option->duration_ms != NULL)
        return cli_take_duration(option->name, value, option->duration_ms);
    if (option->number != NULL)
        return take_number(option->name, value, option->number);
    if (option->take != NULL)
        return option->take(value);
    if (option->text != NULL)
        *option->text = value;
    else
        *option->flag = true;
    return true;
}

/* --- Words --- */

bool cli_resource_read(char *resource)
{
    size_t length = redlock_unescape(resource, resource, strlen(resource));
    bool has_nul = memchr(resource, '\0', length) != NULL;

    if (!has_nul)
        resource[length] = '\0';
    if (!has_nul && length >= 1 && length <= REDLOCK_RESOURCE_MAX)
        return true;
    if (has_nul)
        cli_say("the resource's name has a NUL byte, \\x00: only programs that use the library can lock it");
    else
        cli_say("the resource's name has %zu bytes; it must have 1 to %d", length, REDLOCK_RESOURCE_MAX);
    return false;
}

int cli_misused(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    cli_say("%s (see --help)", text);
    return CLI_USAGE;
}

/* --- Exit statuses --- */

int cli_exit_of(const redlock_result *result)
{
    int status = result->status == REDLOCK_TIMED_OUT ? result->cause : result->status;

    switch ((enum redlock_status)status) { /* the compiler names a status that is missing here */
    case REDLOCK_OK:
        return CLI_OK;
    case REDLOCK_HELD:
    case REDLOCK_CANCELLED:
        return CLI_NOT_OBTAINED;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_TOO_SLOW:
    case REDLOCK_TIMED_OUT:
        return CLI_NO_QUORUM;
    case REDLOCK_MISCONFIGURED:
    case REDLOCK_CLOCK:
        return CLI_MISCONFIGURED;
    case REDLOCK_LOST:
        return CLI_LOST;
    case REDLOCK_INVALID:
        return CLI_USAGE;
    case REDLOCK_NO_MEMORY:
    case REDLOCK_SYSTEM:
        break;
    }
    return CLI_SYSTEM;
}

/* --- Help --- */

static void print_option(const struct cli_option *option)
{
    enum { COLUMN = 24 };
    char left[64];
    char letter[4] = "  ";

    if (option->letter != 0)
        snprintf(letter, sizeof(letter), "-%c", option->letter);
    snprintf(left, sizeof(left), "%s%c --%s%s%s", letter, option->letter != 0 ? ',' : ' ', option->name,
             option->argument != NULL ? " " : "", option->argument != NULL ? option->argument : "");
    printf("  %-*s %s\n", COLUMN, left, option->help);
}

static void print_options(const char *title, const struct cli_option *options)
{
    printf("\n%s\n", title);
    for (; options->name != NULL; options++)
        print_option(options);
}

static void print_command_help(const struct cli_command *command)
{
    printf("usage: redlock %s [OPTION ...]%s%s\n\n%s.\n", command->name, *command->arguments != '\0' ? " " : "",
           command->arguments, command->summary);
    if (command->options != NULL)
        print_options("options:", command->options);
    print_options("options of all commands:", cli_global_options);
    if (command->help != NULL)
        printf("\n%s", command->help);
    printf("\nTIME is " CLI_DURATION_FORM ".\n");
}

int cli_help(const struct cli_command *command)
{
    if (command != NULL)
        return print_command_help(command), CLI_OK;
    printf("usage: redlock [OPTION ...] COMMAND ...\n\n"
           "A distributed lock over independent Redis masters.\n\n"
           "commands; 'redlock COMMAND --help' has the options of each:\n");
    for (const struct cli_command *const *each = cli_commands; *each != NULL; each++)
        printf("  %-*s %s\n", 10, (*each)->name, (*each)->summary);
    print_options("options, before or after the command:", cli_global_options);
    printf("\nThe nodes come from --nodes, $REDLOCK_NODES or the config file, in this order. See redlock(1).\n");
    return CLI_OK;
}
