/* Time arithmetic: exact in the middle, saturated at the ends. */
#include "quorum/time.h"

#include "rules/wide.h"
#include "support/suite.h"

/* The points where sums and differences saturate or wrap: both ends, both sides of the middle, and ordinary times. */
static const uint64_t corners[] = {0,
                                   1,
                                   2,
                                   QUORUM_MICROSECOND,
                                   QUORUM_MILLISECOND,
                                   QUORUM_SECOND,
                                   86400 * QUORUM_SECOND,
                                   UINT64_MAX / 2 - 1,
                                   UINT64_MAX / 2,
                                   UINT64_MAX / 2 + 1,
                                   UINT64_MAX / 2 + 2,
                                   UINT64_MAX - QUORUM_SECOND,
                                   UINT64_MAX - 2,
                                   UINT64_MAX - 1,
                                   UINT64_MAX};
#define CORNERS ((int)(sizeof corners / sizeof *corners))

START_TEST(units_are_multiples_of_each_other)
{
    ck_assert_uint_eq(QUORUM_MICROSECOND, 1000);
    ck_assert_uint_eq(QUORUM_MILLISECOND, 1000 * QUORUM_MICROSECOND);
    ck_assert_uint_eq(QUORUM_SECOND, 1000 * QUORUM_MILLISECOND);
}
END_TEST

START_TEST(sum_is_exact_or_never)
{
    for (int i = 0; i < CORNERS; i++)
        for (int j = 0; j < CORNERS; j++)
            ck_assert_uint_eq(quorum_time_add(corners[i], corners[j]), narrow((wide)corners[i] + corners[j]));
}
END_TEST

START_TEST(never_stays_never)
{
    for (int i = 0; i < CORNERS; i++) {
        ck_assert_uint_eq(quorum_time_add(QUORUM_NEVER, corners[i]), QUORUM_NEVER);
        ck_assert_uint_eq(quorum_time_add(corners[i], QUORUM_NEVER), QUORUM_NEVER);
        ck_assert_uint_eq(quorum_time_since(QUORUM_NEVER, corners[i]), 0);
        if (corners[i] != QUORUM_NEVER)
            ck_assert_uint_gt(quorum_time_until(QUORUM_NEVER, corners[i]), 0);
    }
}
END_TEST

START_TEST(difference_is_exact_or_nothing)
{
    for (int i = 0; i < CORNERS; i++)
        for (int j = 0; j < CORNERS; j++) {
            uint64_t moment = corners[i], now = corners[j];
            ck_assert_uint_eq(quorum_time_since(moment, now), moment <= now ? now - moment : 0);
            ck_assert_uint_eq(quorum_time_until(moment, now), moment >= now ? moment - now : 0);
        }
}
END_TEST

START_TEST(a_moment_is_past_or_to_come_never_both)
{
    for (int i = 0; i < CORNERS; i++)
        for (int j = 0; j < CORNERS; j++) {
            quorum_duration since = quorum_time_since(corners[i], corners[j]);
            quorum_duration until = quorum_time_until(corners[i], corners[j]);
            ck_assert(since == 0 || until == 0);
            ck_assert((since == 0 && until == 0) == (corners[i] == corners[j]));
        }
}
END_TEST

static Suite *time_suite(void)
{
    Suite *suite = suite_create("quorum/time");
    TCase *arithmetic = tcase_create("arithmetic");
    tcase_add_test(arithmetic, units_are_multiples_of_each_other);
    tcase_add_test(arithmetic, sum_is_exact_or_never);
    tcase_add_test(arithmetic, never_stays_never);
    tcase_add_test(arithmetic, difference_is_exact_or_nothing);
    tcase_add_test(arithmetic, a_moment_is_past_or_to_come_never_both);
    suite_add_tcase(suite, arithmetic);
    return suite;
}

int main(void)
{
    return run_suite(time_suite());
}
