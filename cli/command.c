#include "command.h"

#include "duration.h"
#include "exit_status.h"
#include "message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
