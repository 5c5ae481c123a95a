/* Tests the checker with histories written by hand. It accepts those that keep the guarantees, and names each
 * guarantee that is broken. */
#include "check.h"

#include "support/suite.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

static struct check *history;

static void begin(void)
{
    history = check_new(&(struct check_terms){.told_ms = 10, .bound_ms = 100});
}

static void end(void)
{
    check_free(history);
}

/* Times in ms. For the other fields see history.h. */
static void say(unsigned ms, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(unsigned ms, const char *who, const char *format, ...)
{
    char rest[128], line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%u000000 %s %s\n", 1000 + ms, who, rest);
    ck_assert_msg(check_line(history, line), "%s", line);
}

/* A lock of r that begins at `from` and is promised for 100 ms. */
static void hold(const char *who, unsigned number, unsigned from)
{
    say(from - 1, who, "start %u r 1000 -", number);
    say(from, who, "held %u r 100 -", number);
}

static void assert_broken(enum check_promise promise, size_t times)
{
    struct check_summary summary = check_all(history, NULL);
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        ck_assert_msg(summary.violations[i] == (i == promise ? times : 0), "%zu violations of %s",
                      summary.violations[i], check_promise_names[i]);
}

static void assert_kept(void)
{
    assert_broken(CHECK_EXCLUSION, 0);
}

/* --- Exclusion --- */

START_TEST(one_after_the_other_is_exclusion)
{
    hold("a", 1, 100);
    say(150, "a", "release 1 r 0 -");
    hold("b", 1, 151);
    say(240, "b", "release 1 r 0 -");
    say(300, "a", "end 0 - 0 -");
    struct check_summary summary = check_all(history, NULL);
    ck_assert_uint_eq(summary.holds, 2);
    ck_assert_uint_eq(summary.clients, 2);
    for (unsigned i = 0; i < CHECK_PROMISES; i++)
        ck_assert_uint_eq(summary.violations[i], 0);
}
END_TEST

START_TEST(two_at_once_are_found)
{
    hold("a", 1, 100);
    hold("b", 1, 150);
    say(160, "b", "release 1 r 0 -");
    say(170, "a", "release 1 r 0 -");
    assert_broken(CHECK_EXCLUSION, 1);
}
END_TEST

/* The first was promised for longer than the second held, so the third overlaps the first. */
START_TEST(the_longest_counts_not_the_last)
{
    hold("a", 1, 100);
    say(110, "a", "valid 1 r 500 -");
    hold("b", 1, 150);
    say(160, "b", "release 1 r 0 -");
    hold("c", 1, 400);
    say(410, "c", "release 1 r 0 -");
    say(420, "a", "release 1 r 0 -");
    assert_broken(CHECK_EXCLUSION, 2);
}
END_TEST

/* A promise still counts if its client was killed or stopped right after it. */
START_TEST(a_promise_outlives_its_client)
{
    hold("a", 1, 100);
    hold("b", 1, 199);
    say(210, "b", "release 1 r 0 -");
    assert_broken(CHECK_EXCLUSION, 1);
}
END_TEST

START_TEST(a_promise_ends)
{
    hold("a", 1, 100);
    hold("b", 1, 201);
    say(210, "b", "release 1 r 0 -");
    assert_kept();
}
END_TEST

START_TEST(other_resources_do_not_meet)
{
    hold("a", 1, 100);
    say(110, "b", "start 1 other 1000 -");
    say(120, "b", "held 1 other 50 -");
    say(130, "b", "release 1 other 0 -");
    say(140, "a", "release 1 r 0 -");
    assert_kept();
}
END_TEST

START_TEST(an_answer_of_nothing_promises_nothing)
{
    say(100, "a", "start 1 r 1000 -");
    say(110, "a", "held 1 r 0 -");
    hold("b", 1, 111);
    say(120, "b", "release 1 r 0 -");
    assert_kept();
}
END_TEST

START_TEST(a_loss_that_was_told_ends_the_promise)
{
    hold("a", 1, 100);
    say(120, "a", "lost 1 r 0 gone");
    hold("b", 1, 130);
    say(140, "b", "release 1 r 0 -");
    assert_kept();
}
END_TEST

/* --- Fencing --- */

static void fenced(const char *who, unsigned from, unsigned started, unsigned token)
{
    say(started, who, "start %u r 1000 -", token);
    say(from, who, "held %u r 5 -", token);
    say(from, who, "fence %u r %u -", token, token);
    say(from + 1, who, "release %u r 0 -", token);
}

START_TEST(tokens_that_grow)
{
    fenced("a", 100, 90, 7);
    fenced("b", 120, 110, 9);
    fenced("a", 140, 130, 12);
    assert_kept();
}
END_TEST

START_TEST(a_smaller_token_is_found)
{
    fenced("a", 100, 90, 9);
    fenced("b", 120, 110, 7);
    assert_broken(CHECK_FENCING, 1);
}
END_TEST

START_TEST(a_token_twice_is_found)
{
    fenced("a", 100, 90, 9);
    say(110, "b", "start 9 r 1000 -");
    say(120, "b", "held 9 r 5 -");
    say(120, "b", "fence 9 r 9 -");
    say(121, "b", "release 9 r 0 -");
    assert_broken(CHECK_FENCING, 1);
}
END_TEST

/* Tokens have an order only if one lock was held before the acquire of the other began. */
START_TEST(acquires_that_overlap_have_no_order)
{
    fenced("a", 100, 90, 9);
    fenced("b", 120, 95, 7);
    assert_kept();
}
END_TEST

/* --- Loss notification, deadlines, leftover keys --- */

START_TEST(told_within_the_tolerance)
{
    hold("a", 1, 100);
    say(209, "a", "lost 1 r 0 expired");
    struct check_summary summary = check_all(history, NULL);
    ck_assert_uint_eq(summary.violations[CHECK_TOLD], 0);
    ck_assert_uint_eq(summary.latest_told_us, 8000); /* the validity was rounded down */
    ck_assert_uint_eq(summary.losses, 1);
}
END_TEST

START_TEST(told_late_is_found)
{
    hold("a", 1, 100);
    say(215, "a", "lost 1 r 0 expired");
    assert_broken(CHECK_TOLD, 1);
}
END_TEST

START_TEST(not_told_at_all_is_found)
{
    hold("a", 1, 100);
    say(300, "a", "end 0 - 0 -");
    assert_broken(CHECK_TOLD, 1);
}
END_TEST

START_TEST(who_did_not_run_need_not_be_told)
{
    hold("a.1", 1, 100);
    say(900, "a.0", "stall 0 - 780 -");
    say(905, "a.1", "lost 1 r 0 expired");
    assert_kept();
}
END_TEST

START_TEST(who_was_killed_need_not_be_told)
{
    hold("a", 1, 100);
    hold("b", 1, 300);
    say(310, "b", "release 1 r 0 -");
    assert_kept();
}
END_TEST

START_TEST(an_acquire_beyond_its_deadline_is_found)
{
    say(100, "a", "start 1 r 500 -");
    say(701, "a", "failed 1 r 0 REDLOCK_TIMED_OUT");
    assert_broken(CHECK_BOUNDED, 1);
}
END_TEST

START_TEST(an_acquire_that_never_ends_is_found)
{
    say(100, "a", "start 1 r 500 -");
    say(5000, "a", "end 0 - 0 -");
    assert_broken(CHECK_BOUNDED, 1);
}
END_TEST

START_TEST(a_key_that_is_left_is_found)
{
    say(100, "nemesis", "left 3 - 0 r0");
    assert_broken(CHECK_NOTHING, 1);
}
END_TEST

/* --- Lines --- */

START_TEST(what_is_no_line_is_refused)
{
    static const char *const lines[] = {
        "", "\n", "x\n", "1 a held 1 r 5\n", "1 a sings 1 r 5 -\n", "1 a held x r 5 -\n"};
    ck_assert(!check_line(history, lines[_i]));
}
END_TEST

START_TEST(two_lives_of_one_name_are_refused)
{
    hold("a.0", 1, 100);
    hold("a.0", 2, 300);
    hold("b.0", 1, 500);
    ck_assert(!check_line(history, "1600000000 a.0 start 1 r 1000 -\n"));
}
END_TEST

START_TEST(faults_begin_and_end)
{
    const struct check_fault *faults;
    say(100, "nemesis", "begin 2 - 0 stop");
    say(110, "nemesis", "begin 1 - 0 stop");
    say(150, "nemesis", "finish 2 - 0 stop");
    check_all(history, NULL);
    ck_assert_uint_eq(check_faults(history, &faults), 2);
    ck_assert_uint_eq(faults[0].target, 2);
    ck_assert_uint_eq(faults[0].end - faults[0].begin, 50000000);
    ck_assert_uint_eq(faults[1].end, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("torture checker");
    TCase *tcase = tcase_create("histories");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, one_after_the_other_is_exclusion);
    tcase_add_test(tcase, two_at_once_are_found);
    tcase_add_test(tcase, the_longest_counts_not_the_last);
    tcase_add_test(tcase, a_promise_outlives_its_client);
    tcase_add_test(tcase, a_promise_ends);
    tcase_add_test(tcase, other_resources_do_not_meet);
    tcase_add_test(tcase, an_answer_of_nothing_promises_nothing);
    tcase_add_test(tcase, a_loss_that_was_told_ends_the_promise);
    tcase_add_test(tcase, tokens_that_grow);
    tcase_add_test(tcase, a_smaller_token_is_found);
    tcase_add_test(tcase, a_token_twice_is_found);
    tcase_add_test(tcase, acquires_that_overlap_have_no_order);
    tcase_add_test(tcase, told_within_the_tolerance);
    tcase_add_test(tcase, told_late_is_found);
    tcase_add_test(tcase, not_told_at_all_is_found);
    tcase_add_test(tcase, who_did_not_run_need_not_be_told);
    tcase_add_test(tcase, who_was_killed_need_not_be_told);
    tcase_add_test(tcase, an_acquire_beyond_its_deadline_is_found);
    tcase_add_test(tcase, an_acquire_that_never_ends_is_found);
    tcase_add_test(tcase, a_key_that_is_left_is_found);
    tcase_add_loop_test(tcase, what_is_no_line_is_refused, 0, 6);
    tcase_add_test(tcase, two_lives_of_one_name_are_refused);
    tcase_add_test(tcase, faults_begin_and_end);
    return run_suite(suite);
}
