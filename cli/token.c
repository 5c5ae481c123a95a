#include "token.h"

#include "exit_status.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

static bool is_token(const char *text)
{
    return strlen(text) == REDLOCK_TOKEN_SIZE - 1 && strspn(text, "0123456789abcdef") == REDLOCK_TOKEN_SIZE - 1;
}

/* The first word of a line: what acquire wrote. */
static const char *read_line(char *line, size_t size)
{
    if (fgets(line, (int)size, stdin) == NULL)
        return "";
    line[strcspn(line, " \r\n")] = '\0';
    return line;
}

int cli_token_read(const struct cli_arguments *arguments, const char **resource, char token[REDLOCK_TOKEN_SIZE])
{
    char line[256];
    char quoted[CLI_QUOTED_SIZE];

    if (arguments->count != 2)
        return cli_misused("a resource and a token are needed");
    *resource = arguments->words[0];
    if (!cli_resource_is_valid(*resource))
        return CLI_USAGE;
    const char *text = arguments->words[1];
    if (strcmp(text, "-") == 0)
        text = read_line(line, sizeof(line));
    if (!is_token(text))
        return cli_misused("%s is not a token: acquire writes it, %d hexadecimal digits", cli_quote(text, quoted),
                           REDLOCK_TOKEN_SIZE - 1);
    memcpy(token, text, REDLOCK_TOKEN_SIZE);
    return CLI_OK;
}
