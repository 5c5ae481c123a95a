#define _GNU_SOURCE
#include "program.h"

#include "support/bytes.h"
#include "support/clock.h"
#include "support/fixture.h"
#include "support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { WORDS_MAX = 64, VARIABLES_MAX = 512 };

const char program_redlock[] = REDLOCK_PROGRAM;

struct program {
    struct program *next;
    pid_t pid; /* 0: reaped */
    int status;
    int output; /* a memory file, or the terminal's master */
    int errors; /* a memory file; -1: on a terminal */
    struct bytes output_text;
    struct bytes errors_text;
};

static struct program *programs; /* all of them, newest first */

/* --- Start --- */

static bool is_kept(const char *variable)
{
    return strncmp(variable, "REDLOCK", 7) != 0 && strncmp(variable, "XDG", 3) != 0 &&
           strncmp(variable, "HOME=", 5) != 0;
}

/* If a variable is set twice, getenv(3) uses the first one. */
static char **make_environment(const struct program_options *options)
{
    char **made = fixture_allocate(VARIABLES_MAX * sizeof(*made));
    size_t count = 0;

    for (size_t i = 0; options->environment != NULL && options->environment[i] != NULL; i++)
        made[count++] = fixture_text("%s", options->environment[i]);
    if (options->nodes != NULL)
        made[count++] = fixture_text("REDLOCK_NODES=%s", options->nodes);
    for (char **variable = environ; *variable != NULL && count + 3 < VARIABLES_MAX; variable++)
        if (is_kept(*variable))
            made[count++] = fixture_text("%s", *variable);
    made[count++] = fixture_text("HOME=/nonexistent");
    made[count++] = fixture_text("REDLOCK_CONFIG=/dev/null");
    made[count] = NULL;
    return made;
}

static void free_environment(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++)
        free(environment[i]);
    free(environment);
}

static bool place_descriptors(const struct program *program, int terminal)
{
    int input = terminal >= 0 ? terminal : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = terminal >= 0 ? terminal : program->output;
    int errors = terminal >= 0 ? terminal : program->errors;

    return dup2(input, 0) == 0 && dup2(output, 1) == 1 && dup2(errors, 2) == 2;
}

_Noreturn static void become(const struct program *program, const char *terminal_name, char *const *argv,
                             char **environment)
{
    sigset_t none;
    int terminal = -1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number,
                     SIG_DFL); /* as on a terminal, although the tests may run under nohup(1) or in the background */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (terminal_name != NULL) {
        setsid();
        terminal = open(terminal_name, O_RDWR | O_CLOEXEC); /* becomes the terminal of the session */
    }
    if (place_descriptors(program, terminal))
        execvpe(argv[0], argv, environment);
    _exit(99);
}

static void open_terminal(struct program *program, char *name, size_t size)
{
    struct winsize window = {.ws_row = 24, .ws_col = 100};

    program->output = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (program->output < 0 || grantpt(program->output) != 0 || unlockpt(program->output) != 0 ||
        ptsname_r(program->output, name, size) != 0 || ioctl(program->output, TIOCSWINSZ, &window) != 0)
        fixture_fail("cannot make a terminal: %s", strerror(errno));
}

static void open_files(struct program *program)
{
    program->output = memfd_create("output", MFD_CLOEXEC);
    program->errors = memfd_create("errors", MFD_CLOEXEC);
    if (program->output < 0 || program->errors < 0)
        fixture_fail("memfd_create: %s", strerror(errno));
}

