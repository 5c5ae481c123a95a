/* The tree of processes below this one. All are found and get the signal, regardless of their group, session or
 * parent. */
#include "cli/tree.h"

#include "support/test.h"

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_S = 20 };

_Noreturn static void ignore_term_and_wait(int ready)
{
    signal(SIGTERM, SIG_IGN);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

_Noreturn static void wait_in_group(int ready)
{
    setpgid(0, 0);
    ignore_term_and_wait(ready);
}

_Noreturn static void wait_in_session(int ready)
{
    setsid();
    ignore_term_and_wait(ready);
}

_Noreturn static void wait_stopped(int ready)
{
    signal(SIGTERM, SIG_DFL); /* Check has a handler that ends the tests */
    (void)!write(ready, "", 1);
    for (;;)
        raise(SIGSTOP);
}

_Noreturn static void wait_stopped_in_session(int ready)
{
    setsid();
    wait_stopped(ready);
}

_Noreturn static void leave_an_orphan(int ready)
{
    if (fork() == 0)
        wait_in_session(ready);
    _exit(EXIT_SUCCESS);
}

_Noreturn static void have_children(int ready)
{
    if (fork() == 0)
        wait_in_group(ready);
    if (fork() == 0)
        wait_in_session(ready);
    ignore_term_and_wait(ready);
}

static const struct {
    void (*behave)(int ready);
    unsigned processes;
} shapes[] = {{ignore_term_and_wait, 1}, {wait_in_group, 1},   {wait_in_session, 1},
              {wait_stopped, 1},         {leave_an_orphan, 1}, {have_children, 3}};

static void become_reaper(void)
{
    alarm(WAIT_S); /* ends a test that would wait indefinitely */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static pid_t start(void (*behave)(int ready), unsigned processes)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        behave(ready[1]);
    }
    for (unsigned i = 0; i < processes; i++)
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
    ck_assert_int_eq(errno, ECHILD);
}

TEST_CASE(tree, NULL, NULL);

static long missing_call; /* fails as on an older kernel */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long first, long second, long third, long fourth);

/* The linker uses it in place of syscall(2). */
long __wrap_syscall(long number, long first, long second, long third, long fourth)
{
    if (number != missing_call)
        return __real_syscall(number, first, second, third, fourth);
    errno = ENOSYS;
    return -1;
}

static const long recent_calls[] = {-1, SYS_pidfd_open, SYS_pidfd_send_signal};

TEST_ROWS(tree, each_process_is_killed_wherever_it_went, ROWS(shapes) * ROWS(recent_calls))
{
    missing_call = recent_calls[_i / ROWS(shapes)];
    _i %= ROWS(shapes);
    struct cli_tree tree = {.root = getpid()};
    become_reaper();
    start(shapes[_i].behave, shapes[_i].processes);
    ck_assert(cli_tree_is_alive(&tree));
    cli_tree_kill(&tree);
    reap_all();
    ck_assert(!cli_tree_is_alive(&tree));
}

/* Also if it is not in the command's process group. */
TEST_ROWS(tree, a_stopped_process_is_terminated, 2)
{
    struct cli_tree tree = {.root = getpid(), .group = _i ? getpgrp() : 0};
    int status;
    become_reaper();
    pid_t child = start(_i ? wait_stopped_in_session : wait_stopped, 1);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    cli_tree_terminate(&tree);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WTERMSIG(status), SIGTERM);
}

TEST(tree, a_strangers_tree_lives_on)
{
    become_reaper();
    struct cli_process *strangers;
    size_t count;
    start(have_children, 3);
    ck_assert(cli_tree_children(&strangers, &count));
    start(have_children, 3);
    struct cli_tree tree = {.root = getpid(), .strangers = strangers, .stranger_count = count};

    while (cli_tree_is_alive(&tree))
        cli_tree_kill(&tree);
    ck_assert_int_eq(kill(strangers[0].pid, 0), 0);
    struct cli_tree all = {.root = getpid()};
    ck_assert(cli_tree_is_alive(&all));
    cli_tree_kill(&all);
    reap_all();
    free(strangers);
}

