/* The tree of processes below this one. All are found and get the signal, regardless of their group, session or
 * parent. processes.txt shows the same on older kernels. */
#include "cli/tree.h"

#include "support/test.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_S = 60, LIVES = 7, PROCESSES_MOST = 16 };

static int ready[2]; /* each process writes its PID */
static pid_t pids[PROCESSES_MOST];
static unsigned count; /* of these */

static void become_reaper(void)
{
    alarm(WAIT_S); /* ends a test that would wait indefinitely */
    count = 0;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(pipe(ready), 0);
}

static void close_pipe(void)
{
    alarm(0);
    close(ready[0]);
    close(ready[1]);
}

TEST_CASE(tree, become_reaper, close_pipe);

static void end_alive(int number)
{
    (void)number;
    _exit(LIVES);
}

static pid_t fork_all(const char *shape, bool direct);

/* Ignores SIGTERM, unless it is stopped. SIGUSR1 ends it if nothing else has. */
_Noreturn static void become(char kind, const char *children, bool direct)
{
    bool stops = kind == 't' || kind == 'T';
    pid_t self = getpid();
    if (direct)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kind == 'g')
        setpgid(0, 0);
    if (kind == 's' || kind == 'T')
        setsid();
    fork_all(children, false);
    if (kind == 'x')
        _exit(EXIT_SUCCESS);
    signal(SIGTERM, stops ? SIG_DFL : SIG_IGN);
    signal(SIGUSR1, end_alive);
    (void)!write(ready[1], &self, sizeof self);
    for (;;)
        stops ? raise(SIGSTOP) : pause();
}

/* A process for each letter: - in this one's group, g in its own, s in its own session, t stopped, T both of these, x ends and
 * leaves its children. These are in the brackets behind it. Returns the last child. */
static pid_t fork_all(const char *shape, bool direct)
{
    pid_t child = 0;
    while (*shape && *shape != ')') {
        char kind = *shape++;
        bool has_children = *shape == '(';
        child = fork();
        if (child == 0)
            become(kind, has_children ? shape + 1 : "", direct);
        if (strchr("tTx", kind))
            waitpid(child, NULL, WUNTRACED);
        if (has_children)
            shape = strchr(shape, ')') + 1;
    }
    return child;
}

/* Notes the PIDs. Returns that of the last child. */
static pid_t start(const char *shape)
{
    pid_t last = fork_all(shape, true);
    for (; *shape; shape++)
        if (!strchr("x()", *shape))
            ck_assert_int_eq(read(ready[0], &pids[count++], sizeof pids[0]), sizeof pids[0]);
    return last;
}

/* Ends all that live, and counts them. */
static unsigned count_survivors(void)
{
    unsigned survivors = 0;
    int status;
    for (unsigned i = 0; i < count; i++)
        kill(pids[i], SIGUSR1);
    while (waitpid(-1, &status, 0) > 0)
        survivors += WIFEXITED(status) && WEXITSTATUS(status) == LIVES;
    return survivors;
}

static void kill_group(const struct cli_tree *tree)
{
    cli_tree_signal_group(tree, SIGKILL);
}

/* The last child may be spared, or its group that of the command; or the group is the test's. The strangers are
 * processes of the same shape that were there before, or that had their numbers. */
