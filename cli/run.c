/* redlock run: a command under a lock. */
#include "run.h"

#include "command.h"
#include "duration.h"
#include "message.h"
#include "moment.h"
#include "settings.h"
#include "tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_GRACE_MS = 2000, LEAST_BEYOND_GRACE_MS = 1000, NOT_GIVEN = -1 };

static struct {
    int64_t wait_ms;
    bool no_wait;
    int64_t ttl_ms;
    int64_t grace_ms;
    int64_t cap_ms;
    int64_t at_least_ms;
    struct cli_number not_obtained;
    bool fence;
    bool shared;
    bool leave;
    struct cli_number permits; /* 0: it is no semaphore */
    struct cli_number wanted;  /* 0: one */
    const char *on_lost;
} given = {.wait_ms = REDLOCK_FOREVER,
           .ttl_ms = NOT_GIVEN,
           .grace_ms = NOT_GIVEN,
           .cap_ms = NOT_GIVEN,
           .not_obtained = {CLI_NOT_OBTAINED, 0, 255},
           .permits = {0, 1, REDLOCK_PERMITS_MAX},
           .wanted = {0, 1, REDLOCK_PERMITS_MAX}};

/* --- Checks of the options --- */

/* Ending CMD takes time: without renewal it must have time to start, get SIGTERM, and end. */
static bool settle_times(struct cli_run *run, const struct cli_settings *settings)
{
    int64_t ttl_ms = given.ttl_ms != NOT_GIVEN ? given.ttl_ms : settings->options.ttl_ms;
    int64_t most_grace_ms = (ttl_ms - LEAST_BEYOND_GRACE_MS) / 2;
    int64_t grace_ms = given.grace_ms != NOT_GIVEN ? given.grace_ms : USUAL_GRACE_MS;
    char ttl[CLI_DURATION_SIZE];
    char needed[CLI_DURATION_SIZE];

    if (given.grace_ms == NOT_GIVEN && most_grace_ms < grace_ms)
        grace_ms = most_grace_ms > 0 ? most_grace_ms : 0;
    if (!cli_ttl_fits(settings, ttl_ms))
        return false;
    if (ttl_ms < 2 * grace_ms + LEAST_BEYOND_GRACE_MS) {
        cli_say("a ttl of %s is too short for this grace: it must be at least 2 x grace + 1 s, that is %s",
                cli_duration_exact(ttl_ms, ttl), cli_duration_exact(2 * grace_ms + LEAST_BEYOND_GRACE_MS, needed));
        return false;
    }
    run->grace_ms = grace_ms;
    run->acquire.options.ttl_ms = (uint32_t)ttl_ms;
    run->acquire.options.minimum_validity_ms = (uint32_t)(grace_ms + CLI_RUN_LEAST_MS);
    return true;
}

static bool settle_cap(struct cli_run *run)
{
    if (given.cap_ms == NOT_GIVEN)
        return true;
    run->cap_ms = given.cap_ms;
    run->acquire.options.cap_ms = (uint32_t)given.cap_ms;
    return cli_cap_fits(given.cap_ms, run->acquire.options.ttl_ms);
}

/* The resources after the first. */
static redlock_name also[REDLOCK_RESOURCES_MAX];
static size_t also_count;

static bool settle(struct cli_run *run, const struct cli_settings *settings)
{
    redlock_acquire_options *options = &run->acquire.options;
    *options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    options->also = also;
    options->also_count = also_count;
    run->acquire.options.fence = given.fence;
    run->acquire.options.shared = given.shared;
    run->acquire.options.permits = (uint32_t)given.permits.value;
    run->acquire.options.permits_wanted = (uint32_t)given.wanted.value;
    run->acquire.wait_ms = given.no_wait ? 0 : given.wait_ms;
    run->acquire.insists = given.wait_ms != REDLOCK_FOREVER;
    run->acquire.skips = given.not_obtained.value == 0;
    run->not_obtained = (int)given.not_obtained.value;
    run->on_lost = given.on_lost;
    run->leave = given.leave;
    options->at_least_ms = (uint32_t)given.at_least_ms;
    return settle_times(run, settings) && settle_cap(run) && cli_at_least_fits(settings, given.at_least_ms);
}

static bool take_resources(struct cli_run *run, const struct cli_arguments *arguments)
{
    for (int i = 0; i < (int)arguments->count; i++) {
        if (!cli_resource_read(arguments->words[i]))
            return false;
        if (i > 0)
            also[also_count++] = (redlock_name){arguments->words[i], 0};
    }
    run->acquire.resource = arguments->words[0];
    run->command = arguments->command;
    return true;
}

static bool take_words(struct cli_run *run, const struct cli_arguments *arguments)
{
    if (arguments->count == 0)
        cli_misused("a resource is needed: redlock run RESOURCE -- CMD");
    else if (arguments->command == NULL)
        cli_misused("the command must follow --: redlock run RESOURCE -- CMD");
    else if (arguments->command[0] == NULL)
        cli_misused("there is no command after --");
    else if (given.no_wait && given.wait_ms != REDLOCK_FOREVER)
        cli_misused("--wait and --no-wait contradict each other");
    else if (arguments->count > REDLOCK_RESOURCES_MAX)
        cli_misused("a lock has at most 64 resources");
    else if (given.permits.value > 0 && (given.shared || given.fence || arguments->count > 1))
        cli_misused("--permits cannot be combined with --shared, --fence or several resources");
    else if (given.wanted.value > 0 && given.permits.value == 0)
        cli_misused("--take needs --permits, the semaphore's number of permits");
    else if (given.wanted.value > given.permits.value)
        cli_misused("--take %ld is more than --permits %ld", given.wanted.value, given.permits.value);
    else if (given.shared && given.fence)
        cli_misused("--shared cannot be combined with --fence: a reader gets no fencing token");
    else
        return take_resources(run, arguments);
    return false;
}