TEST(tree, a_spared_child_lives_on_without_what_it_started)
{
    become_reaper();
    pid_t child = start(have_children, 3);
    struct cli_tree tree = {.root = getpid(), .spared = child};

    while (cli_tree_is_alive(&tree))
        cli_tree_kill(&tree);
    ck_assert_int_eq(waitpid(child, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    reap_all();
}

/* The process has ended, and its PID was reused by a process of the tree. */
TEST(tree, process_with_number_of_former_stranger_is_killed)
{
    become_reaper();
    pid_t child = start(ignore_term_and_wait, 1);
    struct cli_process former = {.pid = child, .started = 1};
    struct cli_tree tree = {.root = getpid(), .strangers = &former, .stranger_count = 1};

    ck_assert(cli_tree_is_alive(&tree));
    cli_tree_kill(&tree);
    reap_all();
}

/* A group without a process of the tree may be another program's. Here it is the group of the test program. */
TEST(tree, a_group_is_signalled_only_while_the_tree_is_in_it)
{
    become_reaper();
    pid_t child = start(wait_in_group, 1);
    struct cli_tree own = {.root = getpid(), .group = child};
    struct cli_tree foreign = {.root = getpid(), .group = getpgrp()};

    ck_assert_int_eq(setpgid(0, 0), 0);
    foreign.group = getpgrp();
    cli_tree_signal_group(&foreign, SIGKILL);
    cli_tree_signal_group(&own, SIGKILL);
    reap_all();
}

/* In a new namespace of processes, whose /proc is still the old one's. */
_Noreturn static void kill_by_group(void)
{
    int status = 0;
    pid_t child = start(wait_in_group, 1);
    cli_tree_kill(&(struct cli_tree){.root = getpid(), .group = child});
    alarm(WAIT_S / 2); /* as process 1 of the namespace it ends with its parent */
    _exit(waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? EXIT_SUCCESS : EXIT_FAILURE);
}

TEST(tree, without_a_proc_of_its_own_the_group_is_killed)
{
    int status;
    if (geteuid() != 0)
        return; /* a namespace needs root */
    become_reaper();
    pid_t outer = fork();
    if (outer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t inner = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
        if (inner == 0)
            kill_by_group();
        alarm(WAIT_S / 2);
        _exit(inner > 0 && waitpid(inner, &status, 0) == inner ? WEXITSTATUS(status) : EXIT_FAILURE);
    }
    ck_assert_int_eq(waitpid(outer, &status, 0), outer);
    ck_assert_int_eq(status, 0);
}

TEST(tree, a_zombie_does_not_live)
{
    struct cli_tree tree = {.root = getpid()};
    siginfo_t ended;
    become_reaper();
    pid_t child = start(ignore_term_and_wait, 1);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    ck_assert(!cli_tree_is_alive(&tree));
    reap_all();
}

TEST(tree, children_are_listed)
{
    enum { CHILDREN = 70 };
    struct cli_process *children;
    size_t count;
    become_reaper();
    ck_assert(cli_tree_children(&children, &count));
    ck_assert_uint_eq(count, 0);
    free(children);
    pid_t first = start(have_children, 3);
    for (unsigned i = 1; i < CHILDREN; i++)
        start(ignore_term_and_wait, 1);
    ck_assert(cli_tree_children(&children, &count));
    ck_assert_uint_eq(count, CHILDREN);
    ck_assert_int_eq(children[0].pid, first);
    free(children);
    cli_tree_kill(&(struct cli_tree){.root = getpid()});
    reap_all();
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

/* Has a child, which writes its PID, and a grandchild, which sends each byte back. */
_Noreturn static void have_a_grandchild(int link)
{
    char byte;
    pid_t parent = fork();
    if (parent == 0 && fork() == 0)
        while (read(link, &byte, 1) == 1)
            (void)!write(link, &byte, 1);
    if (parent == 0) {
        parent = getpid();
        (void)!write(link, &parent, sizeof parent);
    }
    for (;;)
        pause();
}

TEST(tree, children_of_a_process_with_a_reused_number_are_spared)
{
    int link[2];
    char byte = 1;
    become_reaper();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, link), 0);
    pid_t root = fork();
    if (root == 0)
        have_a_grandchild(link[1]);
    ck_assert_int_eq(read(link[0], &reused, sizeof reused), sizeof reused);
    cli_tree_kill(&(struct cli_tree){.root = root});
    ck_assert(is_reused);
    ck_assert_int_eq(write(link[0], &byte, 1), 1);
    ck_assert_int_eq(read(link[0], &byte, 1), 1);
    is_reused = false;
    reused = 0;
    cli_tree_kill(&(struct cli_tree){.root = getpid()});
    reap_all();
    close(link[0]);
    close(link[1]);
}

TEST_PROGRAM("cli_tree")
