#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 40, ANSWER_TIMEOUT_S = 120 };

_Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static void redirect(int from, int to)
{
    if (dup2(from, to) < 0)
        _exit(127);
}

static _Noreturn void become(const char *const *arguments, int input, int output, pid_t parent)
{
    char *copies[ARGUMENTS_MAX + 1] = {NULL}; /* exec requires them non-const */
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
        copies[i] = strdup(arguments[i]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    redirect(input, STDIN_FILENO);
    redirect(output, STDOUT_FILENO);
    execvp(copies[0], copies);
    fprintf(stderr, "bench: cannot run %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static void open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("no pipe: %s", strerror(errno));
}

static void open_ends(enum process_io io, int input[2], int output[2])
{
    if (io == PROCESS_PIPED) {
        open_pipe(input);
        open_pipe(output);
        return;
    }
    input[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    output[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

void process_start(struct process *process, const char *const *arguments, enum process_io io)
{
    int input[2], output[2];
    *process = (struct process){0};
    open_ends(io, input, output);
    fflush(NULL); /* otherwise the child would inherit our unwritten output */
    pid_t parent = getpid();
    process->pid = fork();
    if (process->pid < 0)
        die("no process: %s", strerror(errno));
    if (process->pid == 0)
        become(arguments, input[0], output[1], parent);
    close(input[0]);
    close(output[1]);
    if (io == PROCESS_PIPED) {
        process->to = fdopen(input[1], "w");
        process->from = fdopen(output[0], "r");
    }
}

static void close_pipes(struct process *process)
{
    if (process->to)
        fclose(process->to);
    if (process->from)
        fclose(process->from);
    process->to = process->from = NULL;
}

int process_finish(struct process *process)
{
    int status = 0;
    if (process->pid == 0)
        return 0;
    if (process->to)
        fclose(process->to);
    process->to = NULL;
    waitpid(process->pid, &status, 0);
    process->pid = 0;
    close_pipes(process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void process_kill(struct process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    process->pid = 0;
    close_pipes(process);
}

int process_ended(struct process *process)
{
    if (process->pid && waitpid(process->pid, NULL, WNOHANG) == process->pid)
        process->pid = 0;
    return process->pid == 0;
}

static void on_alarm(int number)
{
    static const char text[] = "bench: a contender hangs\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(2); /* the children die with this process */
}

void process_read_line(struct process *process, char *line, size_t size)
{
    signal(SIGALRM, on_alarm);
    alarm(ANSWER_TIMEOUT_S);
    if (!fgets(line, (int)size, process->from))
        die("process %d ended in the middle of its work", (int)process->pid);
    alarm(0);
    line[strcspn(line, "\n")] = '\0';
}

const char *process_sibling(const char *name, char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size);
    if (length <= 0 || (size_t)length >= size)
        die("where this program is cannot be read from /proc/self/exe");
    path[length] = '\0';
    char *base = strrchr(path, '/') + 1;
    size_t room = size - (size_t)(base - path);
    if ((size_t)snprintf(base, room, "%s", name) >= room)
        die("the path of %s is too long", name);
    return path;
}
