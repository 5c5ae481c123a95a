/* The rule when a command under a lock is told to end, and killed: time by hand. */
#include "cli/ending.h"
#include "quorum_suite.h"

#include <check.h>

enum { END = 10000, GRACE = 2000 };

static struct cli_ending ending;

static void begin(void)
{
    cli_ending_begin(&ending, END, GRACE);
}

#define at(now, action) ck_assert_int_eq(cli_ending_step(&ending, now), CLI_ENDING_##action)

START_TEST(without_renewal_it_is_told_a_grace_before_the_end_and_killed_50_ms_before)
{
    ck_assert_int_eq(cli_ending_next(&ending), END - GRACE);
    at(END - GRACE - 1, WAIT);
    at(END - GRACE, TERMINATE);
    ck_assert_int_eq(cli_ending_next(&ending), END - 50);
    at(END - 51, WAIT);
    at(END - 50, KILL);
    at(END + 1000, KILL);
}
END_TEST

START_TEST(each_renewal_moves_both_on)
{
    cli_ending_prolong(&ending, END + 500);
    cli_ending_prolong(&ending, END); /* never back */
    at(END - GRACE + 499, WAIT);
    at(END - GRACE + 500, TERMINATE);
    cli_ending_prolong(&ending, END + 9000);
    at(END, WAIT);
    ck_assert_int_eq(cli_ending_next(&ending), END + 9000 - GRACE);
    at(END + 9000 - GRACE, TERMINATE);
    at(END + 9000 - 50, KILL);
}
END_TEST

START_TEST(told_to_end_at_once_it_has_the_grace)
{
    cli_ending_now(&ending, 1000);
    at(1000, TERMINATE);
    cli_ending_prolong(&ending, 2 * END);
    cli_ending_now(&ending, 2000); /* said already */
    at(1000 + GRACE - 1, WAIT);
    at(1000 + GRACE, KILL);
}
END_TEST

START_TEST(told_to_end_at_once_it_has_no_more_than_what_is_left)
{
    cli_ending_now(&ending, END - 500);
    at(END - 500, TERMINATE);
    at(END - 51, WAIT);
    at(END - 50, KILL);
}
END_TEST

START_TEST(too_late_to_be_told_it_is_killed)
{
    at(END - 50, KILL);
    begin();
    cli_ending_now(&ending, END - 20);
    at(END - 20, KILL);
    cli_ending_begin(&ending, END, 0);
    at(END - 51, WAIT);
    ck_assert_int_eq(cli_ending_next(&ending), END - 50);
    at(END - 50, KILL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_ending");
    TCase *rule = tcase_create("rule");

    suite_add_tcase(suite, rule);
    tcase_add_checked_fixture(rule, begin, NULL);
    tcase_add_test(rule, without_renewal_it_is_told_a_grace_before_the_end_and_killed_50_ms_before);
    tcase_add_test(rule, each_renewal_moves_both_on);
    tcase_add_test(rule, told_to_end_at_once_it_has_the_grace);
    tcase_add_test(rule, told_to_end_at_once_it_has_no_more_than_what_is_left);
    tcase_add_test(rule, too_late_to_be_told_it_is_killed);
    return run_suite(suite);
}
