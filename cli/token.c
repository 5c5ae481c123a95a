#include "token.h"

#include "exit_status.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

/* Whether the library accepts it: no remark of redlock status except "(empty)", and not too long. */
static bool is_token(const char *text)
{
    if (*text == '\0' || redlock_unescape(text, NULL, 0) > REDLOCK_TOKEN_MAX)
        return false;
    return *text != '(' || strcmp(text, "(empty)") == 0;
}

/* The first word of a line, as written by acquire. A token's text has no spaces. */
static const char *read_line(char *line, size_t size)
{
    if (fgets(line, (int)size, stdin) == NULL)
        return "";
    line[strcspn(line, " \r\n")] = '\0';
    return line;
}

int cli_token_read(const struct cli_arguments *arguments, const char **resource, const char **token)
{
    static char line[REDLOCK_TOKEN_TEXT_SIZE + 64];
    char quoted[CLI_QUOTED_SIZE];

    if (arguments->count != 2)
        return cli_misused("a resource and a token are needed");
    if (!cli_resource_read(arguments->words[0]))
        return CLI_USAGE;
    *resource = arguments->words[0];
    *token = arguments->words[1];
    if (strcmp(*token, "-") == 0)
        *token = read_line(line, sizeof(line));
    if (!is_token(*token))
        return cli_misused("%s is not a token: use the output of acquire, or a token from status, of up to %d bytes",
                           cli_quote(*token, quoted), REDLOCK_TOKEN_MAX);
    return CLI_OK;
}

void cli_token_explain_loss(redlock_client *client, const char *resource)
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_state state;
    redlock_result result;

    if (redlock_query(client, resource, 0, NULL, &state, &result) != REDLOCK_OK)
        return;
    if (state.locked && strcmp(state.holder.token, "(shared)") == 0)
        cli_say("%s is shared: only its redlock run can extend or release a reader's lock",
                cli_quote(resource, quoted));
    else if (state.permits_taken > 0)
        cli_say("%s is a semaphore: only its redlock run can extend or release a permit", cli_quote(resource, quoted));
}
