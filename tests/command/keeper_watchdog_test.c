/* When the keeper replaces a watchdog that has ended, and who sends the signal. */
#include "cli/keeper_watchdog.h"
#include "cli/times.h"
#include "support/test.h"

#include <check.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 600000, LIMIT = 32 };

static struct cli_keeper_watchdog watchdog;
static pid_t keeper;          /* this process */
static unsigned signals_sent; /* by it */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long first, long second, long third, long fourth);

/* The linker uses it in place of syscall(2). A watchdog stops just before it sends the signal. */
long __wrap_syscall(long number, long first, long second, long third, long fourth)
{
    if (number != SYS_pidfd_send_signal)
        return __real_syscall(number, first, second, third, fourth);
    signals_sent++;
    return getpid() == keeper ? 0 : raise(SIGSTOP);
}

static void start_watchdog(int64_t validity_ms)
{
    keeper = getpid();
    signals_sent = 0;
    struct rlimit limit = {.rlim_cur = LIMIT, .rlim_max = LIMIT};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int process = (int)syscall(SYS_pidfd_open, getppid(), 0);
    ck_assert_int_ge(process, 0);
    ck_assert(cli_keeper_watchdog_start(&watchdog, process, SIGCONT, cli_now_ms() + validity_ms));
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

TEST_CASE(keeper_watchdog, NULL, NULL);

TEST(keeper_watchdog, watchdog_that_has_ended_is_replaced_after_a_pause)
{
    start_watchdog(LONG_MS);
    pid_t first = watchdog.pid;
    move_start(LONG_MS);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_eq(watchdog.pid, first);
    kill(first, SIGKILL);
    await_end();
    leave_descriptors(0);
    cli_keeper_watchdog_renew(&watchdog);
    ck_assert_int_eq(watchdog.pid,
                     0);  /* the number may be reused by another process, which must not be killed instead */
    leave_descriptors(2); /* for the pipe, so the next watchdog ends at once */
    move_start(LONG_MS);
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

/* The watchdog notices the loss first, and is late with the signal: the keeper's end kills it. */
TEST(keeper_watchdog, a_watchdog_that_is_killed_before_it_sends_the_signal_loses_none)
{
    siginfo_t stopped;
    start_watchdog(0);
    ck_assert_int_eq(waitid(P_PID, (id_t)watchdog.pid, &stopped, WSTOPPED | WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(stopped.si_code, CLD_STOPPED);
    cli_keeper_watchdog_signal_loss(&watchdog);
    end();
    ck_assert_uint_eq(signals_sent, 1);
}

TEST_PROGRAM("cli_keeper_watchdog")
