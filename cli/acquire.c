/* redlock acquire: acquires a lock for a script, by its token, or for the life of a process. */
#include "command.h"
#include "json.h"
#include "keeper.h"
#include "message.h"
#include "session.h"
#include "settings.h"

#include <redlock/redlock.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PID_MAX = 0x400000 };

static struct {
    bool json;
    struct cli_number process; /* 0: none */
    int signal;                /* sent to it when the lock is lost; 0: none */
} wanted = {.process = {0, 1, PID_MAX}};

static const struct {
    const char *name;
    int number;
} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT}, {"KILL", SIGKILL},
               {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}};

/* "TERM" or "SIGTERM". */
static bool take_signal(const char *value)
{
    char quoted[CLI_QUOTED_SIZE];
    const char *name = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcmp(signals[i].name, name) == 0)
            return wanted.signal = signals[i].number, true;
    cli_say("--loss-signal %s is not one of HUP, INT, QUIT, ABRT, KILL, USR1, USR2, ALRM and TERM",
            cli_quote(value, quoted));
    return false;
}

/* The options for a keeper. This process does not renew the lock, because it ends. */
static redlock_acquire_options split_options(struct cli_acquire *how)
{
    how->options.all_answers = 1; /* otherwise the next process' release could overtake a late grant */
    redlock_acquire_options keeping = how->options;
    keeping.fence = 0;
    keeping.wait_ms = 0;
    how->options.cap_ms = how->options.at_least_ms = 0;
    how->options.no_renewal = 1;
    return keeping;
}

/* --- Output --- */

static void print(const char *resource, const redlock_lock *lock, const redlock_result *result, pid_t keeper)
{
    uint64_t fence = redlock_lock_fence(lock);

    if (!wanted.json && cli_given.fence)
        printf("%s %" PRIu64 "\n", redlock_lock_token(lock), fence);
    else if (!wanted.json)
        printf("%s\n", redlock_lock_token(lock));
    if (!wanted.json)
        return;
    cli_json_object(NULL);
    cli_json_escaped("resource", resource);
    cli_json_text("token", redlock_lock_token(lock));
    if (cli_given.fence)
        cli_json_number("fence", (int64_t)fence);
    cli_json_number("validity_ms", redlock_validity_ms(lock));
    cli_json_number("nodes", result->nodes);
    cli_json_number("granted", result->granted);
    if (keeper > 0)
        cli_json_number("keeper", keeper);
    cli_json_end();
}

/* No process can use a lock without its token. */
static int write_token(const char *resource, const redlock_lock *lock, const redlock_result *result, pid_t keeper)
{
    print(resource, lock, result, keeper);
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return CLI_OK;
    clearerr(stdout);
    cli_say("cannot write the token; the lock is released");
    return CLI_SYSTEM;
}

/* --- The command --- */

static int hand_out(const char *resource, redlock_lock **lock, const redlock_result *result, struct cli_keeper *keeper)
{
    int status = keeper->pid > 0 ? cli_keeper_take(keeper, redlock_lock_token(*lock)) : CLI_OK;

    if (status == CLI_OK && cli_interrupted() == 0)
        status = write_token(resource, *lock, result, keeper->pid);
    cli_interrupts_block(); /* a signal that comes after this check must not end us: the lock is handed out */
    if (status == CLI_OK && cli_interrupted() == 0)
        return CLI_OK;
    cli_keeper_end(keeper);
    redlock_release(lock, NULL, NULL);
    return status;
}

static int acquire(const char *resource, struct cli_acquire *how, struct cli_keeper *keeper)
{
    redlock_client *client;
    redlock_lock *lock;
    redlock_result result;
    int status = cli_connect(&client, true);

    if (status == CLI_OK)
        status = cli_acquire(client, how, &lock, &result);
    if (status == CLI_OK)
        status = hand_out(resource, &lock, &result, keeper);
    else if (cli_keeper_has_ended(keeper))
        status = CLI_SYSTEM;
    else if (status == CLI_NOT_OBTAINED)
        status = (int)cli_given.conflict.value;
    cli_close(&client);
    return status;
}

/* CLI_OK, or the exit status, after a message. */
static int check(const struct cli_arguments *arguments)
{
    if (arguments->count == 0)
        return cli_misused("a resource is needed");
    if (arguments->count > 1)
        return cli_misused("one resource only: use redlock run for a lock on several");
    if (!cli_resource_read(arguments->words[0]))
        return CLI_USAGE;
    if (cli_given.cap_ms != CLI_NOT_GIVEN && wanted.process.value == 0)
        return cli_misused("--cap limits the renewal: it needs --for PID");
    if (cli_given.at_least_ms > 0 && wanted.process.value == 0)
        return cli_misused("--at-least delays the end of the lock when the process ends: it needs --for PID");
    if (wanted.signal != 0 && wanted.process.value == 0)
        return cli_misused("--loss-signal needs --for PID, the process that gets the signal");
    return CLI_OK;
}

static int run(const struct cli_arguments *arguments)
{
    struct cli_acquire how = {.resource = arguments->words[0]};
    struct cli_keeper keeper = {.link = -1};
    int status = check(arguments);

    if (status != CLI_OK)
        return status;
    cli_settings_label(wanted.process.value > 0 ? (pid_t)wanted.process.value : getppid(),
                       NULL);           /* this process exits */
    status = cli_acquire_prepare(&how); /* before the keeper is forked, which needs the settings too */
    if (status != CLI_OK)
        return status;
    redlock_acquire_options keeping = split_options(&how);
    signal(SIGPIPE, SIG_IGN); /* an operation on the nodes must finish even if standard error is closed */
    if (wanted.process.value > 0)
        status = cli_keeper_start((pid_t)wanted.process.value, wanted.signal, how.resource, &keeping, &keeper);
    if (status == CLI_OK)
        status = acquire(how.resource, &how, &keeper);
    if (status != CLI_OK)
        cli_keeper_end(&keeper);
    return status;
}

static const struct cli_option options[] = {
    CLI_WAIT_OPTIONS,
    {0, "ttl", "TIME", "the lock's ttl, unless it is extended (10s)", .duration_ms = &cli_given.ttl_ms},
    {0, "for", "PID", "renew the lock in the background until this process ends", .number = &wanted.process},
    {0, "cap", "TIME", "with --for: hold the lock for at most this long, from the ttl to 49d",
     .duration_ms = &cli_given.cap_ms},
    {0, "at-least", "TIME", "with --for: no other client gets the lock before this long after the acquire",
     .duration_ms = &cli_given.at_least_ms},
    {0, "loss-signal", "SIGNAL", "with --for: send this to the process when the lock is lost", .take = take_signal},
    {0, "fence", NULL, "write a fencing token after the token: larger with each acquire", .flag = &cli_given.fence},
    {'q', "quiet", NULL, "no line about a held lock or a wait; errors only", .flag = &cli_is_quiet},
    {0, "json", NULL, "write an object, with the token and the remaining validity", .flag = &wanted.json},
    {0},
};

const struct cli_command cli_command_acquire = {
    .name = "acquire",
    .arguments = "RESOURCE",
    .summary = "Acquire a lock and write its token, for extend and release",
    .help =
        "The lock ends with its ttl unless it is extended; with --for PID it is renewed until the process ends. The token is\n"
        "written after every node has replied or timed out.\n"
        "\n"
        "Use redlock run for --shared, --permits and locks on several resources: a token cannot pass these on.\n"
        "\n"
        "exit status: 0 acquired; 1 (-E) held by another client; 69 too few nodes; 78 misconfigured; 64 usage; 71 system error\n",
    .options = options,
    .run = run,
};
