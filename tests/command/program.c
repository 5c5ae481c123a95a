#include "story.h"

#include "support/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { VARIABLES_MAX = 512 };

struct program_setting program_setting;

static struct program *programs; /* all of them, newest first */

char *program_text(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        fixture_fail("out of memory for a text");
    va_end(arguments);
    fixture_register(text, free);
    return text;
}

/* --- Start --- */

static bool is_kept(const char *variable)
{
    return !begins(variable, "REDLOCK") && !begins(variable, "XDG") && !begins(variable, "HOME=");
}

static void make_environment(char **made)
{
    const struct program_setting *setting = &program_setting;
    const char *other = getenv("REDLOCK_TEST_PROGRAM");
    size_t count = 0;
    if (setting->nodes != NULL)
        made[count++] = program_text("REDLOCK_NODES=%s", setting->nodes);
    for (char **variable = environ; *variable != NULL && count + 4 < VARIABLES_MAX; variable++)
        if (is_kept(*variable))
            made[count++] = *variable;
    made[count++] = program_text("HOME=/nonexistent");
    made[count++] = program_text("R=%s", other != NULL ? other : REDLOCK_PROGRAM);
    made[count++] = program_text("REDLOCK_CONFIG=%s", setting->config != NULL ? setting->config : "/dev/null");
    made[count] = NULL;
}

static bool place_descriptors(const struct program *program, int terminal)
{
    int input = terminal >= 0 ? terminal : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = terminal >= 0 ? terminal : program->output;
    int errors = terminal >= 0 ? terminal : program->errors;
    return dup2(input, 0) == 0 && dup2(output, 1) == 1 && dup2(errors, 2) == 2;
}

/* Since 5.1 Linux numbers its system calls in order, on every processor alike. */
static bool become_older(int newest_call)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)newest_call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return newest_call == 0 ||
           (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

_Noreturn static void become(const struct program *program, const char *terminal_name, char *const *argv,
                             char **environment)
{
    sigset_t none;
    int terminal = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL); /* as on a terminal, although nohup(1) or a script may run the tests */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (terminal_name != NULL) {
        setsid();
        terminal = open(terminal_name, O_RDWR | O_CLOEXEC); /* becomes the terminal of the session */
    }
    if (place_descriptors(program, terminal) && become_older(program_setting.newest_call))
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
    fcntl(program->output, F_SETFL, O_APPEND); /* many processes may write at once */
}

static void destroy(struct program *program)
{
    if (!program->has_ended) {
        kill(program->pid, SIGKILL);
        waitpid(program->pid, NULL, 0);
    }
    close(program->output);
    if (program->errors >= 0)
        close(program->errors);
    bytes_free(&program->output_text);
    bytes_free(&program->errors_text);
    free(program);
}

struct program *program_start(const char *line)
{
    struct program *program = fixture_allocate(sizeof *program);
    char bash[] = "bash", option[] = "-c", terminal[64], *environment[VARIABLES_MAX];
    char *const argv[] = {bash, option, program_text("%s", line), NULL};
    *program = (struct program){.next = programs, .output = -1, .errors = -1};
    if (program_setting.terminal)
        open_terminal(program, terminal, sizeof terminal);
    else
        open_files(program);
    make_environment(environment);
    program->pid = fork();
    if (program->pid == 0)
        become(program, program_setting.terminal ? terminal : NULL, argv, environment);
    if (program->pid < 0)
        fixture_fail("fork: %s", strerror(errno));
    programs = program;
    return program;
}

void programs_end(void)
{
    while (programs != NULL) {
        struct program *newest = programs;
        programs = newest->next;
        destroy(newest);
    }
}

/* --- Process --- */

pid_t program_child(pid_t parent)
{
    FILE *file = fopen(program_text("/proc/%d/task/%d/children", (int)parent, (int)parent), "re");
    pid_t child = 0;
    if (file != NULL && fscanf(file, "%d", &child) != 1)
        child = 0;
    if (file != NULL)
        fclose(file);
    return child;
}

bool program_is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

bool program_has_ended(struct program *program)
{
    int status;
    (void)program_output(program); /* a terminal that no process reads stops its writer */
    if (!program->has_ended && waitpid(program->pid, &status, WNOHANG) == program->pid) {
        program->has_ended = true;
        program->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    return program->has_ended;
}

/* --- Output --- */

/* A file is read from where the last call ended; the offset of its descriptor is the program's. */
static const char *read_more(const struct program *program, int from, struct bytes *text)
{
    bool is_terminal = program->errors < 0;
    ssize_t count;
    do {
        char *room = bytes_room(text, 4096);
        count = is_terminal ? read(from, room, 4095) : pread(from, room, 4095, (off_t)text->length);
        text->length += count > 0 ? (size_t)count : 0;
    } while (count > 0);
    text->data[text->length] = '\0';
    return text->data;
}

const char *program_output(struct program *program)
{
    return read_more(program, program->output, &program->output_text);
}

const char *program_errors(struct program *program)
{
    return program->errors < 0 ? program_output(program) : read_more(program, program->errors, &program->errors_text);
}

/* --- Terminal --- */

void program_type(const struct program *program, const char *keys)
{
    if (write(program->output, keys, strlen(keys)) != (ssize_t)strlen(keys))
        fixture_fail("cannot type: %s", strerror(errno));
}

void program_hang_up(const struct program *program)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup3(nothing, program->output, O_CLOEXEC) < 0)
        fixture_fail("dup3: %s", strerror(errno));
    close(nothing);
}
