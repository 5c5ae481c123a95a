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

void cli_token_explain_loss(redlock_client *client, const char *resource)
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_state state;
    redlock_result result;

    if (redlock_query(client, resource, 0, &state, &result) != REDLOCK_OK)
        return;
    if (state.locked && strcmp(state.token, "(shared)") == 0)
        cli_say("%s is shared: a reader's lock is extended and released by its redlock run alone",
                cli_quote(resource, quoted));
    else if (state.permits_taken > 0)
        cli_say("%s is a semaphore: a permit is extended and released by its redlock run alone",
                cli_quote(resource, quoted));
}
