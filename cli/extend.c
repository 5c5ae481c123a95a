/* redlock extend: extends a lock by its token. */
#include "commands.h"
#include "exit_status.h"
#include "json.h"
#include "message.h"
#include "session.h"
#include "settings.h"
#include "token.h"

#include <redlock/redlock.h>

#include <string.h>

enum { OPTION_JSON = CLI_LONG_ONLY, OPTION_TTL, NOT_GIVEN = -1 };

static int64_t ttl_ms = NOT_GIVEN;
static bool json;

static bool take(int id, const char *value)
{
    if (id == OPTION_TTL)
        return cli_take_duration("ttl", value, &ttl_ms);
    return json = true;
}

static void print(const char *resource, const char *token, const redlock_result *result)
{
    cli_json_object(NULL);
    cli_json_escaped("resource", resource);
    cli_json_text("token", token);
    cli_json_number("validity_ms", result->validity_ms);
    cli_json_number("nodes", result->nodes);
    cli_json_number("granted", result->granted);
    cli_json_end();
}

static int explain_failure(const char *resource, redlock_result *result)
{
    char quoted[CLI_QUOTED_SIZE];
    bool unchanged = result->status != REDLOCK_LOST && result->status != REDLOCK_INVALID;

    cli_say("%s not extended: %s%s", cli_quote(resource, quoted), redlock_result_text(result),
            unchanged ? "; it may last until its old end" : "");
    return cli_exit_of(result);
}

static int extend(redlock_client *client, const char *resource, const char *token)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    redlock_result result;

    options.ttl_ms = (uint32_t)ttl_ms;
    options.no_renewal = 1;
    options.all_answers = 1; /* otherwise nodes that connect last would keep the old end */
    redlock_adopt(client, resource, &options, token, &lock, &result);
    cli_explain("extension: %s", redlock_result_text(&result));
    if (lock == NULL && result.status == REDLOCK_LOST)
        cli_token_explain_loss(client, resource);
    if (lock == NULL)
        return explain_failure(resource, &result);
    if (json)
        print(resource, token, &result);
    return CLI_OK;
}

static int run(const struct cli_arguments *arguments)
{
    const char *resource;
    const char *token;
    redlock_client *client;
    int status = cli_token_read(arguments, &resource, &token);

    if (status != CLI_OK)
        return status;
    const struct cli_settings *settings = cli_settings_get(&status);
    if (settings == NULL)
        return status;
    if (ttl_ms == NOT_GIVEN)
        ttl_ms = settings->options.ttl_ms;
    if (!cli_ttl_fits(settings, ttl_ms))
        return CLI_USAGE;
    cli_outlive_readers();
    status = cli_connect_to_leave(&client);
    if (status == CLI_OK)
        status = extend(client, resource, token);
    cli_close(&client);
    return status;
}

static const struct cli_option options[] = {
    {OPTION_TTL, "ttl", "TIME", "the lock's ttl from now, at least (10s)"},
    {OPTION_JSON, "json", NULL, "write an object, with the remaining validity"},
    {0},
};

const struct cli_command cli_command_extend = {
    .name = "extend",
    .arguments = "RESOURCE TOKEN",
    .summary = "Extend a lock by its token; never shortens it",
    .help =
        "TOKEN is the output of acquire, or a token from status; - reads it from standard input.\n"
        "\n"
        "exit status: 0 extended on a majority; 75 the lock is lost; 69 too few nodes; 78 misconfigured; 64 usage\n",
    .options = options,
    .take = take,
    .run = run,
};
