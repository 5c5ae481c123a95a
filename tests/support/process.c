#define _GNU_SOURCE
#include "process.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_FREE = 3, KILL_TIMEOUT_MS = 10000 };

/* The child's part of a start. All of it is safe after fork() in a program with threads. */
struct start {
    const struct process_options *options;
    pid_t parent;
    int alive;  /* a descriptor to keep open */
    int status; /* where to report why exec failed */
};

static void default_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool place_descriptor(int from, int to)
{
    return from >= 0 && dup2(from, to) == to;
}

static bool place_descriptors(const struct start *start)
{
    const struct process_options *options = start->options;
    const char *output = options->output ? options->output : "/dev/null";
    int input = options->input > 0 ? options->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return place_descriptor(input, STDIN_FILENO) && place_descriptor(log, STDOUT_FILENO) &&
           place_descriptor(log, STDERR_FILENO);
}

static bool bind_to_parent(const struct start *start)
{
    if (start->options->detached)
        return setsid() >= 0;
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return false;
    errno = ESRCH; /* the parent may have ended before the line above */
    return getppid() == start->parent;
}

_Noreturn static void become(const struct start *start)
{
    /* The pipes' ends may have the numbers of the standard streams. The copy of the first one stays open. */
    int alive = fcntl(start->alive, F_DUPFD, FIRST_FREE), status = fcntl(start->status, F_DUPFD_CLOEXEC, FIRST_FREE);
    default_signals();
    if (alive >= 0 && bind_to_parent(start) && place_descriptors(start) &&
        (!start->options->directory || chdir(start->options->directory) == 0))
        execvp(start->options->argv[0], start->options->argv);
    int error = errno;
    (void)!write(status, &error, sizeof error);
    _exit(127);
}

/* All signals are blocked, so no handler of the test runs in the child. */
static pid_t fork_and_become(const struct start *start)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        become(start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int read_status(int fd)
{
    int error = 0;
    ssize_t count;
    do
        count = read(fd, &error, sizeof error);
    while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof error ? error : 0;
}

static void forget(struct process *process)
{
    if (process->alive >= 0)
        close(process->alive);
    *process = (struct process){.alive = -1};
}

bool process_start(struct process *process, const struct process_options *options)
{
    int alive[2];
    int status[2];
    if (pipe2(alive, O_CLOEXEC) != 0 || pipe2(status, O_CLOEXEC) != 0)
        fixture_fail("pipe: %s", strerror(errno));
    struct start start = {.options = options, .parent = getpid(), .alive = alive[1], .status = status[1]};
    pid_t pid = fork_and_become(&start);
    int error = pid < 0 ? errno : 0;
    close(alive[1]);
    close(status[1]);
    if (pid > 0)
        error = read_status(status[0]);
    close(status[0]);
    *process = (struct process){.pid = pid, .alive = alive[0]};
    if (error == 0)
        return true;
    if (pid > 0)
        process_kill(process);
    else
        forget(process);
    errno = error;
    return false;
}

static bool wait_for_end(const struct process *process, uint64_t deadline_ns)
{
    struct pollfd ended = {.fd = process->alive, .events = POLLIN};
    int count;
    do
        count = poll(&ended, 1, test_ms_left(deadline_ns));
    while (count < 0 && errno == EINTR);
    return count > 0;
}

bool process_running(const struct process *process)
{
    return process->pid > 0 && !wait_for_end(process, 0);
}

void process_signal(const struct process *process, int number)
{
    if (process_running(process))
        (void)kill(process->pid, number);
}

bool process_wait(struct process *process, uint64_t deadline_ns)
{
    if (process->pid <= 0)
        return true;
    if (!wait_for_end(process, deadline_ns))
        return false;
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    forget(process);
    return true;
}

void process_kill(struct process *process)
{
    if (process->pid <= 0)
        return;
    process_signal(process, SIGKILL);
    if (!process_wait(process, test_deadline_ns(KILL_TIMEOUT_MS)))
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
