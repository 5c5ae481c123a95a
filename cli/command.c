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

bool cli_take_number(const char *option, const char *value, long least, long most, long *number)
{
    char quoted[CLI_QUOTED_SIZE];
    char *end;

    errno = 0;
    *number = strtol(value, &end, 10);
    if (errno == 0 && value[0] >= '0' && value[0] <= '9' && *end == '\0' && *number >= least && *number <= most)
        return true;
    cli_say("--%s %s is not a number from %ld to %ld", option, cli_quote(value, quoted), least, most);
    return false;
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
