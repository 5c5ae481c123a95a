/* redlock acquire --for: a lock that a keeper keeps for a process. */
#include "scene.h"

#include "support/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME real_key("kept")

static struct program *process; /* for which the lock is kept; it ends with 7 when it gets SIGUSR1 */

static void start_process(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* a keeper whose parent has ended becomes a child of this process */
    process = program_shell("trap 'exit 7' USR1; echo ready; while :; do sleep 0.02; done");
    program_shows(process, "ready");
}

/* The keeper that an acquire has started. */
static pid_t keeper_of(struct program *program)
{
    pid_t keeper = (pid_t)atol(scene_json(program_exits(program, 0), ".keeper"));
    ck_assert_int_gt(keeper, 1);
    return keeper;
}

static pid_t keep(const char *options)
{
    return keeper_of(program_run("acquire -n --json " NAME " --for %d %s", (int)program_pid(process), options));
}

static bool has_ended(void *keeper)
{
    int status;
    if (waitpid(*(pid_t *)keeper, &status, WNOHANG) <= 0)
        return false;
    ck_assert_int_eq(status, 0);
    return true;
}

static void check_that_it_ends(pid_t keeper)
{
    ck_assert_msg(wait_until(has_ended, &keeper, REAL_SOON_MS), "the keeper lives on");
    ck_assert(real_nothing_left(NULL));
}

static void terminate(pid_t keeper)
{
    kill(keeper, SIGTERM);
    check_that_it_ends(keeper);
}

REAL_CASE(keeper, scene_shared_nodes, start_process);

TEST(keeper, a_keeper_renews_until_its_process_ends)
{
    pid_t keeper = keep("--ttl 4s");
    scene_await_renewals(NAME, 4); /* longer than its ttl */
    ck_assert_uint_eq(scene_held_on(NAME), cluster_size(cluster));
    ck_assert_int_eq(kill(keeper, 0), 0);
    program_signal(process, SIGKILL);
    program_exits(process, -SIGKILL);
    check_that_it_ends(keeper);
}

TEST(keeper, a_keeper_that_ends_early_leaves_the_lock_for_the_rest)
{
    pid_t keeper = keep("--at-least 5s");
    program_signal(process, SIGKILL);
    program_exits(process, -SIGKILL);
    ck_assert_msg(wait_until(has_ended, &keeper, REAL_SOON_MS), "the keeper lives on");
    ck_assert_uint_eq(scene_held_on(NAME), cluster_size(cluster));
    ck_assert(real_nothing_left(NULL)); /* within 20 s: neither renewed nor for its ttl of a minute */
}

TEST(keeper, keeper_that_is_terminated_sends_no_signal)
{
    terminate(keep("--loss-signal TERM"));
    ck_assert(program_is_running(process));
}

TEST(keeper, a_keeper_ends_when_its_lock_is_released)
{
    pid_t keeper = keep("--ttl 5s");
    const char *token = scene_json(program_run("status --json " NAME), ".resources[0].token");
    program_exits(program_run("release " NAME " %s", token), 0);
    check_that_it_ends(keeper);
    ck_assert(program_is_running(process));
}

/* The lock is deleted by another client, or expires at the cap. */
static const struct {
    const char *options;
    bool deleted;
    int status; /* of the process; 0: it lives on */
} losses[] = {
    {"--ttl 3s --cap 4s", false, 0},
    {"--ttl 5s --loss-signal USR1", true, 7},
    {"--ttl 3s --cap 4s --loss-signal USR1", false, 7},
    {"--ttl 3s --cap 4s --loss-signal SIGTERM", false, -SIGTERM},
};

TEST_ROWS(keeper, loss_is_signalled_if_a_signal_was_requested, ROWS(losses))
{
    keep(losses[_i].options);
    if (losses[_i].deleted)
        scene_delete(NAME);
    if (losses[_i].status != 0)
        program_exits(process, losses[_i].status);
    ck_assert(real_nothing_left(NULL));
    ck_assert(losses[_i].status != 0 || program_is_running(process));
}

static bool has_another_watchdog(void *arg)
{
    const pid_t *known = arg; /* the keeper and its first watchdog */
    pid_t child = program_child(known[0]);
    return child != 0 && child != known[1];
}

/* The keeper is killed; stopped; killed after its watchdog was killed. */
TEST_ROWS(keeper, the_loss_is_signalled_when_the_keeper_is_killed_or_stopped, 3)
{
    pid_t keeper = keep("--ttl 3s --loss-signal USR1");
    pid_t known[] = {keeper, program_child(keeper)};
    ck_assert_int_gt(known[1], 0);
    if (_i == 2) {
        kill(known[1], SIGKILL);
        ck_assert(wait_until(has_another_watchdog, known, PROGRAM_SOON_MS));
    }
    kill(keeper, _i == 1 ? SIGSTOP : SIGKILL);
    program_exits(process, 7);
    kill(keeper, SIGKILL);
    ck_assert(real_nothing_left(NULL)); /* after its ttl */
}

