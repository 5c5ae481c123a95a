/* redlock run, what run.txt cannot say: control groups, older kernels, and moments that only the test can choose. */
#include "story.h"

#include "support/clock.h"
#include "support/temp_dir.h"

#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { MAJORITY = 3 };

#define NAME real_key("run")
/* Long enough for nodes to reply, even on a loaded machine. */
#define SHORT_TTL "--ttl 3s --grace 500ms --timeout 500ms"

/* A script may not contain single quotes. */
static struct program *run_script(const char *options, const char *script)
{
    return program_start("run %s " NAME " -- sh -c '%s'", options, script);
}

TEST(shared_nodes, the_lock_is_kept_until_what_its_command_leaves_behind_has_ended)
{
    struct program *program =
        run_script("--grace 400ms", "(trap \"\" TERM; while :; do sleep 0.1; done) & echo group=$$; exit 0");
    pid_t group = program_number(program, "group=");
    uint64_t deadline = test_deadline_ns(PROGRAM_SOON_MS);
    while (!program_is_gone(-group)) {
        ck_assert(test_now_ns() < deadline);
        bool held = scene_held_on(NAME) >= MAJORITY;
        ck_assert_msg(held || program_is_gone(-group), "processes work on without the lock");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* short beside the processes' last moments */
    }
    program_exits(program, 0);
}

/* In a control group that is delegated, as systemd marks it. Returns "" where there is none of version 2, or no right. */
static const char *make_delegated_group(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    for (int i = 0; i < ROWS(roots); i++) {
        const char *path = program_text("%s/redlock-test-%d", roots[i], (int)getpid());
        if (mkdir(path, 0755) != 0)
            continue;
        if (access(program_text("%s/cgroup.kill", path), W_OK) == 0 &&
            setxattr(path, "trusted.delegate", "1", 1, 0) == 0)
            return path;
        rmdir(path);
    }
    return "";
}

/* Signals to processes of another user need a right that redlock does not have here. */
TEST(shared_nodes, a_delegated_control_group_ends_with_the_lock)
{
    const char *group = make_delegated_group();
    if (*group == '\0')
        return;
    struct program *program = program_shell(
        "echo $$ >%s/cgroup.procs && exec setpriv --bounding-set=-kill --inh-caps=-kill $R run " SHORT_TTL " " NAME
        " -- setpriv --reuid=65534 sh -c 'cat /proc/self/cgroup; trap \"\" TERM; echo pid=$$.; while :; do sleep 0.1; done'",
        group);
    pid_t other = program_number(program, "pid=");
    program_output_has(program,
                       program_text("/redlock-test-%d/redlock-%d\n", (int)getpid(), (int)program_pid(program)));
    scene_delete(NAME);
    program_exits(program, LOST);
    ck_assert(program_is_gone(other));
    ck_assert_msg(rmdir(group) == 0, "the command's group is left");
}

/* A directory in the place of the control groups: a delegated group without cgroup.kill, as before Linux 5.14. NULL:
 * this system has no groups of version 2, or the user no right to mark it. */
static char *make_older_group(const char *root)
{
    char line[256];
    char *own = NULL;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (own == NULL && file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "0::", 3) == 0)
            own = program_text("%s%.*s", root, (int)strcspn(line + 3, "\n"), line + 3);
    if (file != NULL)
        fclose(file);
    if (own == NULL)
        return NULL;
    program_exits(program_shell("mkdir -p '%s'", own), 0);
    return setxattr(own, "trusted.delegate", "1", 1, 0) == 0 ? own : NULL;
}

