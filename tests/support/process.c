#define _GNU_SOURCE
#include "process.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNAL_TIMEOUT_MS = 60000 };

static void default_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The child's part of a start. All of it is safe after fork() in a program with threads. */
_Noreturn static void become(char *const *argv, const char *output_file, pid_t parent)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = open(output_file ? output_file : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    default_signals();
    /* The parent may have ended before the second call. */
    bool is_bound = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
    if (is_bound && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0)
        execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* All signals are blocked, so no handler of the test runs in the child. */
void process_start(struct process *process, char *const *argv, const char *output_file)
{
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    process->pid = fork();
    if (process->pid == 0)
        become(argv, output_file, parent);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (process->pid < 0)
        fixture_fail("fork: %s", strerror(errno));
}

bool process_running(const struct process *process)
{
    return process->pid > 0 && !process_has_ended(process->pid);
}

static bool has_stopped(void *process)
{
    return process_stopped(process) || !process_running(process);
}

static bool goes_on(void *process)
{
    return !process_stopped(process);
}

void process_signal(const struct process *process, int number)
{
    struct process signalled = *process;
    if (!process_running(process))
        return;
    (void)kill(process->pid, number);
    if ((number == SIGSTOP && !wait_until(has_stopped, &signalled, SIGNAL_TIMEOUT_MS)) ||
        (number == SIGCONT && !wait_until(goes_on, &signalled, SIGNAL_TIMEOUT_MS)))
        fixture_fail("process %d does not %s", (int)process->pid, number == SIGSTOP ? "stop" : "go on");
}

static bool has_ended(void *process)
{
    return !process_running(process);
}

bool process_wait(struct process *process, uint64_t deadline_ns)
{
    if (!wait_until(has_ended, process, (unsigned)test_ms_left(deadline_ns)))
        return false;
    while (process->pid > 0 && waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    process->pid = 0;
    return true;
}

void process_kill(struct process *process)
{
    process_signal(process, SIGKILL);
    if (!process_wait(process, test_deadline_ns(SIGNAL_TIMEOUT_MS)))
        fixture_fail("process %d does not end after SIGKILL", (int)process->pid);
}

char process_state(pid_t pid)
{
    char path[64], state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool found = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return found ? state : 0;
}

bool process_has_ended(pid_t pid)
{
    char state = process_state(pid);
    return state == 0 || state == 'Z';
}

bool process_stopped(const struct process *process)
{
    char state = process_state(process->pid);
    return state == 'T' || state == 't';
}
