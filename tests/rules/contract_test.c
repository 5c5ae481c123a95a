/* Events that violate the host's contract: the rules abort, also in a Release build, instead of continuing with a
 * lock that guarantees nothing. */
#include "quorum/retry.h"
#include "quorum/round.h"
#include "quorum/tally.h"
#include "quorum/validity.h"

#include <signal.h>

#include "support/suite.h"

static struct quorum_round new_round(enum quorum_kind kind)
{
    const struct quorum_terms terms = {
        .kind = kind, .nodes = 3, .ttl = QUORUM_SECOND, .drift_ppm = 10000, .minimum_validity = 1};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    return round;
}

static void start(struct quorum_round *round, quorum_nodes usable, quorum_nodes coming)
{
    const struct quorum_event event = {.type = QUORUM_START, .now = 1, .usable = usable, .coming = coming};
    quorum_round_step(round, &event);
}

static void vote(struct quorum_round *round, unsigned node, enum quorum_vote vote)
{
    const struct quorum_event event = {.type = QUORUM_VOTED, .now = 2, .node = node, .vote = vote};
    quorum_round_step(round, &event);
}

/* Such a lock would be valid forever, because validity counts from the first send. */
START_TEST(grant_of_a_node_that_was_not_asked)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x3, 0x4);
    vote(&round, 2, QUORUM_GRANTED);
}
END_TEST

START_TEST(second_start)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0);
    start(&round, 0x7, 0);
}
END_TEST

START_TEST(node_both_usable_and_coming)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0x4);
}
END_TEST

START_TEST(acquire_content_with_no_validity_at_all)
{
    const struct quorum_terms terms = {.kind = QUORUM_ACQUIRE, .nodes = 3, .ttl = QUORUM_SECOND, .minimum_validity = 0};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
}
END_TEST

START_TEST(vote_of_a_node_that_there_is_not)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0);
    vote(&round, 3, QUORUM_HELD);
}
END_TEST

START_TEST(vote_of_no_class)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0);
    vote(&round, 0, QUORUM_PENDING);
}
END_TEST

START_TEST(vote_beyond_the_classes)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0);
    vote(&round, 0, QUORUM_VOTES);
}
END_TEST

START_TEST(tally_of_no_nodes)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, 0);
}
END_TEST

START_TEST(tally_of_too_many_nodes)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, QUORUM_NODES_MAX + 1);
}
END_TEST

START_TEST(set_of_too_many_nodes)
{
    quorum_all(QUORUM_NODES_MAX + 1);
}
END_TEST

START_TEST(clocks_that_differ_by_more_than_all)
{
    quorum_drift(QUORUM_SECOND, 1000001);
}
END_TEST

START_TEST(shortest_ttl_where_drift_takes_all)
{
    quorum_shortest_ttl(QUORUM_SECOND, 1000000);
}
END_TEST

static void retry_after(enum quorum_verdict verdict)
{
    struct quorum_retry retry;
    quorum_retry_init(&retry, QUORUM_NEVER);
    quorum_retry_next(&retry, 1, verdict, 0, 0);
}

START_TEST(retry_after_winning)
{
    retry_after(QUORUM_WON);
}
END_TEST

START_TEST(retry_without_a_verdict)
{
    retry_after(QUORUM_UNDECIDED);
}
END_TEST

START_TEST(retry_of_what_was_cancelled)
{
    retry_after(QUORUM_LOST_CANCELLED);
}
END_TEST

static Suite *contract_suite(void)
{
    Suite *suite = suite_create("quorum, what it does not take");
    TCase *aborts = tcase_create("aborts");
    tcase_add_test_raise_signal(aborts, grant_of_a_node_that_was_not_asked, SIGABRT);
    tcase_add_test_raise_signal(aborts, second_start, SIGABRT);
    tcase_add_test_raise_signal(aborts, node_both_usable_and_coming, SIGABRT);
    tcase_add_test_raise_signal(aborts, acquire_content_with_no_validity_at_all, SIGABRT);
    tcase_add_test_raise_signal(aborts, vote_of_a_node_that_there_is_not, SIGABRT);
    tcase_add_test_raise_signal(aborts, vote_of_no_class, SIGABRT);
    tcase_add_test_raise_signal(aborts, vote_beyond_the_classes, SIGABRT);
    tcase_add_test_raise_signal(aborts, tally_of_no_nodes, SIGABRT);
    tcase_add_test_raise_signal(aborts, tally_of_too_many_nodes, SIGABRT);
    tcase_add_test_raise_signal(aborts, set_of_too_many_nodes, SIGABRT);
    tcase_add_test_raise_signal(aborts, clocks_that_differ_by_more_than_all, SIGABRT);
    tcase_add_test_raise_signal(aborts, shortest_ttl_where_drift_takes_all, SIGABRT);
    tcase_add_test_raise_signal(aborts, retry_after_winning, SIGABRT);
    tcase_add_test_raise_signal(aborts, retry_without_a_verdict, SIGABRT);
    tcase_add_test_raise_signal(aborts, retry_of_what_was_cancelled, SIGABRT);
    suite_add_tcase(suite, aborts);
    return suite;
}

int main(void)
{
    return run_suite(contract_suite());
}
