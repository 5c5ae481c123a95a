#define _GNU_SOURCE
#include "run_lost.h"

#include "child.h"
#include "message.h"

#include <errno.h>
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
    return killed ? "killed" : "ended";
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

static void unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
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
    unblock_signals();
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && cli_child_exit(status) != 0)
        cli_say("the command of --on-lost failed: exit status %d", cli_child_exit(status));
    free(line);
}
