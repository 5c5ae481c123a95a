/* redlock acquire: acquires a lock for a script, by its token, or for the life of a process. */
#include "command.h"
#include "duration.h"
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

enum { PID_MAX = 0x400000, NOT_GIVEN = -1 };

static struct {
    int64_t wait_ms;
    bool no_wait;
    int64_t ttl_ms;
    int64_t cap_ms;
    int64_t at_least_ms;
    bool fence;
    bool json;
    struct cli_number process;  /* 0: none */
    int signal;                 /* sent to it when the lock is lost; 0: none */
    struct cli_number conflict; /* exit status if the lock is not acquired */
} wanted = {.wait_ms = REDLOCK_FOREVER,
            .ttl_ms = NOT_GIVEN,
            .cap_ms = NOT_GIVEN,
            .process = {0, 1, PID_MAX},
            .conflict = {CLI_NOT_OBTAINED, 0, 255}};

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

/* The options for this process and for a keeper. This process does not renew the lock, because it ends. */
static void read_options(struct cli_acquire *acquire, redlock_acquire_options *keeping)
{
    *keeping = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    keeping->ttl_ms = (uint32_t)wanted.ttl_ms;
    keeping->cap_ms = wanted.cap_ms == NOT_GIVEN ? 0 : (uint32_t)wanted.cap_ms;
    keeping->at_least_ms = (uint32_t)wanted.at_least_ms;
    keeping->all_answers = 1; /* otherwise the next process' release could overtake a late grant */
    acquire->options = *keeping;
    acquire->options.cap_ms = acquire->options.at_least_ms = 0;
    acquire->options.fence = wanted.fence;
    acquire->options.no_renewal = 1;
    acquire->wait_ms = wanted.no_wait ? 0 : wanted.wait_ms;
    acquire->insists = wanted.wait_ms != REDLOCK_FOREVER;
    acquire->skips = wanted.conflict.value == 0;
}

/* --- Output --- */

static void print(const char *resource, const redlock_lock *lock, const redlock_result *result, pid_t keeper)
{
    uint64_t fence = redlock_lock_fence(lock);

    if (!wanted.json && wanted.fence)
        printf("%s %" PRIu64 "\n", redlock_lock_token(lock), fence);
    else if (!wanted.json)
        printf("%s\n", redlock_lock_token(lock));
    if (!wanted.json)
        return;
    cli_json_object(NULL);
    cli_json_escaped("resource", resource);
    cli_json_text("token", redlock_lock_token(lock));
    if (wanted.fence)
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
    int status = cli_connect_to_leave(&client);

    if (status == CLI_OK)
        status = cli_acquire(client, how, &lock, &result);
    if (status == CLI_OK)
        status = hand_out(resource, &lock, &result, keeper);
    else if (cli_keeper_has_ended(keeper))
        status = CLI_SYSTEM;
    else if (status == CLI_NOT_OBTAINED)
        status = (int)wanted.conflict.value;
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
    if (wanted.wait_ms != REDLOCK_FOREVER && wanted.no_wait)
        return cli_misused("--wait and --no-wait contradict each other");
    if (wanted.cap_ms != NOT_GIVEN && wanted.process.value == 0)
        return cli_misused("--cap limits the renewal: it needs --for PID");
    if (wanted.at_least_ms > 0 && wanted.process.value == 0)
        return cli_misused("--at-least delays the end of the lock when the process ends: it needs --for PID");
    if (wanted.signal != 0 && wanted.process.value == 0)
        return cli_misused("--loss-signal needs --for PID, the process that gets the signal");
    return CLI_OK;
}

static int settle_times(const struct cli_settings *settings)
{
    if (wanted.ttl_ms == NOT_GIVEN)
        wanted.ttl_ms = settings->options.ttl_ms;
    if (!cli_ttl_fits(settings, wanted.ttl_ms) || !cli_at_least_fits(settings, wanted.at_least_ms))
        return CLI_USAGE;
    return wanted.cap_ms == NOT_GIVEN || cli_cap_fits(wanted.cap_ms, wanted.ttl_ms) ? CLI_OK : CLI_USAGE;
}

static int run(const struct cli_arguments *arguments)
{
    struct cli_acquire how = {.resource = arguments->words[0]};
    struct cli_keeper keeper = {.link = -1};
    redlock_acquire_options keeping;
    int status = check(arguments);

    if (status != CLI_OK)
        return status;
    cli_settings_label(wanted.process.value > 0 ? (pid_t)wanted.process.value : getppid(),
                       NULL); /* this process exits */
    const struct cli_settings *settings =
        cli_settings_get(&status); /* before the keeper is forked, which needs them too */
    if (settings == NULL)
        return status;
    status = settle_times(settings);
    if (status != CLI_OK)
        return status;
    read_options(&how, &keeping);
    cli_outlive_readers();
    if (wanted.process.value > 0)
        status = cli_keeper_start((pid_t)wanted.process.value, wanted.signal, how.resource, &keeping, &keeper);
    if (status == CLI_OK)
        status = acquire(how.resource, &how, &keeper);
    if (status != CLI_OK)
        cli_keeper_end(&keeper);
    return status;
}

static const struct cli_option options[] = {
    {'w', "wait", "TIME", "wait for the lock for up to this long; default: while it is held",
     .duration_ms = &wanted.wait_ms},
    {'n', "no-wait", NULL, "do not wait: give up if the lock is held", .flag = &wanted.no_wait},
    {0, "ttl", "TIME", "the lock's ttl, unless it is extended (10s)", .duration_ms = &wanted.ttl_ms},
    {0, "for", "PID", "renew the lock in the background until this process ends", .number = &wanted.process},
    {0, "cap", "TIME", "with --for: hold the lock for at most this long, from the ttl to 49d",
     .duration_ms = &wanted.cap_ms},
    {0, "at-least", "TIME", "with --for: no other client gets the lock before this long after the acquire",
     .duration_ms = &wanted.at_least_ms},
    {0, "loss-signal", "SIGNAL", "with --for: send this to the process when the lock is lost", .take = take_signal},
    {0, "fence", NULL, "write a fencing token after the token: larger with each acquire", .flag = &wanted.fence},
    {'E', "conflict-exit-code", "NUMBER", "exit status if the lock is not acquired (1); 0: also silently",
     .number = &wanted.conflict},
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