TEST(shared_nodes, on_an_older_kernel_too_the_command_ends_with_the_lock)
{
    const char *root = temp_dir_path(temp_dir_make());
    real_note_descriptors();
    const char *group = make_older_group(root);
    program_setting.newest_call = SYS_pidfd_send_signal - 1;
    struct program *program = program_shell(
        "export STUBBORN='trap \"\" TERM; echo pid=$$; for i in $(seq 200); do sleep 0.1; done'\n"
        "set -- $R run " SHORT_TTL " " NAME " -- bash -c 'setsid --wait sh -c \"$STUBBORN\"'\n%s exec \"$@\"",
        group == NULL
            ? ""
            : program_text("set -- unshare --mount sh -c 'mount --bind %s /sys/fs/cgroup && exec \"$@\"' sh \"$@\"\n",
                           root));
    pid_t escaped = program_number(program, "pid=");
    scene_delete(NAME);
    program_exits(program, LOST);
    ck_assert(program_is_gone(escaped));
    ck_assert_msg(group == NULL || rmdir(group) == 0, "the command's group is left");
}

/* CMD writes the PIDs of the holder and of CMD's child. */
static const char family[] = "sleep 30 & echo holder=$PPID child=$!; trap \"exit 5\" USR1; while :; do sleep 0.1; done";

/* Limits the link of these two processes to few messages, as if each sent many, by changing the holder's socket from
 * outside. */
static void narrow_link(pid_t holder)
{
    int process = (int)syscall(SYS_pidfd_open, holder, 0);
    int type = 0;
    int least = 1;
    ck_assert_int_ge(process, 0);
    for (int number = 3; number < 32; number++) {
        int copy = (int)syscall(SYS_pidfd_getfd, process, number, 0);
        socklen_t size = sizeof type;
        if (copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
            ck_assert_int_eq(setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        if (copy >= 0)
            close(copy);
    }
    close(process);
}

/* As after a long Ctrl-Z: meanwhile more ends of validity pass than the link holds messages. */
TEST(shared_nodes, front_that_was_stopped_for_long_knows_the_end_of_validity)
{
    struct program *program = run_script("--ttl 3s --grace 0 --timeout 500ms", family);
    narrow_link(program_number(program, "holder="));
    program_signal(program, SIGSTOP);
    scene_await_renewals(NAME, 12); /* the limited link holds eight messages */
    program_signal(program, SIGCONT);
    program_signal(program, SIGUSR1);
    program_exits(program, 5);
}

struct forking {
    pid_t parent, child;
};

/* ptrace(2) stops both processes at the fork. */
static bool has_forked(void *arg)
{
    struct forking *forking = arg;
    unsigned long child;
    int status;
    if (waitpid(forking->parent, &status, __WALL | WNOHANG) != forking->parent)
        return false;
    ck_assert_int_eq(status >> 8, SIGTRAP | PTRACE_EVENT_FORK << 8);
    ck_assert_int_eq(ptrace(PTRACE_GETEVENTMSG, forking->parent, NULL, &child), 0);
    forking->child = (pid_t)child;
    return true;
}

/* The holder is killed right after its fork, and CMD is faster. Processes that CMD has started before are ended all
 * the same. */
TEST(shared_nodes, holder_killed_right_after_its_fork_is_noticed)
{
    scene_hold(NAME);
    struct program *program = run_script("-v", "sleep 30 & echo left=$!; wait");
    program_shows(program, "first attempt");
    struct forking forking = {.parent = program_process(program, PROGRAM_HOLDER)};
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, forking.parent, NULL, PTRACE_O_TRACEFORK), 0);
    scene_delete(NAME);
    ck_assert(wait_until(has_forked, &forking, PROGRAM_SOON_MS));
    ck_assert_int_eq(waitpid(forking.child, NULL, __WALL), forking.child);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, forking.child, NULL, NULL), 0); /* the child goes on */
    pid_t left = program_number(program, "left=");
    kill(forking.parent, SIGKILL);
    ck_assert_int_eq(waitpid(forking.parent, NULL, __WALL), forking.parent);
    program_exits(program, LOST);
    ck_assert(program_soon_gone(left));
    scene_delete(NAME);
}

STORY_PROGRAM("run")
