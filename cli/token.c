/* redlock extend and redlock release: a lock by its token. */
#include "command.h"
#include "json.h"
#include "message.h"
#include "session.h"
#include "settings.h"

#include <redlock/redlock.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NOT_GIVEN = -1 };

static int64_t ttl_ms = NOT_GIVEN;
static bool json;

/* --- The token --- */

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

static const char *resource, *token;

static int check(const struct cli_arguments *arguments)
{
    static char line[REDLOCK_TOKEN_TEXT_SIZE + 64];
    char quoted[CLI_QUOTED_SIZE];

    if (arguments->count != 2)
        return cli_misused("a resource and a token are needed");
    if (!cli_resource_read(arguments->words[0]))
        return CLI_USAGE;
    resource = arguments->words[0];
    token = arguments->words[1];
    if (strcmp(token, "-") == 0)
        token = read_line(line, sizeof(line));
    if (!is_token(token))
        return cli_misused("%s is not a token: use the output of acquire, or a token from status, of up to %d bytes",
                           cli_quote(token, quoted), REDLOCK_TOKEN_MAX);
    signal(SIGPIPE, SIG_IGN); /* an operation on the nodes must finish even if standard error is closed */
    return CLI_OK;
}

static void explain_loss(redlock_client *client)
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

/* --- Extension --- */

static void print(const redlock_result *result)
{
    cli_json_object(NULL);
    cli_json_escaped("resource", resource);
    cli_json_text("token", token);
    cli_json_number("validity_ms", result->validity_ms);
    cli_json_number("nodes", result->nodes);
    cli_json_number("granted", result->granted);
    cli_json_end();
}

static int explain_failure(redlock_result *result)
{
    char quoted[CLI_QUOTED_SIZE];
    bool unchanged = result->status != REDLOCK_LOST && result->status != REDLOCK_INVALID;

    cli_say("%s not extended: %s%s", cli_quote(resource, quoted), redlock_result_text(result),
            unchanged ? "; it may last until its old end" : "");
    return cli_exit_of(result);
}

static int extend(redlock_client *client, const struct cli_arguments *arguments)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    redlock_result result;

    (void)arguments;
    options.ttl_ms = (uint32_t)ttl_ms;
    options.no_renewal = 1;
    options.all_answers = 1; /* otherwise nodes that connect last would keep the old end */
    redlock_adopt(client, resource, &options, token, &lock, &result);
    cli_explain("extension: %s", redlock_result_text(&result));
    if (lock == NULL && result.status == REDLOCK_LOST)
        explain_loss(client);
    if (lock == NULL)
        return explain_failure(&result);
    if (json)
        print(&result);
    return CLI_OK;
}

static int check_extension(const struct cli_arguments *arguments)
{
    int status = check(arguments);

    if (status == CLI_OK)
        status = cli_settings_load();
    if (status != CLI_OK)
        return status;
    if (ttl_ms == NOT_GIVEN)
        ttl_ms = cli_settings.options.ttl_ms;
    return cli_ttl_fits(ttl_ms, "") ? CLI_OK : CLI_USAGE;
}

/* --- Release --- */

static int release(redlock_client *client, const struct cli_arguments *arguments)
{
    char quoted[CLI_QUOTED_SIZE];
    redlock_result result;

    (void)arguments;
    redlock_release_token(client, resource, 0, token, NULL, &result);
    if (result.kept_releases) { /* this process ends before those nodes are connected again */
        result.kept_releases = 0;
        result.text[0] = '\0'; /* is formatted again */
    }
    cli_explain("release: %s", redlock_result_text(&result));
    if (result.status == REDLOCK_OK)
        return CLI_OK;
    if (result.status == REDLOCK_LOST) {
        explain_loss(client);
        cli_say("%s is not held by this token: %u of %u nodes do not have it", cli_quote(resource, quoted),
                result.absent + result.held, result.nodes);
    } else if (result.status == REDLOCK_INVALID)
        cli_say("%s not released: %s", cli_quote(resource, quoted), redlock_result_text(&result));
    else
        cli_say("%s: no majority has confirmed the release; the lock may last until its ttl: %s",
                cli_quote(resource, quoted), redlock_result_text(&result));
    return cli_exit_of(&result);
}

/* --- The commands --- */

static const struct cli_option options[] = {
    {0, "ttl", "TIME", "the lock's ttl from now, at least (10s)", .duration_ms = &ttl_ms},
    {0, "json", NULL, "write an object, with the remaining validity", .flag = &json},
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
    .leaves_locks = true,
    .run = check_extension,
    .use = extend,
};

const struct cli_command cli_command_release = {
    .name = "release",
    .arguments = "RESOURCE TOKEN",
    .summary = "Release a lock by its token",
    .help =
        "TOKEN is the output of acquire, or a token from status; - reads it from standard input. Waits until every node has\n"
        "replied or timed out.\n"
        "\n"
        "exit status: 0 released on a majority; 75 it was no longer held; 69 not confirmed; 78 misconfigured; 64 usage\n",
    .run = check,
    .use = release,
};
