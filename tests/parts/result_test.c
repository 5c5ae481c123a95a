/* The texts of results: names of statuses and outcomes, and the log line. */
#include "src/core/result.h"
#include "support/suite.h"

#include <stdio.h>
#include <string.h>

#include "redlock/redlock.h"

static redlock_result result;

static void setup(void)
{
    memset(&result, 0xEE, sizeof result);
}

/* --- Names --- */

struct status {
    int value;
    const char *name;
};

static const struct status statuses[] = {
    {REDLOCK_OK, "REDLOCK_OK"},
    {REDLOCK_HELD, "REDLOCK_HELD"},
    {REDLOCK_NO_QUORUM, "REDLOCK_NO_QUORUM"},
    {REDLOCK_MISCONFIGURED, "REDLOCK_MISCONFIGURED"},
    {REDLOCK_TOO_SLOW, "REDLOCK_TOO_SLOW"},
    {REDLOCK_TIMED_OUT, "REDLOCK_TIMED_OUT"},
    {REDLOCK_CANCELLED, "REDLOCK_CANCELLED"},
    {REDLOCK_LOST, "REDLOCK_LOST"},
    {REDLOCK_INVALID, "REDLOCK_INVALID"},
    {REDLOCK_NO_MEMORY, "REDLOCK_NO_MEMORY"},
    {REDLOCK_SYSTEM, "REDLOCK_SYSTEM"},
    {REDLOCK_CLOCK, "REDLOCK_CLOCK"},
};
enum { STATUSES = sizeof statuses / sizeof *statuses };

START_TEST(every_status_has_its_name_and_its_own_sentence)
{
    for (unsigned i = 0; i < STATUSES; i++) {
        ck_assert_str_eq(redlock_status_name(statuses[i].value), statuses[i].name);
        for (unsigned j = 0; j < i; j++)
            ck_assert_str_ne(redlock_status_text(statuses[i].value), redlock_status_text(statuses[j].value));
    }
    ck_assert_str_eq(redlock_status_name(1), "unknown");
    ck_assert_str_eq(redlock_status_text(INT32_MIN), "unknown");
}
END_TEST

START_TEST(every_loss_has_its_name_and_its_own_sentence)
{
    static const char *const names[] = {"", "expired", "gone", "clock", "closed"};
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(redlock_loss_name(i), names[i]);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(redlock_loss_text(i), redlock_loss_text(j));
    }
    ck_assert_str_eq(redlock_loss_name(5), "unknown");
    ck_assert_str_eq(redlock_loss_text(-1), "unknown");
}
END_TEST

START_TEST(every_outcome_has_its_name)
{
    static const char *const names[] = {"pending", "granted",     "held",      "absent",
                                        "refused", "unreachable", "timed out", "unattested"};
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(redlock_outcome_name(i), names[i]);
    ck_assert_str_eq(redlock_outcome_name(8), "unknown");
    ck_assert_str_eq(redlock_outcome_name(-1), "unknown");
}
END_TEST

START_TEST(the_version_is_the_headers)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", REDLOCK_VERSION_MAJOR, REDLOCK_VERSION_MINOR, REDLOCK_VERSION_PATCH);
    ck_assert_str_eq(redlock_version(), version);
}
END_TEST

START_TEST(verdicts_and_votes_have_public_words)
{
    ck_assert_int_eq(rl_result_status(QUORUM_WON), REDLOCK_OK);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_HELD), REDLOCK_HELD);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_NO_QUORUM), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_MISCONFIGURED), REDLOCK_MISCONFIGURED);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_TOO_SLOW), REDLOCK_TOO_SLOW);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_GONE), REDLOCK_LOST);
    ck_assert_int_eq(rl_result_status(QUORUM_LOST_CANCELLED), REDLOCK_CANCELLED);
    ck_assert_int_eq(rl_result_outcome(QUORUM_PENDING), REDLOCK_NODE_PENDING);
    ck_assert_int_eq(rl_result_outcome(QUORUM_GRANTED), REDLOCK_NODE_GRANTED);
    ck_assert_int_eq(rl_result_outcome(QUORUM_HELD), REDLOCK_NODE_HELD);
    ck_assert_int_eq(rl_result_outcome(QUORUM_ABSENT), REDLOCK_NODE_ABSENT);
    ck_assert_int_eq(rl_result_outcome(QUORUM_REFUSED), REDLOCK_NODE_REFUSED);
    ck_assert_int_eq(rl_result_outcome(QUORUM_UNREACHABLE), REDLOCK_NODE_UNREACHABLE);
    ck_assert_int_eq(rl_result_outcome(QUORUM_TIMED_OUT), REDLOCK_NODE_TIMED_OUT);
    ck_assert_int_eq(rl_result_outcome(QUORUM_UNATTESTED), REDLOCK_NODE_UNATTESTED);
}
END_TEST

/* --- The log line --- */

static void set_node(unsigned i, const char *name, int outcome, const char *text)
{
    result.node[i].name = name;
    result.node[i].outcome = outcome;
    snprintf(result.node[i].text, sizeof result.node[i].text, "%s", text);
}

