/* Time arithmetic, drift and validity: exact, compared with 128 bit arithmetic, for a ttl from zero to centuries; saturated
 * at the ends. */
#include "quorum/validity.h"

#include "rules/random.h"
#include "rules/wide.h"
#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const uint32_t rates[] = {0, 1, 7, 100, 999, 10000, 33333, 250000, 500000, 999999, 1000000};

static const quorum_duration ttls[] = {
    0, 1, 2 * MS - 1, 2 * MS, 2 * MS + 1, 2020203, 30000 * MS, UINT64_MAX / 1000000, UINT64_MAX - 2 * MS, UINT64_MAX};

static const quorum_time moments[] = {0, 1, QUORUM_SECOND, UINT64_MAX / 2, UINT64_MAX - QUORUM_SECOND, UINT64_MAX};

TEST_CASE(validity, NULL, NULL);

/* The points where sums and differences saturate or wrap: both ends, both sides of the middle, and ordinary times. */
static const uint64_t corners[] = {
    0, 1, 2, QUORUM_SECOND, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - QUORUM_SECOND, UINT64_MAX - 1, UINT64_MAX};

TEST_ROWS(validity, sum_is_exact_or_never_and_difference_exact_or_nothing, ROWS(corners))
{
    uint64_t moment = corners[_i];
    for (int i = 0; i < ROWS(corners); i++) {
        uint64_t now = corners[i];
        ck_assert_uint_eq(quorum_time_add(moment, now), narrow((wide)moment + now));
        ck_assert_uint_eq(quorum_time_since(moment, now), moment <= now ? now - moment : 0);
        ck_assert_uint_eq(quorum_time_until(moment, now), moment >= now ? moment - now : 0);
    }
}

TEST(validity, drift_and_end_are_exact_for_any_ttl)
{
    for (int i = 0; i < ROWS(ttls); i++)
        for (int j = 0; j < ROWS(rates); j++) {
            ck_assert_uint_eq(quorum_drift(ttls[i], rates[j]), narrow(wide_drift(ttls[i], rates[j])));
            for (int k = 0; k < ROWS(moments); k++)
                ck_assert_uint_eq(quorum_validity_end(moments[k], ttls[i], rates[j]),
                                  wide_validity_end(moments[k], ttls[i], rates[j]));
        }
}

/* The result is in whole milliseconds, and enough; one millisecond less is not. Where there is none, the longest ttl
 * is not. */
static void check_shortest(quorum_duration validity, uint32_t drift_ppm)
{
    quorum_duration ttl = quorum_shortest_ttl(validity, drift_ppm);
    if (ttl == QUORUM_NEVER)
        ck_assert_uint_lt(wide_validity_end(0, UINT64_MAX / MS * MS, drift_ppm), validity);
    else {
        ck_assert_uint_eq(ttl % MS, 0);
        ck_assert_uint_ge(wide_validity_end(0, ttl, drift_ppm), validity);
        ck_assert_uint_lt(wide_validity_end(0, ttl - MS, drift_ppm), validity);
    }
}

TEST(validity, shortest_ttl_at_any_rate_and_size)
{
    uint64_t seed = 2;
    for (int i = 0; i < ROWS(rates) - 1; i++) { /* at the last rate no validity is ever left */
        for (int j = 1; j < ROWS(ttls); j++)
            check_shortest(ttls[j], rates[i]);
        for (int j = 0; j < 500; j++)
            check_shortest((next_random(&seed) >> random_below(&seed, 64)) | 1, rates[i]);
    }
}

TEST_PROGRAM("quorum/validity")
