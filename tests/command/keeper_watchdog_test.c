/* Tests when the keeper replaces a watchdog that has ended, and when it does not. */
#include "cli/keeper_watchdog.h"
#include "cli/moment.h"
#include "support/test.h"

#include <check.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 600000, LIMIT = 32 };

static struct cli_keeper_watchdog watchdog;

static void start_watchdog(void)
{
    struct rlimit limit = {.rlim_cur = LIMIT, .rlim_max = LIMIT};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int process = (int)syscall(SYS_pidfd_open, getppid(), 0);
    ck_assert_int_ge(process, 0);
    ck_assert(cli_keeper_watchdog_start(&watchdog, process, SIGCONT, cli_now_ms() + LONG_MS));
    ck_assert_int_gt(watchdog.pid, 0);
}

/* Sets the start of the last watchdog to this long ago. */
static void move_start(int64_t ago_ms)
{
    watchdog.started_ms = cli_now_ms() - ago_ms;
}

static int made[LIMIT];
static int made_count;

/* Leaves only this many descriptors available. */
static void leave_descriptors(int count)
{
    while ((made[made_count] = dup(STDERR_FILENO)) >= 0)
        made_count++;
    while (count-- > 0)
        close(made[--made_count]);
}

static void end(void)
{
    cli_keeper_watchdog_end(&watchdog);
    close(watchdog.link);
    close(watchdog.process);
    while (made_count > 0)
        close(made[--made_count]);
}

static void await_end(void)
{
    siginfo_t ended;
    ck_assert_int_eq(waitid(P_PID, (id_t)watchdog.pid, &ended, WEXITED | WNOWAIT), 0);
}

static void kill_watchdog(void)
{
    ck_assert_int_eq(kill(watchdog.pid, SIGKILL), 0);
    await_end();
}

TEST_CASE(keeper_watchdog, NULL, NULL);

TEST(keeper_watchdog, watchdog_that_is_killed_is_replaced)
{
    start_watchdog();
    pid_t first = watchdog.pid;
    move_start(LONG_MS);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_eq(watchdog.pid, first);
    kill_watchdog();
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_gt(watchdog.pid, 0);
    ck_assert_int_ne(watchdog.pid, first);
    end();
}

/* The PID may be reused by another process, which must not be killed instead. */
TEST(keeper_watchdog, number_of_watchdog_that_cannot_be_replaced_is_forgotten)
{
    start_watchdog();
    move_start(LONG_MS);
    kill_watchdog();
    leave_descriptors(0);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_eq(watchdog.pid, 0);
    end();
}

/* The pipe takes the last two descriptors, so the watchdog ends at once. */
TEST(keeper_watchdog, watchdog_that_ends_at_once_is_replaced_after_a_pause)
{
    start_watchdog();
    move_start(LONG_MS);
    kill_watchdog();
    leave_descriptors(1); /* the other one is that of the first pipe */
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_gt(watchdog.pid, 0);
    await_end();
    move_start(-LONG_MS);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_eq(watchdog.pid, 0);
    ck_assert_int_gt(cli_keeper_watchdog_wake_ms(&watchdog, LONG_MS), 0);
    move_start(LONG_MS);
    ck_assert_int_eq(cli_keeper_watchdog_wake_ms(&watchdog, LONG_MS), 0);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_gt(watchdog.pid, 0);
    end();
}

TEST_PROGRAM("cli_keeper_watchdog")
