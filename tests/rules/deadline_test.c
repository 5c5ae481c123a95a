/* A node's reply timeout: it follows the measured round trip, between its two bounds. */
#include "quorum/deadline.h"

#include "support/test.h"

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

/* Measurements, others after them, and the timeout then: after the first one it is three times the round trip, then it
 * approaches the round trip. */
static const struct {
    quorum_duration took, then, at_least, at_most;
    unsigned times, then_times;
} round_trips[] = {
    {0, 0, 50 * MS, 50 * MS, 0, 0},
    {MS / 5, 0, 50 * MS, 50 * MS, 1, 0},
    {MS / 5, 0, 50 * MS, 50 * MS, 100, 0},
    {16 * MS, 0, 50 * MS, 50 * MS, 1, 0},
    {17 * MS, 0, 51 * MS, 51 * MS, 1, 0},
    {100 * MS, 0, 300 * MS, 300 * MS, 1, 0},
    {100 * MS, 0, 250 * MS, 250 * MS, 2, 0},
    {100 * MS, 0, 100 * MS, 101 * MS, 50, 0},
    {1000 * MS, 0, 2000 * MS, 2000 * MS, 1, 0},
    {9000 * MS, 0, 2000 * MS, 2000 * MS, 1, 0},
    /* The round trip grows from loopback to 120 ms: each late reply raises the timeout, and the third reply is in
     * time. */
    {MS / 5, 120 * MS, 121 * MS, 2000 * MS, 100, 2},
    /* A standstill counts as twice the timeout. */
    {MS / 5, 100 * MS, 112475000, 112475000, 100, 1},
    {MS / 5, 1900 * MS, 112475000, 112475000, 100, 1},
    {100 * MS, MS / 5, 50 * MS, 50 * MS, 50, 25},
};

TEST_CASE(deadline, NULL, NULL);

TEST_ROWS(deadline, timeout_is_the_round_trip_and_its_deviation_between_the_bounds, ROWS(round_trips))
{
    struct quorum_round_trip round_trip = measured(round_trips[_i].took, round_trips[_i].times);
    for (unsigned i = 0; i < round_trips[_i].then_times; i++)
        quorum_deadline_measured(&round_trip, &usual, round_trips[_i].then);
    quorum_duration timeout = quorum_deadline_timeout(&round_trip, &usual);
    ck_assert_uint_ge(timeout, round_trips[_i].at_least);
    ck_assert_uint_le(timeout, round_trips[_i].at_most);
}

TEST(deadline, silence_limit_below_the_timeout_leaves_the_timeout)
{
    const struct quorum_patience patience = {.least = 500 * MS, .most = 300 * MS};
    struct quorum_round_trip round_trip = measured(1900 * MS, 9);
    ck_assert_uint_eq(quorum_deadline_timeout(&round_trip, &patience), 500 * MS);
    ck_assert_uint_eq(quorum_deadline_due(&round_trip, &patience, now, 0), now + 500 * MS);
}

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

TEST_ROWS(deadline, wait_begins_when_the_request_before_was_answered, ROWS(dues))
{
    const struct quorum_round_trip round_trip = {0};
    ck_assert_uint_eq(quorum_deadline_due(&round_trip, &usual, dues[_i].sent, dues[_i].heard), dues[_i].due);
}

TEST_PROGRAM("quorum/deadline")
