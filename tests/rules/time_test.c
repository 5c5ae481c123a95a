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

START_TEST(sum_is_exact_or_never)
{
    for (int i = 0; i < CORNERS; i++)
        for (int j = 0; j < CORNERS; j++)
            ck_assert_uint_eq(quorum_time_add(corners[i], corners[j]), narrow((wide)corners[i] + corners[j]));
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

int main(void)
{
    Suite *suite = suite_create("quorum/time");
    TCase *arithmetic = tcase_create("arithmetic");
    tcase_add_test(arithmetic, sum_is_exact_or_never);
    tcase_add_test(arithmetic, difference_is_exact_or_nothing);
    suite_add_tcase(suite, arithmetic);
    return run_suite(suite);
}
