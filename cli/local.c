/* redlock local: runs temporary servers while a command runs. */
#include "child.h"
#include "command.h"
#include "message.h"
#include "servers.h"

#include <redlock/redlock.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_COUNT = 5 };

static struct cli_number count = {DEFAULT_COUNT, 1, REDLOCK_NODES_MAX};
static const char *server; /* NULL: the default */
static bool sentinel, cluster;

/* --- The command --- */

static volatile sig_atomic_t command_pid;

/* The command gets the terminal's signals directly. */
static void forward(int number, siginfo_t *information, void *context)
{
    int error = errno;

    (void)context;
    if (command_pid > 0 && information->si_code != SI_KERNEL)
        kill((pid_t)command_pid, number);
    errno = error;
}

static void forward_signals(void)
{
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

static int run_command(char **argv)
{
    struct cli_child child = {.argv = argv, .environment = environ, .terminal = -1};
    int status = CLI_SYSTEM;
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a signal that arrives now is forwarded when the process exists */
    forward_signals();
    command_pid = cli_child_start(&child, &status);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (command_pid < 0)
        return status;
    while (waitpid((pid_t)command_pid, &status, 0) < 0 && errno == EINTR)
        ;
    command_pid = 0;
    return cli_child_exit(status);
}

/* --- Its environment --- */

/* Settings of the user's deployment, such as its password, must not affect this one. */
static bool export(const struct cli_servers *servers)
{
    return setenv("REDLOCK_NODES", cli_servers_nodes(servers), 1) == 0 &&
           setenv("REDLOCK_CONFIG", cli_servers_config(servers), 1) == 0 && unsetenv("REDLOCK_USER") == 0 &&
           unsetenv("REDLOCK_PASSWORD") == 0 && unsetenv("REDLOCK_PASSWORD_FILE") == 0;
}

static char *shell(void)
{
    static char usual[] = "/bin/sh";
    char *named = getenv("SHELL");

    return named != NULL && *named != '\0' ? named : usual;
}

static int run(const struct cli_arguments *arguments)
{
    char *shell_argv[] = {shell(), NULL};
    char **argv = arguments->command != NULL ? arguments->command : shell_argv;
    struct cli_servers *servers;

    if (arguments->count > 0)
        return cli_misused("a command must follow --: redlock local -- CMD");
    if (argv[0] == NULL)
        return cli_misused("there is no command after --");
    if (server != NULL && *server == '\0')
        return cli_misused("--server is empty; name a program, as in --server valkey-server");
    if (sentinel && cluster)
        return cli_misused("--sentinel and --cluster exclude each other: leave one of them out");
    enum cli_servers_kind kind = sentinel ? CLI_SERVERS_SENTINEL : cluster ? CLI_SERVERS_CLUSTER : CLI_SERVERS_PLAIN;
    int status = cli_servers_start((unsigned)count.value, kind, server, &servers);
    if (status != CLI_OK)
        return status;
    if (argv == shell_argv)
        cli_say("%ld temporary nodes, trusted: %s; they end with this shell", count.value, cli_servers_nodes(servers));
    status = export(servers) ? run_command(argv) : CLI_SYSTEM;
    cli_servers_end(servers);
    return status;
}

static const struct cli_option options[] = {
    {'n', "count", "NUMBER", "number of nodes, 1 to 32 (5)", .number = &count},
    {'S', "sentinel", NULL, "each node is a master with a replica, behind three Sentinels", .flag = &sentinel},
    {'C', "cluster", NULL, "each node is a Redis Cluster of three masters", .flag = &cluster},
    {'s', "server", "PROGRAM", "the server to start (redis-server, or valkey-server)", .text = &server},
    {0},
};

const struct cli_command cli_command_local = {
    .name = "local",
    .arguments = "[-- CMD [ARG ...]]",
    .summary = "Start temporary nodes on this machine, and run CMD or a shell with them",
    .help =
        "The servers listen on free ports of 127.0.0.1, keep nothing on disk, are trusted at once, and end with CMD, also when\n"
        "redlock is killed. CMD (default: $SHELL) finds them in REDLOCK_NODES, and what clusters need in REDLOCK_CONFIG.\n"
        "They run redis-server, or valkey-server where only that is installed; --server or $REDLOCK_SERVER_PROGRAM names\n"
        "another program.\n"
        "\n"
        "exit status: CMD's; 128 + signal; 71 the servers did not start\n",
    .options = options,
    .takes_command = true,
    .run = run,
};
