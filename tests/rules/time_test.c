/* Time arithmetic: exact in the middle, saturated at the ends. */
#include "quorum/time.h"

#include "rules/wide.h"
#include "support/test.h"

/* The points where sums and differences saturate or wrap: both ends, both sides of the middle, and ordinary times. */
static const uint64_t corners[] = {
    0, 1, 2, QUORUM_SECOND, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - QUORUM_SECOND, UINT64_MAX - 1, UINT64_MAX};

TEST_CASE(time, NULL, NULL);

TEST_ROWS(time, sum_is_exact_or_never_and_difference_exact_or_nothing, ROWS(corners))
{
    uint64_t moment = corners[_i];
    for (int i = 0; i < ROWS(corners); i++) {
        uint64_t now = corners[i];
        ck_assert_uint_eq(quorum_time_add(moment, now), narrow((wide)moment + now));
        ck_assert_uint_eq(quorum_time_since(moment, now), moment <= now ? now - moment : 0);
        ck_assert_uint_eq(quorum_time_until(moment, now), moment >= now ? moment - now : 0);
    }
}

TEST_PROGRAM("quorum/time")
