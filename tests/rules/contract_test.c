/* Events that violate the host's contract: the rules abort, also in a Release build, instead of continuing with a
 * lock that guarantees nothing. */
#include "quorum/retry.h"
#include "quorum/round.h"
#include "quorum/tally.h"
#include "quorum/validity.h"

#include <signal.h>

#include "support/test.h"

#define TERMS(round_kind, count, least)                                                                                \
    {                                                                                                                  \
        .kind = (round_kind), .nodes = (count), .ttl = QUORUM_SECOND, .drift_ppm = 10000, .minimum_validity = (least)  \
    }

/* A round, and an event that it gets after its start, or as its start. Node 2 is not usable at the start. */
static const struct {
    struct quorum_terms terms;
    struct quorum_event event;
    bool begun;
} wrong[] = {
    {TERMS(QUORUM_ACQUIRE, 3, 1), {.type = QUORUM_START, .now = 2, .usable = 0x7}, true}, /* a second time */
    /* Node 2 got no request: such a lock would be valid forever, because validity counts from the first send. */
    {TERMS(QUORUM_ACQUIRE, 3, 1), {.type = QUORUM_VOTED, .node = 2, .vote = QUORUM_GRANTED}, true},
    {TERMS(QUORUM_ACQUIRE, 3, 1), {.type = QUORUM_VOTED, .node = 3, .vote = QUORUM_HELD}, true}, /* there is no such */
    {TERMS(QUORUM_ACQUIRE, 3, 1), {.type = QUORUM_VOTED, .node = 0, .vote = QUORUM_PENDING}, true},
    {TERMS(QUORUM_ACQUIRE, 3, 1), {.type = QUORUM_VOTED, .node = 0, .vote = QUORUM_VOTES}, true},
    {TERMS(QUORUM_EXTEND, 3, 0), {.type = QUORUM_START, .usable = 0x7, .coming = 0x4}, false},
    {TERMS(QUORUM_ACQUIRE, 3, 0), {0}, false},
    {TERMS(QUORUM_EXTEND, 0, 0), {0}, false},
    {TERMS(QUORUM_EXTEND, QUORUM_NODES_MAX + 1, 0), {0}, false},
};

START_TEST(wrong_round)
{
    const struct quorum_event start = {.type = QUORUM_START, .now = 1, .usable = 0x3, .coming = 0x4};
    struct quorum_round round;
    quorum_round_init(&round, &wrong[_i].terms);
    if (wrong[_i].begun)
        quorum_round_step(&round, &start);
    quorum_round_step(&round, &wrong[_i].event);
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
    struct quorum_retry retry = {.deadline = QUORUM_NEVER};
    quorum_retry_next(&retry, 1, no_losses[_i], 0, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum, violations of its contract");
    TCase *aborts = tcase_create("aborts");
    tcase_add_loop_test_raise_signal(aborts, wrong_round, SIGABRT, 0, ROWS(wrong));
    tcase_add_loop_test_raise_signal(aborts, wrong_number, SIGABRT, 0, 3);
    tcase_add_loop_test_raise_signal(aborts, retry_without_a_loss, SIGABRT, 0, ROWS(no_losses));
    suite_add_tcase(suite, aborts);
    return run_suite(suite);
}