static void reap(struct program *program)
{
    int status;

    while (waitpid(program->pid, &status, 0) < 0)
        if (errno != EINTR)
            fixture_fail("waitpid: %s", strerror(errno));
    program->pid = 0;
    program->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void destroy(void *object)
{
    struct program *program = object;
    struct program **link = &programs;

    while (*link != program)
        link = &(*link)->next;
    *link = program->next;
    if (program->pid > 0) {
        kill(program->pid, SIGKILL);
        reap(program);
    }
    close(program->output);
    if (program->errors >= 0)
        close(program->errors);
    bytes_free(&program->output_text);
    bytes_free(&program->errors_text);
    free(program);
}

struct program *program_start_argv(const struct program_options *options, char *const *argv)
{
    static const struct program_options usual;
    struct program *program = fixture_allocate(sizeof(*program));
    char terminal[64];

    options = options != NULL ? options : &usual;
    *program = (struct program){.next = programs, .output = -1, .errors = -1};
    if (options->terminal)
        open_terminal(program, terminal, sizeof(terminal));
    else
        open_files(program);
    char **environment = make_environment(options);
    program->pid = fork();
    if (program->pid == 0)
        become(program, options->terminal ? terminal : NULL, argv, environment);
    if (program->pid < 0)
        fixture_fail("fork: %s", strerror(errno));
    free_environment(environment);
    programs = program;
    fixture_register(program, destroy);
    return program;
}

struct program *program_start_list(const struct program_options *options, const char *first, va_list words)
{
    char *argv[WORDS_MAX] = {NULL};
    size_t count = 0;
    const char *word;

    if (first != NULL)
        argv[count++] = fixture_text("%s", first);
    while ((word = va_arg(words, const char *)) != NULL && count + 1 < WORDS_MAX)
        argv[count++] = fixture_text("%s", word);
    struct program *program = program_start_argv(options, argv);
    while (count > 0)
        free(argv[--count]);
    return program;
}

struct program *program_start(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = program_start_list(options, program_redlock, words);
    va_end(words);
    return program;
}

struct program *program_run(const struct program_options *options, ...)
{
    va_list words;

    va_start(words, options);
    struct program *program = program_start_list(options, program_redlock, words);
    va_end(words);
    program_wait(program);
    return program;
}

void programs_end(void)
{
    while (programs != NULL) {
        fixture_unregister(programs);
        destroy(programs);
    }
}

/* --- Process --- */

pid_t program_pid(const struct program *program)
{
    return program->pid;
}

pid_t program_child(pid_t parent)
{
    char path[64];
    int child = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *children = fopen(path, "re");
    if (children != NULL && fscanf(children, "%d", &child) != 1)
        child = 0;
    if (children != NULL)
        fclose(children);
    return (pid_t)child;
}

pid_t program_process(const struct program *program, enum program_process process)
{
    pid_t found = program->pid;

    for (enum program_process i = PROGRAM_FRONT; i < process; i++)
        found = program_child(found);
    if (found == 0)
        fixture_fail("redlock run has too few processes");
    return found;
}

void program_signal(const struct program *program, int number)
{
    kill(program->pid, number);
}

static bool has_ended(void *arg)
{
    struct program *program = arg;
    siginfo_t information = {0};

    (void)program_output(program); /* a terminal that no process reads stops its writer */
    return program->pid == 0 || (waitid(P_PID, (id_t)program->pid, &information, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                                 information.si_pid > 0);
}

bool program_is_running(struct program *program)
{
    return !has_ended(program);
}

bool program_is_stopped(const struct program *program)
{
    return process_stopped(&(struct process){.pid = program->pid});
}

int program_wait(struct program *program)
{
    if (!wait_until(has_ended, program, PROGRAM_SOON_MS))
        fixture_fail("the program does not end; errors: %s; output: %s", program_errors(program),
                     program_output(program));
    if (program->pid > 0)
        reap(program);
    return program->status;
}

/* --- Output --- */

static const char *end_text(struct bytes *text)
{
    bytes_room(text, 1)[0] = '\0';
    return text->data;
}

static const char *read_file(int file, struct bytes *text)
{
    ssize_t count;

    while ((count = pread(file, bytes_room(text, 4096), 4096, (off_t)text->length)) > 0)
        text->length += (size_t)count;
    return end_text(text);
}

static const char *read_terminal(int terminal, struct bytes *text)
{
    ssize_t count;

    while ((count = read(terminal, bytes_room(text, 4096), 4096)) > 0)
        text->length += (size_t)count;
    return end_text(text);
}

const char *program_output(struct program *program)
{
    if (program->errors < 0)
        return read_terminal(program->output, &program->output_text);
    return read_file(program->output, &program->output_text);
}

const char *program_errors(struct program *program)
{
    return program->errors < 0 ? program_output(program) : read_file(program->errors, &program->errors_text);
}

struct expected {
    struct program *program;
    const char *text;
    unsigned before; /* number of occurrences before */
};

static bool says(void *arg)
{
    const struct expected *expected = arg;

    return strstr(program_output(expected->program), expected->text) != NULL ||
           strstr(program_errors(expected->program), expected->text) != NULL;
}

bool program_says(struct program *program, const char *text)
{
    struct expected expected = {program, text, 0};

    return wait_until(says, &expected, PROGRAM_SOON_MS);
}

unsigned program_count(struct program *program, const char *text)
{
    unsigned count = 0;

    for (const char *found = program_output(program); (found = strstr(found, text)) != NULL; found += strlen(text))
        count++;
    return count;
}

static bool says_again(void *arg)
{
    const struct expected *expected = arg;

    return program_count(expected->program, expected->text) > expected->before;
}

bool program_says_again(struct program *program, const char *text, unsigned before)
{
    struct expected expected = {program, text, before};

    return wait_until(says_again, &expected, PROGRAM_SOON_MS);
}

/* --- Terminal --- */

void program_type(struct program *program, const char *keys)
{
    if (write(program->output, keys, strlen(keys)) != (ssize_t)strlen(keys))
        fixture_fail("cannot type: %s", strerror(errno));
}

void program_hang_up(struct program *program)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (dup3(nothing, program->output, O_CLOEXEC) < 0)
        fixture_fail("dup3: %s", strerror(errno));
    close(nothing);
}

pid_t program_foreground(const struct program *program)
{
    return tcgetpgrp(program->output);
}
