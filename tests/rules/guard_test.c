/* The quarantine of a node that may have lost its locks: never shorter than the longest lock that it may have lost. */
#include "quorum/guard.h"

#include "quorum/validity.h"
#include "support/test.h"

#define ONE_PERCENT 10000u
#define MS          QUORUM_MILLISECOND
#define NOON        (1700000000 * QUORUM_SECOND) /* by the node's clock */

#define LONG        (30 * QUORUM_SECOND)
#define SHORT       (3 * QUORUM_SECOND)

TEST_CASE(guard, NULL, NULL);

/* max_ttl + drift + 1 s, as in the manual. No time is too late, and no ttl too long. */
static const struct {
    quorum_time since, time;
    quorum_duration max_ttl;
    uint32_t drift_ppm;
    quorum_duration left;
} rows[] = {
    {NOON, NOON, LONG, ONE_PERCENT, 31302 * MS},
    {NOON, NOON, SHORT, ONE_PERCENT, 4032 * MS},
    {NOON, NOON + 4032 * MS - 1, SHORT, ONE_PERCENT, 1},
    {NOON, NOON + 4032 * MS, SHORT, ONE_PERCENT, 0},
    {NOON, NOON + LONG, SHORT, ONE_PERCENT, 0},
    {NOON, NOON, SHORT, 1000000, 7002 * MS},
    {NOON, NOON - 1, SHORT, 0, 4002 * MS}, /* the clock was set back */
    {NOON, 0, QUORUM_NEVER, ONE_PERCENT, QUORUM_NEVER},
    {NOON, NOON + MS, QUORUM_NEVER, 0, QUORUM_NEVER - NOON - MS},
    {QUORUM_NEVER - 1, QUORUM_NEVER - 1, LONG, ONE_PERCENT, 1},
    {QUORUM_TRUSTED, 0, QUORUM_NEVER, ONE_PERCENT, 0}, /* an operator's word */
};

TEST_ROWS(guard, quarantine_is_that_of_the_manual, ROWS(rows))
{
    ck_assert_uint_eq(quorum_quarantine(rows[_i].since, rows[_i].time, rows[_i].max_ttl, rows[_i].drift_ppm),
                      rows[_i].left);
}

/* The largest max_ttl that any node has shown counts on every node, whichever was read first. */
TEST(guard, larger_max_ttl_of_one_node_counts_on_every_node)
{
    struct quorum_guard guard;
    quorum_guard_init(&guard, 3, ONE_PERCENT, SHORT);
    quorum_guard_read(&guard, 0, NOON, NOON + QUORUM_SECOND, 5 * QUORUM_SECOND);
    quorum_guard_read(&guard, 1, QUORUM_TRUSTED, NOON, 5 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].end, 5 * QUORUM_SECOND + 3032 * MS);
    ck_assert(!quorum_guard_learn(&guard, SHORT, 6 * QUORUM_SECOND));
    ck_assert(!quorum_guard_learn(&guard, MS, 6 * QUORUM_SECOND));
    ck_assert(quorum_guard_learn(&guard, LONG, 6 * QUORUM_SECOND));
    ck_assert(!quorum_guard_learn(&guard, SHORT, 6 * QUORUM_SECOND));
    ck_assert_uint_eq(guard.max_ttl, LONG);
    ck_assert_uint_eq(guard.node[0].end, 5 * QUORUM_SECOND + 30302 * MS);
    ck_assert_uint_eq(guard.node[1].end, 0);
    ck_assert_uint_eq(guard.node[2].end, 0); /* not read yet */
    quorum_time end = guard.node[0].end, learned = 6 * QUORUM_SECOND;
    ck_assert(quorum_guard_voids(&guard, 3, learned, end - 1));
    ck_assert(!quorum_guard_voids(&guard, 3, learned, end));
    ck_assert(!quorum_guard_voids(&guard, 3, learned + 1, end - 1)); /* a round that began with the knowledge */
    ck_assert(!quorum_guard_voids(&guard, 2, learned, learned));
    quorum_guard_read(&guard, 2, NOON, NOON, 6 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[2].end, 6 * QUORUM_SECOND + 31302 * MS);
    quorum_guard_read(&guard, 0, QUORUM_TRUSTED, NOON, 7 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].end, 0);
}

/* Sentinel takes about 1 s, seldom up to 1.7 s, until a majority names the new master; then the client has heard two of
 * three, in turn. */
TEST(guard, promoted_master_votes_within_max_ttl_and_three_seconds)
{
    const quorum_duration max_ttl = 8 * QUORUM_SECOND, named = 1700 * MS, asked = QUORUM_CONFIRMED_LASTS / 3;
    quorum_duration quarantine = quorum_quarantine(NOON, NOON, max_ttl, ONE_PERCENT);
    ck_assert_uint_le(named + asked + quarantine, max_ttl + 3 * QUORUM_SECOND);
}

TEST(guard, promoted_master_settles_before_it_counts_for_held_locks)
{
    struct quorum_guard guard;
    quorum_guard_init(&guard, 2, 0, SHORT);
    guard.node[0].changes = true;
    for (unsigned node = 0; node < 2; node++)
        quorum_guard_read(&guard, node, NOON, NOON + 100 * MS, 7 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].settled, 7 * QUORUM_SECOND + QUORUM_SETTLING - 100 * MS);
    ck_assert_uint_eq(guard.node[1].settled, 0); /* it is not behind Sentinel */
    quorum_guard_read(&guard, 0, NOON, NOON + QUORUM_SETTLING, 7 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].settled, 0);
    quorum_guard_read(&guard, 0, NOON + 1, NOON, 7 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].settled, 7 * QUORUM_SECOND + QUORUM_SETTLING);
    for (int adopts = 0; adopts < 2; adopts++) {
        quorum_time counts = adopts ? guard.node[0].end : guard.node[0].settled;
        ck_assert(!quorum_guard_counts_held(&guard, 0, adopts, counts - 1));
        ck_assert(quorum_guard_counts_held(&guard, 0, adopts, counts));
        ck_assert(quorum_guard_counts_held(&guard, 1, adopts, 0));
    }
    quorum_guard_read(&guard, 0, QUORUM_TRUSTED, NOON, 7 * QUORUM_SECOND);
    ck_assert_uint_eq(guard.node[0].settled, 0);
    ck_assert(quorum_guard_counts_held(&guard, 0, true, 0));
}

TEST_PROGRAM("quorum/guard")