static const struct {
    const char *shape;
    void (*act)(const struct cli_tree *tree);
    unsigned survivors;
    enum { NO_GROUP, LAST, OURS } group;
    bool spared;
    enum { NO_STRANGERS, STRANGERS, FORMER } strangers;
} rows[] = {
    {"-gst", cli_tree_kill, 0, NO_GROUP, false, NO_STRANGERS},
    {"x(s)", cli_tree_kill, 0, NO_GROUP, false, NO_STRANGERS},
    {"-(gs)", cli_tree_kill, 0, NO_GROUP, false, NO_STRANGERS},
    {"g(-s)", cli_tree_kill, 0, LAST, false, NO_STRANGERS},
    {"t", cli_tree_terminate, 0, NO_GROUP, false, NO_STRANGERS},
    {"T", cli_tree_terminate, 0, OURS, false, NO_STRANGERS},
    {"-(gs)", cli_tree_kill, 3, NO_GROUP, false, STRANGERS},
    {"-", cli_tree_kill, 0, NO_GROUP, false, FORMER},
    {"-(gs)", cli_tree_kill, 1, NO_GROUP, true, NO_STRANGERS},
    {"g", kill_group, 0, LAST, false, NO_STRANGERS},
    /* A group without a process of the tree may be another program's. */
    {"g", kill_group, 1, OURS, false, NO_STRANGERS},
};

TEST_ROWS(tree, these_processes_survive, ROWS(rows))
{
    struct cli_process *strangers = NULL;
    struct cli_tree tree = {.root = getpid()};
    ck_assert_int_eq(setpgid(0, 0), 0);
    if (rows[_i].strangers)
        start(rows[_i].shape);
    ck_assert(cli_tree_children(&strangers, &tree.stranger_count));
    ck_assert_uint_eq(tree.stranger_count, rows[_i].strangers != NO_STRANGERS);
    if (rows[_i].strangers == FORMER)
        strangers[0].started = 1;
    pid_t last = start(rows[_i].shape);
    tree.strangers = strangers;
    tree.spared = rows[_i].spared ? last : 0;
    tree.group = rows[_i].group == LAST ? last : rows[_i].group == OURS ? getpgrp() : 0;
    ck_assert(cli_tree_is_alive(&tree));
    rows[_i].act(&tree);
    while (rows[_i].act != kill_group && cli_tree_is_alive(&tree))
        ; /* no longer when they are zombies */
    ck_assert_uint_eq(count_survivors(), rows[_i].survivors);
    free(strangers);
}

/* In a new namespace of processes, whose /proc is still the old one's. */
TEST(tree, without_a_proc_of_its_own_the_group_is_killed)
{
    int status;
    if (geteuid() != 0)
        return; /* a namespace needs root */
    pid_t outer = fork();
    if (outer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t inner = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
        if (inner == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            cli_tree_kill(&(struct cli_tree){.root = getpid(), .group = start("g")});
            _exit((int)count_survivors());
        }
        _exit(inner > 0 && waitpid(inner, &status, 0) == inner ? WEXITSTATUS(status) : EXIT_FAILURE);
    }
    ck_assert_int_eq(waitpid(outer, &status, 0), outer);
    ck_assert_int_eq(status, 0);
}

/* --- A PID is reused while the tree is read --- */

static pid_t reused; /* 0: none. /proc shows another process with this PID as soon as its children are listed */
static bool is_reused;

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* The linker uses these in place of fopen(3) and open(2). */
FILE *__wrap_fopen(const char *path, const char *mode)
{
    char children[64];
    snprintf(children, sizeof children, "/proc/%d/task/%d/children", (int)reused, (int)reused);
    is_reused = is_reused || strcmp(path, children) == 0;
    return __real_fopen(path, mode);
}

int __wrap_open(const char *path, int flags, ...)
{
    char stat[64];
    snprintf(stat, sizeof stat, "/proc/%d/stat", (int)reused);
    if (!is_reused || strcmp(path, stat) != 0)
        return __real_open(path, flags);
    int file = memfd_create("stat", MFD_CLOEXEC);
    dprintf(file, "%d (another) S 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 1", (int)reused); /* started at tick 1 */
    lseek(file, 0, SEEK_SET);
    return file;
}

TEST(tree, children_of_a_process_with_a_reused_number_are_spared)
{
    reused = start("-(-)");
    cli_tree_kill(&(struct cli_tree){.root = getpid()});
    ck_assert(is_reused);
    is_reused = false;
    reused = 0;
    ck_assert_uint_eq(count_survivors(), 2);
}

TEST_PROGRAM("cli_tree")
