/* The tree of processes below this one, where a PID is reused, a group is another program's, or a process has ended. The stories of
 * redlock run, and cli_trial, have the trees of living processes. */
#include "cli/tree.h"

#include "support/test.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_S = 20 };

static void become_reaper(void)
{
    alarm(WAIT_S); /* ends a test that would wait indefinitely */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

/* A child in a process group of its own. */
static pid_t start(void)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    ck_assert_int_eq(setpgid(child, child), 0);
    return child;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
    ck_assert_int_eq(errno, ECHILD);
}

TEST_CASE(tree, NULL, NULL);

/* The process has ended, and its PID was reused by a process of the tree. */
TEST(tree, process_with_number_of_former_stranger_is_killed)
{
    become_reaper();
    pid_t child = start();
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
    pid_t child = start();
    struct cli_tree own = {.root = getpid(), .group = child};
    struct cli_tree foreign = {.root = getpid(), .group = getpgrp()};

    ck_assert_int_eq(setpgid(0, 0), 0);
    foreign.group = getpgrp();
    cli_tree_signal_group(&foreign, SIGKILL);
    cli_tree_signal_group(&own, SIGKILL);
    reap_all();
}

TEST(tree, a_zombie_does_not_live)
{
    struct cli_tree tree = {.root = getpid()};
    siginfo_t ended;
    become_reaper();
    pid_t child = start();
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    ck_assert(!cli_tree_is_alive(&tree));
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
