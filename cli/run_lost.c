/* The command of redlock run --on-lost. */
#include "run.h"

#include "child.h"
#include "message.h"
#include "tree.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *loss_name(const struct cli_run *run, bool killed)
{
    int loss = run->shared->loss;

    if (loss != REDLOCK_NOT_LOST && loss != REDLOCK_LOSS_CLOSED)
        return redlock_loss_name(loss);
    if (killed)
        return "killed";
    return run->shared->outlived ? redlock_loss_name(REDLOCK_LOSS_EXPIRED) : "ended";
}

/* The first in byte order, as in CMD's environment. */
static const char *first_resource(const struct cli_acquire *acquire)
{
    const char *first = acquire->resource;

    for (size_t i = 0; i < acquire->options.also_count; i++)
        if (strcmp(acquire->options.also[i].bytes, first) < 0)
            first = acquire->options.also[i].bytes;
    return first;
}

/* Signals that end redlock, and the end of a child. The others, of the terminal, have their usual effect. */
static sigset_t catch_signals(void)
{
    sigset_t caught = cli_interrupts();

    for (int number = 1; number < NSIG; number++)
        if (cli_child_ignores(number)) /* a blocked signal arrives even if it is ignored */
            sigdelset(&caught, number);
    sigaddset(&caught, SIGCHLD);
    sigprocmask(SIG_SETMASK, &caught, NULL);
    return caught;
}

/* Waits for the command's end. Returns 0, or the signal that arrived before it. */
static int await(pid_t pid, int *status)
{
    const sigset_t caught = catch_signals();

    while (waitpid(pid, status, WNOHANG) == 0) {
        int number = sigwaitinfo(&caught, NULL);
        if (number > 0 && number != SIGCHLD)
            return number;
    }
    return 0;
}

/* Ends the command with all that it has started: this process is a subreaper. */
static void terminate(const struct cli_run *run)
{
    const struct cli_tree tree = {.root = getpid(), .strangers = run->strangers, .stranger_count = run->stranger_count};

    cli_tree_terminate(&tree);
}

void cli_run_on_lost(const struct cli_run *run, bool killed)
{
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char *line = strdup(run->on_lost);
    char *argv[] = {shell, option, line, NULL};
    int status;

    if (line == NULL || setenv("REDLOCK_RESOURCE", first_resource(&run->acquire), 1) != 0 ||
        setenv("REDLOCK_LOSS", loss_name(run, killed), 1) != 0) {
        cli_say("out of memory for the command of --on-lost");
        free(line);
        return;
    }
    struct cli_child child = {.argv = argv, .environment = environ, .terminal = -1, .parent_signal = SIGTERM};
    pid_t pid = cli_child_start(&child, &status);
    free(line);
    if (pid < 0)
        return;
    int number = await(pid, &status);
    if (number != 0) {
        terminate(run);
        cli_interrupt_with(number);
    } else if (cli_child_exit(status) != 0) {
        cli_say("the command of --on-lost failed: exit status %d", cli_child_exit(status));
    }
}
