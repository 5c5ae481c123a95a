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
START_TEST(grant_of_a_node_that_got_no_request)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x3, 0x4);
    vote(&round, 2, QUORUM_GRANTED);
}
END_TEST

START_TEST(wrong_start)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, _i == 0 ? 0 : 0x4); /* 1: a node both usable and coming */
    start(&round, 0x7, 0);
}
END_TEST

START_TEST(acquire_without_a_minimum_validity)
{
    const struct quorum_terms terms = {.kind = QUORUM_ACQUIRE, .nodes = 3, .ttl = QUORUM_SECOND, .minimum_validity = 0};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
}
END_TEST

/* A node that does not exist, and votes that are none. */
static const struct {
    unsigned node;
    enum quorum_vote vote;
} wrong_votes[] = {{3, QUORUM_HELD}, {0, QUORUM_PENDING}, {0, QUORUM_VOTES}};

START_TEST(wrong_vote)
{
    struct quorum_round round = new_round(QUORUM_ACQUIRE);
    start(&round, 0x7, 0);
    vote(&round, wrong_votes[_i].node, wrong_votes[_i].vote);
}
END_TEST

START_TEST(wrong_number_of_nodes)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, _i == 0 ? 0 : QUORUM_NODES_MAX + 1);
}
END_TEST

START_TEST(set_of_too_many_nodes)
{
    quorum_all(QUORUM_NODES_MAX + 1);
}
END_TEST

START_TEST(drift_above_one)
{
    quorum_drift(QUORUM_SECOND, 1000001);
}
END_TEST

START_TEST(shortest_ttl_where_drift_takes_all)
{
    quorum_shortest_ttl(QUORUM_SECOND, 1000000);
}
END_TEST

static const enum quorum_verdict no_losses[] = {QUORUM_WON, QUORUM_UNDECIDED, QUORUM_LOST_CANCELLED};

START_TEST(retry_without_a_loss)
{
    struct quorum_retry retry;
    quorum_retry_init(&retry, QUORUM_NEVER);
    quorum_retry_next(&retry, 1, no_losses[_i], 0, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum, violations of its contract");
    TCase *aborts = tcase_create("aborts");
    tcase_add_test_raise_signal(aborts, grant_of_a_node_that_got_no_request, SIGABRT);
    tcase_add_loop_test_raise_signal(aborts, wrong_start, SIGABRT, 0, 2);
    tcase_add_test_raise_signal(aborts, acquire_without_a_minimum_validity, SIGABRT);
    tcase_add_loop_test_raise_signal(aborts, wrong_vote, SIGABRT, 0, 3);
    tcase_add_loop_test_raise_signal(aborts, wrong_number_of_nodes, SIGABRT, 0, 2);
    tcase_add_test_raise_signal(aborts, set_of_too_many_nodes, SIGABRT);
    tcase_add_test_raise_signal(aborts, drift_above_one, SIGABRT);
    tcase_add_test_raise_signal(aborts, shortest_ttl_where_drift_takes_all, SIGABRT);
    tcase_add_loop_test_raise_signal(aborts, retry_without_a_loss, SIGABRT, 0, 3);
    suite_add_tcase(suite, aborts);
    return run_suite(suite);
}