TEST(keeper, a_process_that_is_not_there_gets_no_lock)
{
    int gone = (int)program_pid(process);
    program_signal(process, SIGKILL);
    program_wait(process);
    program_refuses(program_run("acquire " NAME " --for %d", gone), SYSTEM, "No such process");
    ck_assert(real_nothing_left(NULL));
}

/* A process of another user: for root, without the capability to signal it, one that has changed its user. */
TEST(keeper, process_that_may_not_be_signalled_gets_no_lock)
{
    int other = 1;
    if (geteuid() == 0) {
        struct program *program = program_shell("exec setpriv --reuid=65534 sh -c 'echo pid=$$.; exec sleep 60'");
        other = program_number(program, "pid=");
    }
    const char *line =
        program_text("%s $R acquire " NAME " --for %d", geteuid() == 0 ? "setpriv --bounding-set=-kill" : "", other);
    program_refuses(program_shell("exec %s --loss-signal TERM", line), SYSTEM,
                    program_text("may not signal process %d", other));
    ck_assert(real_nothing_left(NULL));
    terminate(keeper_of(program_shell("exec %s --json", line)));
}

/* As in a container, whose shell is process 1. */
static const struct {
    const char *shell; /* traps before the acquire */
    int status;
    const char *says;
} inits[] = {
    {"", SYSTEM, "process 1 gets only signals that it handles"},
    {"trap : TERM; ", 0, "when process 1 ends, the kernel kills the keeper too"},
};

TEST_ROWS(keeper, process_1_is_warned_of_what_it_does_not_get, ROWS(inits))
{
    if (geteuid() != 0)
        return; /* a namespace needs root */
    struct program *program = program_exits(
        program_shell("unshare --pid --fork --mount-proc sh -c '%s$R acquire --ttl 1s --for 1 --loss-signal TERM " NAME
                      "; exit $?'",
                      inits[_i].shell),
        inits[_i].status);
    program_says_in_one_line(program, inits[_i].says);
    ck_assert(real_nothing_left(NULL));
}

/* The process ends; the keeper is terminated. */
TEST_ROWS(keeper, a_wait_ends_with_the_process_or_the_keeper, 2)
{
    scene_hold(NAME);
    struct program *program = program_start("-v acquire " NAME " --for %d", (int)program_pid(process));
    program_shows(program, "first attempt");
    pid_t keeper = program_child(program_pid(program));
    ck_assert_int_gt(keeper, 0);
    if (_i == 0)
        program_signal(process, SIGKILL);
    else
        kill(keeper, SIGTERM);
    program_exits(program, SYSTEM);
    program_shows(program, _i == 0 ? "has ended; no lock is acquired for it" : "the keeper has ended");
    ck_assert_str_eq(program_output(program), "");
    scene_delete(NAME);
}

TEST(keeper, a_keeper_of_a_lock_that_is_not_obtained_ends)
{
    int status;
    scene_hold(NAME);
    program_exits(program_run("acquire " NAME " -n --for %d", (int)program_pid(process)), NOT_OBTAINED);
    ck_assert_int_gt(waitpid(-1, &status, __WALL), 0); /* the process still runs, so this is the keeper */
    ck_assert(program_is_running(process));
    scene_delete(NAME);
}

/* An inherited pipe would never end, and an inherited directory could not be unmounted. Also without close_range(2), which
 * came with Linux 5.9. */
TEST_ROWS(keeper, keeper_keeps_no_descriptor_or_directory_of_its_parent, 2)
{
    static const char *const links[][2] = {
        {"cwd", "/"}, {"fd/0", "/dev/null"}, {"fd/1", "/dev/null"}, {"fd/2", "/dev/null"}};
    program_setting.newest_call = _i == 1 ? SYS_close_range - 1 : 0;
    /* The pipe ends, so neither the keeper nor its watchdog has it, and the shell ends. */
    pid_t keeper = keeper_of(program_shell("$R acquire " NAME " --for %d --loss-signal USR1 --json 9>&1 2>&1 | cat",
                                           (int)program_pid(process)));
    for (size_t i = 0; i < 4; i++) {
        char to[512] = "";
        ck_assert_int_gt(readlink(program_text("/proc/%d/%s", (int)keeper, links[i][0]), to, sizeof to - 1), 0);
        ck_assert_str_eq(to, links[i][1]);
    }
    ck_assert_int_eq(getsid(keeper), keeper);
    terminate(keeper);
}

TEST(keeper, before_linux_5_3_no_lock_is_acquired_for_a_process)
{
    program_setting.newest_call = SYS_pidfd_open - 1;
    program_refuses(program_run("acquire " NAME " --for %d", (int)program_pid(process)), SYSTEM,
                    "use Linux 5.3 or later");
}

REAL_PROGRAM("cli_keeper")
