/* The quarantine of a node that may have lost its locks: never shorter than the longest lock that it may have lost. */
#include "quorum/guard.h"

#include "quorum/validity.h"
#include "rules/random.h"
#include "rules/wide.h"
#include "support/suite.h"

#define ONE_PERCENT 10000u
#define MS          QUORUM_MILLISECOND

static const quorum_time noon = 1700000000 * QUORUM_SECOND; /* by the node's clock */

/* max_ttl + drift + 1 s: the formula in the manual. */
static wide whole(quorum_duration max_ttl, uint32_t drift_ppm)
{
    return (wide)max_ttl + wide_drift(max_ttl, drift_ppm) + QUORUM_SECOND;
}

START_TEST(quarantine_of_the_manual)
{
    ck_assert_uint_eq(quorum_quarantine(noon, noon, 30 * QUORUM_SECOND, ONE_PERCENT), 31302 * MS);
    ck_assert_uint_eq(quorum_quarantine(noon, noon, 3 * QUORUM_SECOND, ONE_PERCENT), 4032 * MS);
}
END_TEST

START_TEST(it_ends_to_the_nanosecond)
{
    ck_assert_uint_eq(quorum_quarantine(noon, noon + 1, 3 * QUORUM_SECOND, ONE_PERCENT), 4032 * MS - 1);
    ck_assert_uint_eq(quorum_quarantine(noon, noon + 4032 * MS - 1, 3 * QUORUM_SECOND, ONE_PERCENT), 1);
    ck_assert_uint_eq(quorum_quarantine(noon, noon + 4032 * MS, 3 * QUORUM_SECOND, ONE_PERCENT), 0);
    ck_assert_uint_eq(quorum_quarantine(noon, QUORUM_NEVER, 3 * QUORUM_SECOND, ONE_PERCENT), 0);
}
END_TEST

START_TEST(what_an_operator_vouches_for_is_trusted)
{
    ck_assert_uint_eq(quorum_quarantine(QUORUM_TRUSTED, 0, QUORUM_NEVER, ONE_PERCENT), 0);
    ck_assert_uint_eq(quorum_quarantine(QUORUM_TRUSTED, 1, 30 * QUORUM_SECOND, ONE_PERCENT), 0);
    ck_assert_uint_eq(quorum_quarantine(QUORUM_TRUSTED, noon, 30 * QUORUM_SECOND, ONE_PERCENT), 0);
}
END_TEST

/* The node's clock has gone back since: the elapsed time is unknown, so none of it counts. */
START_TEST(marker_from_the_future_is_as_new)
{
    static const quorum_duration ahead[] = {1, MS, QUORUM_SECOND, 86400 * QUORUM_SECOND};
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(quorum_quarantine(noon + ahead[i], noon, 3 * QUORUM_SECOND, ONE_PERCENT), 4032 * MS);
    ck_assert_uint_eq(quorum_quarantine(QUORUM_NEVER, 0, 3 * QUORUM_SECOND, ONE_PERCENT), 4032 * MS);
}
END_TEST

/* A marker may contain any number. */
START_TEST(nothing_overflows)
{
    ck_assert_uint_eq(quorum_quarantine(noon, noon, QUORUM_NEVER, ONE_PERCENT), QUORUM_NEVER - noon);
    ck_assert_uint_eq(quorum_quarantine(1, 0, QUORUM_NEVER, ONE_PERCENT), QUORUM_NEVER);
    ck_assert_uint_eq(quorum_quarantine(QUORUM_NEVER, QUORUM_NEVER, QUORUM_NEVER, ONE_PERCENT), 0);
}
END_TEST

START_TEST(exact_at_random)
{
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        quorum_time since = next_random(&seed) >> random_below(&seed, 64);
        quorum_time time = random_below(&seed, 2) ? since + random_below(&seed, 100) * QUORUM_SECOND
                                                  : next_random(&seed) >> random_below(&seed, 64);
        quorum_duration max_ttl = next_random(&seed) >> random_below(&seed, 64);
        uint32_t drift = random_below(&seed, 1000001);
        wide end = (wide)since + whole(max_ttl, drift);
        quorum_duration expected = time < since               ? narrow(whole(max_ttl, drift))
                                   : narrow(end) > (wide)time ? narrow(end) - time
                                                              : 0;
        if (since != QUORUM_TRUSTED && quorum_quarantine(since, time, max_ttl, drift) != expected)
            ck_abort_msg("since %lu, time %lu, max_ttl %lu, %u ppm", since, time, max_ttl, drift);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/guard");
    TCase *quarantine = tcase_create("quarantine");
    tcase_add_test(quarantine, quarantine_of_the_manual);
    tcase_add_test(quarantine, it_ends_to_the_nanosecond);
    tcase_add_test(quarantine, what_an_operator_vouches_for_is_trusted);
    tcase_add_test(quarantine, marker_from_the_future_is_as_new);
    tcase_add_test(quarantine, nothing_overflows);
    tcase_add_test(quarantine, exact_at_random);
    suite_add_tcase(suite, quarantine);
    return run_suite(suite);
}
