#include "child.h"

#include "command.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t ignored; /* at redlock's start */

void cli_child_note_signals(void)
{
    struct sigaction action;

    sigemptyset(&ignored);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&ignored, number);
}

bool cli_child_ignores(int number)
{
    return sigismember(&ignored, number) == 1;
}

static void reset_signals(void)
{
    struct sigaction action = {0};
    sigset_t none;

    for (int number = 1; number < NSIG; number++) {
        action.sa_handler = cli_child_ignores(number) ? SIG_IGN : SIG_DFL;
        (void)sigaction(number, &action, NULL); /* fails for KILL, STOP and libc's signals */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Signals are still blocked here, which lets a background group set the foreground. */
static void join_group(const struct cli_child *child)
{
    if (child->own_group)
        setpgid(0, 0);
    if (child->terminal >= 0)
        tcsetpgrp(child->terminal, getpgrp());
}

_Noreturn static void become(const struct cli_child *child, int report, pid_t parent)
{
    join_group(child);
    if (child->parent_signal != 0)
        prctl(PR_SET_PDEATHSIG, child->parent_signal);
    if (child->parent_signal != 0 && getppid() != parent)
        _exit(CLI_SYSTEM); /* the parent had already ended */
    if (child->announce != NULL)
        child->announce(child->arg);
    reset_signals();
    execvpe(child->argv[0], child->argv, child->environment);
    int error = errno;
    (void)!write(report, &error, sizeof(error));
    _exit(CLI_NOT_FOUND);
}

static int exit_of_error(int error)
{
    if (error == ENOENT || error == ENOTDIR)
        return CLI_NOT_FOUND;
    return error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE ? CLI_SYSTEM : CLI_NOT_EXECUTABLE;
}

static pid_t fork_with_signals_blocked(const struct cli_child *child, int report)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        become(child, report, parent);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

/* 0: executed, which closed the descriptor. No signal interrupts it: each handler of redlock has SA_RESTART. */
static int read_error(int report)
{
    int error = 0;
    ssize_t count = read(report, &error, sizeof(error));

    return count == (ssize_t)sizeof(error) ? error : 0;
}

pid_t cli_child_start(const struct cli_child *child, int *exit_status)
{
    char quoted[CLI_QUOTED_SIZE];
    int report[2] = {-1, -1};
    pid_t pid = pipe2(report, O_CLOEXEC) == 0 ? fork_with_signals_blocked(child, report[1]) : -1;
    int error = pid < 0 ? errno : 0;

    close(report[1]);
    if (pid > 0)
        error = read_error(report[0]);
    close(report[0]);
    if (error == 0)
        return pid;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    *exit_status = pid < 0 ? CLI_SYSTEM : exit_of_error(error);
    cli_say("cannot run %s: %s", cli_quote(child->argv[0], quoted), strerror(error));
    return -1;
}

int cli_child_exit(int wait_status)
{
    return WIFSIGNALED(wait_status) ? CLI_SIGNAL + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