/* --- The processes --- */

void cli_run_terminate(const struct cli_run *run, const struct cli_tree *tree)
{
    char names[CLI_TREE_NAMES_SIZE];

    if (atomic_exchange(&run->shared->terminated, true))
        return;
    int64_t began = cli_now_ms();
    cli_tree_terminate(tree);
    run->shared->walk_ms = cli_now_ms() - began;
    if (*run->cgroup == '\0' && cli_tree_names(tree, true, names) > 0)
        cli_say("%s cannot be signalled by this user, and may outlive the lock", names);
}

void cli_run_kill(const struct cli_run *run, const struct cli_tree *tree)
{
    run->shared->terminated = true;
    cli_cgroup_kill(run->cgroup);
    cli_tree_kill(tree);
}

void cli_run_note_end(const struct cli_run *run)
{
    if (cli_now_ms() > run->shared->valid_until)
        run->shared->outlived = true;
}

static bool is_pipe(int descriptor)
{
    struct stat information;

    return fstat(descriptor, &information) == 0 && (S_ISFIFO(information.st_mode) || S_ISSOCK(information.st_mode));
}

static int run(const struct cli_arguments *arguments)
{
    struct cli_run made = {0};
    int status;

    if (!take_words(&made, arguments))
        return CLI_USAGE;
    cli_settings_label(getpid(), made.command[0]);
    const struct cli_settings *settings = cli_settings_get(&status);
    if (settings == NULL)
        return status;
    if (!settle(&made, settings))
        return CLI_USAGE;
    made.shared = mmap(NULL, sizeof(*made.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made.shared == MAP_FAILED)
        return cli_fail(CLI_SYSTEM, "out of memory");
    made.front = getpid();
    made.front_group = getpgrp();
    made.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    made.in_pipeline = is_pipe(STDIN_FILENO) || is_pipe(STDOUT_FILENO);
    return cli_run_guard(&made);
}

static const struct cli_option options[] = {
    {'w', "wait", "TIME", "wait for the lock for up to this long; default: while it is held",
     .duration_ms = &given.wait_ms},
    {'n', "no-wait", NULL, "do not wait: give up if the lock is held", .flag = &given.no_wait},
    {0, "fence", NULL, "draw a fencing token: REDLOCK_FENCE, larger each time", .flag = &given.fence},
    {0, "shared", NULL, "as a reader: together with other readers, but not with a writer", .flag = &given.shared},
    {0, "permits", "K", "the resource is a semaphore with K permits; the same K for all", .number = &given.permits},
    {0, "take", "COUNT", "take this many of the semaphore's permits, all or none (1)", .number = &given.wanted},
    {0, "ttl", "TIME", "the lock's ttl: how long it blocks others if this machine dies (10s)",
     .duration_ms = &given.ttl_ms},
    {0, "grace", "TIME", "from SIGTERM to the end of a lock that cannot be renewed (2s)",
     .duration_ms = &given.grace_ms},
    {0, "cap", "TIME", "hold the lock for at most this long, from the ttl to 49d; CMD is ended in time",
     .duration_ms = &given.cap_ms},
    {0, "at-least", "TIME", "no other client gets the lock before this long after the acquire, up to max-ttl",
     .duration_ms = &given.at_least_ms},
    {0, "leave", NULL, "release the lock when CMD exits, and leave the processes that it started",
     .flag = &given.leave},
    {0, "on-lost", "COMMAND", "a shell command to run if the lock is lost, after CMD has ended",
     .text = &given.on_lost},
    {'E', "conflict-exit-code", "NUMBER", "exit status if the lock is not acquired (1); 0: also silently",
     .number = &given.not_obtained},
    {'q', "quiet", NULL, "no line about a held lock, a wait, or processes that are ended; errors only",
     .flag = &cli_is_quiet},
    {0},
};

const struct cli_command cli_command_run = {
    .name = "run",
    .arguments = "RESOURCE ... -- CMD [ARG ...]",
    .summary = "Hold the lock on RESOURCE while CMD runs",
    .help =
        "The lock is renewed while CMD runs, and released when no process that CMD started is left. CMD ends before the lock\n"
        "does, with its whole process tree, including daemons: if the lock cannot be renewed, the tree gets SIGTERM `grace`\n"
        "before the end and SIGKILL shortly before it, even if one of redlock's two processes is killed or stopped. Processes\n"
        "that CMD leaves running when it exits are named and ended in the same way before the release (see --leave). CMD has\n"
        "REDLOCK_RESOURCE, REDLOCK_TOKEN and REDLOCK_VALIDITY_MS in its environment, and REDLOCK_FENCE with --fence. A lock\n"
        "on several resources covers all of them or none.\n"
        "\n"
        "The command of --on-lost runs when no process of CMD is left, without the lock: another machine may hold it. It\n"
        "has REDLOCK_RESOURCE and REDLOCK_LOSS (ended, expired, gone, clock or killed), and does not change the exit status.\n"
        "\n"
        "With --at-least a job that is shorter than the difference of the machines' clocks runs once: redlock exits as soon\n"
        "as CMD has ended, and the nodes keep the lock until the time has passed.\n"
        "\n"
        "The ttl must be at least 2 x grace + 1 s.\n"
        "\n"
        "exit status: CMD's; 128 + signal; 1 (see -E) the lock is held by another client; 64 usage; 69 no quorum of nodes;\n"
        "71 system error; 75 the lock was lost or ended before CMD did; 78 misconfigured;\n"
        "126, 127 CMD cannot be executed, was not found\n",
    .options = options,
    .takes_command = true,
    .run = run,
};
