/* Is a process group alive? Also one of another user's processes, to which we may send nothing: started by sudo(8), for
 * example. */
#define _GNU_SOURCE
#include "cli/group.h"

#include "quorum_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static pid_t start_group(void)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (;;)
            pause();
    ck_assert_int_eq(setpgid(pid, pid), 0);
    return pid;
}

static void end_group(pid_t group)
{
    ck_assert_int_eq(kill(group, SIGKILL), 0);
    ck_assert_int_eq(waitpid(group, NULL, 0), group);
}

START_TEST(it_is_alive_until_its_last_process_has_ended)
{
    pid_t group = start_group();
    siginfo_t ended;

    ck_assert(cli_group_is_alive(group));
    ck_assert_int_eq(kill(group, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)group, &ended, WEXITED | WNOWAIT), 0);
    ck_assert(!cli_group_is_alive(group)); /* a zombie is not */
    ck_assert_int_eq(waitpid(group, NULL, 0), group);
    ck_assert(!cli_group_is_alive(group));
}
END_TEST

/* Root alone can become another user; where we are not, there is only ourselves to look. */
START_TEST(it_is_alive_for_another_user_too)
{
    pid_t group = start_group();
    pid_t other = fork();
    int status;

    ck_assert_int_ge(other, 0);
    if (other == 0)
        _exit((getuid() != 0 || setuid(NOBODY) == 0) && cli_group_is_alive(group) ? EXIT_SUCCESS : EXIT_FAILURE);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    end_group(group);
    ck_assert_int_eq(status, 0);
}
END_TEST

static Suite *group_suite(void)
{
    Suite *suite = suite_create("cli_group");
    TCase *tcase = tcase_create("group");

    tcase_add_test(tcase, it_is_alive_until_its_last_process_has_ended);
    tcase_add_test(tcase, it_is_alive_for_another_user_too);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(group_suite());
}
