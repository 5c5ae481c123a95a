/* redlock run: a command under a lock. */
#include "run.h"

#include "command.h"
#include "message.h"
#include "settings.h"
#include "times.h"
#include "tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_GRACE_MS = 2000, LEAST_BEYOND_GRACE_MS = 1000 };

static struct cli_run made = {.grace_ms = CLI_NOT_GIVEN};
static bool shared;
static struct cli_number permits = {0, 1, REDLOCK_PERMITS_MAX}; /* 0: it is no semaphore */
static struct cli_number wanted = {0, 1, REDLOCK_PERMITS_MAX};  /* 0: one */

/* --- Checks of the options --- */

/* Ending CMD takes time: without renewal it must have time to start, get SIGTERM, and end. */
static int settle_grace(void)
{
    int64_t ttl_ms = made.acquire.options.ttl_ms;
    int64_t most_grace_ms = (ttl_ms - LEAST_BEYOND_GRACE_MS) / 2;
    char ttl[CLI_DURATION_SIZE];
    char needed[CLI_DURATION_SIZE];

    if (made.grace_ms == CLI_NOT_GIVEN && most_grace_ms < USUAL_GRACE_MS)
        made.grace_ms = most_grace_ms > 0 ? most_grace_ms : 0;
    else if (made.grace_ms == CLI_NOT_GIVEN)
        made.grace_ms = USUAL_GRACE_MS;
    int64_t needed_ms = 2 * made.grace_ms + LEAST_BEYOND_GRACE_MS;
    if (ttl_ms < needed_ms)
        return cli_fail(CLI_USAGE,
                        "a ttl of %s is too short for this grace: it must be at least 2 x grace + 1 s, that is %s",
                        cli_duration_exact(ttl_ms, ttl), cli_duration_exact(needed_ms, needed));
    made.acquire.options.minimum_validity_ms = (uint32_t)(made.grace_ms + CLI_RUN_LEAST_MS);
    return CLI_OK;
}

static int settle(const struct cli_arguments *arguments)
{
    static redlock_name also[REDLOCK_RESOURCES_MAX]; /* the resources after the first */
    redlock_acquire_options *options = &made.acquire.options;
    int status = cli_acquire_prepare(&made.acquire);

    if (status != CLI_OK)
        return status;
    made.acquire.resource = arguments->words[0];
    made.command = arguments->command;
    for (int i = 1; i < arguments->count; i++)
        also[options->also_count++] = (redlock_name){arguments->words[i], 0};
    options->also = also;
    options->shared = shared;
    options->permits = (uint32_t)permits.value;
    options->permits_wanted = (uint32_t)wanted.value;
    return settle_grace();
}

static int check(const struct cli_arguments *arguments)
{
    if (arguments->count == 0)
        return cli_misused("a resource is needed: redlock run RESOURCE -- CMD");
    if (arguments->command == NULL)
        return cli_misused("the command must follow --: redlock run RESOURCE -- CMD");
    if (arguments->command[0] == NULL)
        return cli_misused("there is no command after --");
    if (arguments->count > REDLOCK_RESOURCES_MAX)
        return cli_misused("a lock has at most 64 resources");
    if (permits.value > 0 && (shared || cli_given.fence || arguments->count > 1))
        return cli_misused("--permits cannot be combined with --shared, --fence or several resources");
    if (wanted.value > 0 && permits.value == 0)
        return cli_misused("--take needs --permits, the semaphore's number of permits");
    if (wanted.value > permits.value)
        return cli_misused("--take %ld is more than --permits %ld", wanted.value, permits.value);
    if (shared && cli_given.fence)
        return cli_misused("--shared cannot be combined with --fence: a reader gets no fencing token");
    for (int i = 0; i < arguments->count; i++)
        if (!cli_resource_read(arguments->words[i]))
            return CLI_USAGE;
    return CLI_OK;
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
    int status = check(arguments);

    if (status != CLI_OK)
        return status;
    cli_settings_label(getpid(), arguments->command[0]);
    status = settle(arguments);
    if (status != CLI_OK)
        return status;
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
    CLI_WAIT_OPTIONS,
    {0, "fence", NULL, "draw a fencing token: REDLOCK_FENCE, larger each time", .flag = &cli_given.fence},
    {0, "shared", NULL, "as a reader: together with other readers, but not with a writer", .flag = &shared},
    {0, "permits", "K", "the resource is a semaphore with K permits; the same K for all", .number = &permits},
    {0, "take", "COUNT", "take this many of the semaphore's permits, all or none (1)", .number = &wanted},
    {0, "ttl", "TIME", "the lock's ttl: how long it blocks others if this machine dies (10s)",
     .duration_ms = &cli_given.ttl_ms},
    {0, "grace", "TIME", "from SIGTERM to the end of a lock that cannot be renewed (2s)",
     .duration_ms = &made.grace_ms},
    {0, "cap", "TIME", "hold the lock for at most this long, from the ttl to 49d; CMD is ended in time",
     .duration_ms = &cli_given.cap_ms},
    {0, "at-least", "TIME", "no other client gets the lock before this long after the acquire, up to max-ttl",
     .duration_ms = &cli_given.at_least_ms},
    {0, "leave", NULL, "release the lock when CMD exits, and leave the processes that it started", .flag = &made.leave},
    {0, "on-lost", "COMMAND", "a shell command to run if the lock is lost, after CMD has ended", .text = &made.on_lost},
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
