/* A node's reply timeout: it follows the measured round trip, between its two bounds. */
#include "quorum/deadline.h"

#include "rules/random.h"
#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const struct quorum_patience usual = {.least = 50 * MS, .most = 2000 * MS};
static const quorum_time now = 1000 * QUORUM_SECOND;

static struct quorum_round_trip measured(quorum_duration took, unsigned times)
{
    struct quorum_round_trip round_trip = {0};
    for (unsigned i = 0; i < times; i++)
        quorum_deadline_measured(&round_trip, &usual, took);
    return round_trip;
}

static quorum_duration timeout_of(struct quorum_round_trip round_trip)
{
    return quorum_deadline_timeout(&round_trip, &usual);
}

/* took, timeout, times: after the first measurement the timeout is three times the round trip, then it approaches
 * the round trip. */
static const struct {
    quorum_duration took, timeout;
    unsigned times;
} round_trips[] = {
    {0, 50 * MS, 0},         {MS / 5, 50 * MS, 1},      {MS / 5, 50 * MS, 100},
    {100 * MS, 300 * MS, 1}, {100 * MS, 250 * MS, 2},   {16 * MS, 50 * MS, 1},
    {17 * MS, 51 * MS, 1},   {1000 * MS, 2000 * MS, 1}, {9000 * MS, 2000 * MS, 1},
};

START_TEST(timeout_is_the_round_trip_and_its_deviation_between_the_bounds)
{
    ck_assert_uint_eq(timeout_of(measured(round_trips[_i].took, round_trips[_i].times)), round_trips[_i].timeout);
}
END_TEST

START_TEST(steady_round_trip_needs_little_more_than_itself)
{
    quorum_duration timeout = timeout_of(measured(100 * MS, 50));
    ck_assert_uint_ge(timeout, 100 * MS);
    ck_assert_uint_le(timeout, 101 * MS);
}
END_TEST

/* The round trip grows from loopback to 120 ms: each late reply raises the timeout, and the third reply is in time. */
START_TEST(longer_round_trip_is_learned_from_late_answers)
{
    struct quorum_round_trip round_trip = measured(MS / 5, 100);
    quorum_deadline_measured(&round_trip, &usual, 120 * MS);
    quorum_deadline_measured(&round_trip, &usual, 120 * MS);
    ck_assert_uint_gt(timeout_of(round_trip), 120 * MS);
}
END_TEST

START_TEST(standstill_counts_as_twice_the_timeout)
{
    struct quorum_round_trip round_trip = measured(MS / 5, 100), other = round_trip;
    quorum_deadline_measured(&round_trip, &usual, 1900 * MS);
    quorum_deadline_measured(&other, &usual, 100 * MS);
    ck_assert_uint_eq(timeout_of(round_trip), timeout_of(other));
    ck_assert_uint_gt(timeout_of(round_trip), 100 * MS);
    ck_assert_uint_lt(timeout_of(round_trip), 120 * MS);
}
END_TEST

START_TEST(shorter_round_trip_brings_it_back_to_the_least)
{
    struct quorum_round_trip round_trip = measured(100 * MS, 50);
    for (unsigned i = 0; i < 25; i++)
        quorum_deadline_measured(&round_trip, &usual, MS / 5);
    ck_assert_uint_eq(timeout_of(round_trip), 50 * MS);
}
END_TEST

START_TEST(silence_limit_below_the_timeout_leaves_the_timeout)
{
    const struct quorum_patience patience = {.least = 500 * MS, .most = 300 * MS};
    struct quorum_round_trip round_trip = measured(1900 * MS, 9);
    ck_assert_uint_eq(quorum_deadline_timeout(&round_trip, &patience), 500 * MS);
    ck_assert_uint_eq(quorum_deadline_due(&round_trip, &patience, now, 0), now + 500 * MS);
}
END_TEST

/* sent, heard, due: the timeout of this node is 50 ms. */
static const struct {
    quorum_time sent, heard, due;
} dues[] = {
    {now, 0, now + 50 * MS},                             /* no reply yet */
    {now, now - 1, now + 50 * MS},                       /* the last reply came before the request was sent */
    {now, now + 30 * MS, now + 80 * MS},                 /* the node is executing earlier requests */
    {now, now + 1950 * MS, now + 2000 * MS},             /* the silence limit */
    {now, now + 1990 * MS, now + 2000 * MS},             /* never beyond the silence limit */
    {QUORUM_NEVER - MS, QUORUM_NEVER - 1, QUORUM_NEVER}, /* sums saturate */
};

START_TEST(wait_begins_when_the_request_before_was_answered)
{
    const struct quorum_round_trip round_trip = {0};
    ck_assert_uint_eq(quorum_deadline_due(&round_trip, &usual, dues[_i].sent, dues[_i].heard), dues[_i].due);
}
END_TEST

/* Requests time out in the order in which they were sent. */
START_TEST(later_request_is_never_due_before_an_earlier_one)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < 20000; i++) {
        struct quorum_round_trip round_trip = measured(next_random(&seed) % (3000 * MS), random_below(&seed, 4));
        quorum_time sent = now + next_random(&seed) % (3000 * MS), later = sent + next_random(&seed) % (3000 * MS);
        quorum_time heard = now + next_random(&seed) % (6000 * MS);
        quorum_time due = quorum_deadline_due(&round_trip, &usual, sent, heard);
        ck_assert_uint_le(due, quorum_deadline_due(&round_trip, &usual, later, heard));
        ck_assert_uint_ge(due, sent + usual.least);
        ck_assert_uint_le(due, sent + usual.most);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/deadline");
    TCase *tcase = tcase_create("deadline");
    tcase_add_loop_test(tcase, timeout_is_the_round_trip_and_its_deviation_between_the_bounds, 0,
                        (int)(sizeof round_trips / sizeof *round_trips));
    tcase_add_test(tcase, steady_round_trip_needs_little_more_than_itself);
    tcase_add_test(tcase, longer_round_trip_is_learned_from_late_answers);
    tcase_add_test(tcase, standstill_counts_as_twice_the_timeout);
    tcase_add_test(tcase, shorter_round_trip_brings_it_back_to_the_least);
    tcase_add_test(tcase, silence_limit_below_the_timeout_leaves_the_timeout);
    tcase_add_loop_test(tcase, wait_begins_when_the_request_before_was_answered, 0, (int)(sizeof dues / sizeof *dues));
    tcase_add_test(tcase, later_request_is_never_due_before_an_earlier_one);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