static void five_nodes(int status)
{
    rl_result_clear(&result, 5);
    ck_assert_uint_eq(result.nodes, 5);
    ck_assert_uint_eq(result.quorum, 3);
    result.status = result.cause = status;
    set_node(0, "a:1", REDLOCK_NODE_GRANTED, "");
    set_node(1, "b:1", REDLOCK_NODE_HELD, "");
    set_node(2, "c:1", REDLOCK_NODE_REFUSED, "LOADING Redis is loading");
    set_node(3, "d:1", REDLOCK_NODE_TIMED_OUT, "no reply within 50 ms");
    set_node(4, "e:1", REDLOCK_NODE_UNREACHABLE, "cannot connect: Connection refused");
}

START_TEST(the_line_counts_classes_and_names_nodes)
{
    five_nodes(REDLOCK_NO_QUORUM);
    ck_assert_str_eq(redlock_result_text(&result), "no majority of the nodes can be reached: 1 granted, 1 held (b:1), "
                                                   "1 refused (c:1 LOADING Redis is loading), "
                                                   "1 unreachable (e:1 cannot connect: Connection refused), "
                                                   "1 timed out (d:1 no reply within 50 ms)");
    ck_assert_ptr_eq(redlock_result_text(&result), result.text);
}
END_TEST

START_TEST(nodes_of_one_class_stand_together)
{
    five_nodes(REDLOCK_HELD);
    set_node(2, "c:1", REDLOCK_NODE_HELD, "");
    set_node(3, "d:1", REDLOCK_NODE_HELD, "");
    set_node(4, "e:1", REDLOCK_NODE_PENDING, "");
    ck_assert_str_eq(redlock_result_text(&result),
                     "held by another client: 1 granted, 3 held (b:1; c:1; d:1), 1 pending");
}
END_TEST

START_TEST(a_cause_is_told_beside_the_status)
{
    rl_result_clear(&result, 1);
    result.status = REDLOCK_TIMED_OUT;
    result.cause = REDLOCK_HELD;
    set_node(0, "a:1", REDLOCK_NODE_HELD, "");
    ck_assert_str_eq(redlock_result_text(&result), "timed out; the last attempt: held by another client: 1 held (a:1)");
}
END_TEST

START_TEST(kept_releases_are_counted_at_the_end)
{
    rl_result_clear(&result, 1);
    set_node(0, "a:1", REDLOCK_NODE_UNREACHABLE, "not connected");
    result.status = result.cause = REDLOCK_NO_QUORUM;
    result.kept_releases = 1;
    ck_assert_str_eq(redlock_result_text(&result), "no majority of the nodes can be reached: 1 unreachable (a:1 not "
                                                   "connected); 1 node gets the release when connected again");
}
END_TEST

START_TEST(undos_that_are_not_confirmed_are_told)
{
    rl_result_clear(&result, 0);
    result.status = result.cause = REDLOCK_NO_QUORUM;
    result.pending_undos = 3;
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), "closed, with 3 undos not confirmed ("));
    result.pending_undos = 1;
    result.text[0] = '\0';
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), "closed, with 1 undo not confirmed ("));
}
END_TEST

START_TEST(the_line_fits_whatever_the_nodes_say)
{
    char word[96];
    memset(word, 'w', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    rl_result_clear(&result, REDLOCK_NODES_MAX);
    result.status = result.cause = REDLOCK_NO_QUORUM;
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++)
        set_node(i, word, REDLOCK_NODE_REFUSED, word);
    ck_assert_uint_eq(strlen(redlock_result_text(&result)), sizeof result.text - 1);
}
END_TEST

START_TEST(no_result_has_an_empty_line)
{
    ck_assert_str_eq(redlock_result_text(NULL), "");
}
END_TEST

START_TEST(a_failure_has_its_own_words)
{
    ck_assert_int_eq(rl_result_fail(&result, REDLOCK_INVALID, "ttl_ms is %d", 0), REDLOCK_INVALID);
    ck_assert_str_eq(redlock_result_text(&result), "ttl_ms is 0");
    ck_assert_int_eq(result.status, REDLOCK_INVALID);
    ck_assert_int_eq(result.cause, REDLOCK_INVALID);
    ck_assert_uint_eq(result.nodes, 0);
    ck_assert_uint_eq(result.attempts, 0);
    ck_assert_int_eq(rl_result_fail(NULL, REDLOCK_NO_MEMORY, "%s", "nowhere to write"), REDLOCK_NO_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("results");
    TCase *tcase = tcase_create("words");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, every_status_has_its_name_and_its_own_sentence);
    tcase_add_test(tcase, every_loss_has_its_name_and_its_own_sentence);
    tcase_add_test(tcase, every_outcome_has_its_name);
    tcase_add_test(tcase, the_version_is_the_headers);
    tcase_add_test(tcase, verdicts_and_votes_have_public_words);
    tcase_add_test(tcase, the_line_counts_classes_and_names_nodes);
    tcase_add_test(tcase, nodes_of_one_class_stand_together);
    tcase_add_test(tcase, a_cause_is_told_beside_the_status);
    tcase_add_test(tcase, kept_releases_are_counted_at_the_end);
    tcase_add_test(tcase, undos_that_are_not_confirmed_are_told);
    tcase_add_test(tcase, the_line_fits_whatever_the_nodes_say);
    tcase_add_test(tcase, no_result_has_an_empty_line);
    tcase_add_test(tcase, a_failure_has_its_own_words);
    return run_suite(suite);
}
