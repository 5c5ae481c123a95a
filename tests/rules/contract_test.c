/* Events that violate the host's contract: the rules abort, also in a Release build, instead of continuing with a
 * lock that guarantees nothing. */
#include "quorum/retry.h"
#include "quorum/round.h"
#include "quorum/tally.h"
#include "quorum/validity.h"

#include <signal.h>

#include "support/suite.h"

/* A round over three nodes; node 2 may become usable. */
static struct quorum_round begun(void)
{
    const struct quorum_terms terms = {
        .kind = QUORUM_ACQUIRE, .nodes = 3, .ttl = QUORUM_SECOND, .drift_ppm = 10000, .minimum_validity = 1};
    const struct quorum_event event = {.type = QUORUM_START, .now = 1, .usable = 0x3, .coming = 0x4};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    quorum_round_step(&round, &event);
    return round;
}

static const struct quorum_event wrong_events[] = {
    {.type = QUORUM_START, .now = 2, .usable = 0x7}, /* a second time */
    /* Such a lock would be valid forever, because validity counts from the first send. */
    {.type = QUORUM_VOTED, .now = 2, .node = 2, .vote = QUORUM_GRANTED}, /* got no request */
    {.type = QUORUM_VOTED, .now = 2, .node = 3, .vote = QUORUM_HELD},    /* there is no node 3 */
    {.type = QUORUM_VOTED, .now = 2, .node = 0, .vote = QUORUM_PENDING},
    {.type = QUORUM_VOTED, .now = 2, .node = 0, .vote = QUORUM_VOTES},
};

START_TEST(wrong_event)
{
    struct quorum_round round = begun();
    quorum_round_step(&round, &wrong_events[_i]);
}
END_TEST

START_TEST(node_both_usable_and_coming)
{
    const struct quorum_terms terms = {.kind = QUORUM_EXTEND, .nodes = 3, .ttl = QUORUM_SECOND};
    const struct quorum_event event = {.type = QUORUM_START, .now = 1, .usable = 0x7, .coming = 0x4};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    quorum_round_step(&round, &event);
}
END_TEST

START_TEST(acquire_without_a_minimum_validity)
{
    const struct quorum_terms terms = {.kind = QUORUM_ACQUIRE, .nodes = 3, .ttl = QUORUM_SECOND, .minimum_validity = 0};
    struct quorum_round round;
    quorum_round_init(&round, &terms);
}
END_TEST

START_TEST(wrong_number_of_nodes)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, _i == 0 ? 0 : QUORUM_NODES_MAX + 1);
}
END_TEST

START_TEST(wrong_number)
{
    if (_i == 0)
        quorum_all(QUORUM_NODES_MAX + 1);
    if (_i == 1)
        quorum_drift(QUORUM_SECOND, 1000001);
    if (_i == 2)
        quorum_shortest_ttl(QUORUM_SECOND, 1000000); /* the drift takes all of any ttl */
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
    tcase_add_loop_test_raise_signal(aborts, wrong_event, SIGABRT, 0, ROWS(wrong_events));
    tcase_add_test_raise_signal(aborts, node_both_usable_and_coming, SIGABRT);
    tcase_add_test_raise_signal(aborts, acquire_without_a_minimum_validity, SIGABRT);
    tcase_add_loop_test_raise_signal(aborts, wrong_number_of_nodes, SIGABRT, 0, 2);
    tcase_add_loop_test_raise_signal(aborts, wrong_number, SIGABRT, 0, 3);
    tcase_add_loop_test_raise_signal(aborts, retry_without_a_loss, SIGABRT, 0, ROWS(no_losses));
    suite_add_tcase(suite, aborts);
    return run_suite(suite);
}
