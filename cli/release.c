/* redlock release: releases a lock by its token. */
#include "commands.h"
#include "exit_status.h"
#include "message.h"
#include "session.h"
#include "token.h"

#include <redlock/redlock.h>

static int release(redlock_client *client, const char *resource, const char *token)
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_result result;

    redlock_release_token(client, resource, 0, token, NULL, &result);
    if (result.kept_releases) { /* this process ends before those nodes are connected again */
        result.kept_releases = 0;
        result.text[0] = '\0'; /* is formatted again */
    }
    cli_explain("release: %s", redlock_result_text(&result));
    if (result.status == REDLOCK_OK)
        return CLI_OK;
    if (result.status == REDLOCK_LOST) {
        cli_token_explain_loss(client, resource);
        cli_say("%s is not held by this token: %u of %u nodes do not have it", cli_quote(resource, quoted),
                result.absent + result.held, result.nodes);
    } else if (result.status == REDLOCK_INVALID)
        cli_say("%s not released: %s", cli_quote(resource, quoted), redlock_result_text(&result));
    else
        cli_say("%s: no majority has confirmed the release; the lock may last until its ttl: %s",
                cli_quote(resource, quoted), redlock_result_text(&result));
    return cli_exit_of(&result);
}

static int run(const struct cli_arguments *arguments)
{
    const char *resource;
    const char *token;
    redlock_client *client;
    int status = cli_token_read(arguments, &resource, &token);

    if (status != CLI_OK)
        return status;
    cli_outlive_readers();
    status = cli_connect(&client);
    if (status == CLI_OK)
        status = release(client, resource, token);
    cli_close(&client);
    return status;
}

const struct cli_command cli_command_release = {
    .name = "release",
    .arguments = "RESOURCE TOKEN",
    .summary = "Release a lock by its token",
    .help =
        "TOKEN is the output of acquire, or a token from status; - reads it from standard input. Waits until every node has\n"
        "replied or timed out.\n"
        "\n"
        "exit status: 0 released on a majority; 75 it was no longer held; 69 not confirmed; 78 misconfigured; 64 usage\n",
    .run = run,
};
