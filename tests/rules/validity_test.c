/* Drift and validity: exact, compared with 128 bit arithmetic, for a ttl from zero to centuries. */
#include "quorum/validity.h"

#include "rules/random.h"
#include "rules/wide.h"
#include "support/suite.h"

#define ONE_PERCENT 10000u

static const uint32_t rates[] = {0, 1, 7, 100, 999, ONE_PERCENT, 33333, 250000, 500000, 999999, 1000000};
#define RATES ((int)(sizeof rates / sizeof *rates))

static const quorum_duration ttls[] = {0,
                                       1,
                                       999,
                                       999999,
                                       QUORUM_MILLISECOND,
                                       2 * QUORUM_MILLISECOND - 1,
                                       2 * QUORUM_MILLISECOND,
                                       2 * QUORUM_MILLISECOND + 1,
                                       2020202,
                                       2020203,
                                       3 * QUORUM_MILLISECOND,
                                       50 * QUORUM_MILLISECOND,
                                       30 * QUORUM_SECOND,
                                       UINT32_MAX *QUORUM_MILLISECOND,
                                       UINT64_MAX / 1000000,
                                       UINT64_MAX / 1000000 + 1,
                                       UINT64_MAX / 2,
                                       UINT64_MAX - 2 * QUORUM_MILLISECOND,
                                       UINT64_MAX - 1,
                                       UINT64_MAX};
#define TTLS ((int)(sizeof ttls / sizeof *ttls))

static const quorum_time moments[] = {0, 1, QUORUM_SECOND, UINT64_MAX / 2, UINT64_MAX - QUORUM_SECOND, UINT64_MAX};
#define MOMENTS ((int)(sizeof moments / sizeof *moments))

START_TEST(drift_of_the_manual)
{
    ck_assert_uint_eq(quorum_drift(10 * QUORUM_SECOND, ONE_PERCENT), 102 * QUORUM_MILLISECOND);
    ck_assert_uint_eq(quorum_drift(0, ONE_PERCENT), 2 * QUORUM_MILLISECOND);
    ck_assert_uint_eq(quorum_drift(10 * QUORUM_SECOND, 0), 2 * QUORUM_MILLISECOND);
}
END_TEST

START_TEST(drift_is_exact_for_any_ttl)
{
    for (int i = 0; i < TTLS; i++)
        for (int j = 0; j < RATES; j++)
            ck_assert_uint_eq(quorum_drift(ttls[i], rates[j]), narrow(wide_drift(ttls[i], rates[j])));
}
END_TEST

START_TEST(end_is_exact_for_any_ttl)
{
    for (int i = 0; i < TTLS; i++)
        for (int j = 0; j < RATES; j++)
            for (int k = 0; k < MOMENTS; k++)
                ck_assert_uint_eq(quorum_validity_end(moments[k], ttls[i], rates[j]),
                                  wide_validity_end(moments[k], ttls[i], rates[j]));
}
END_TEST

/* Finds the shortest ttl in whole milliseconds by trying one after the other. */
static quorum_duration shortest_by_trying(quorum_duration validity, uint32_t drift_ppm)
{
    quorum_duration ttl = QUORUM_MILLISECOND;
    while (wide_validity_end(0, ttl, drift_ppm) < validity)
        ttl += QUORUM_MILLISECOND;
    return ttl;
}

START_TEST(shortest_ttl_is_the_least_that_does)
{
    uint32_t rate = rates[_i];
    if (rate > 500000)
        return; /* check_shortest() covers these rates, because trying every ttl would take too long */
    for (quorum_duration validity = 1; validity < 400 * QUORUM_MILLISECOND; validity += 333333)
        ck_assert_uint_eq(quorum_shortest_ttl(validity, rate), shortest_by_trying(validity, rate));
    for (quorum_duration ms = 1; ms < 300; ms++)
        for (quorum_duration off = 0; off < 3; off++)
            ck_assert_uint_eq(quorum_shortest_ttl(ms * QUORUM_MILLISECOND + off - 1, rate),
                              shortest_by_trying(ms * QUORUM_MILLISECOND + off - 1, rate));
}
END_TEST

/* The range is too long to try every ttl: the result must be enough, and one millisecond less must not be. */
static void check_shortest(quorum_duration validity, uint32_t drift_ppm)
{
    quorum_duration ttl = quorum_shortest_ttl(validity, drift_ppm);
    if (ttl == QUORUM_NEVER)
        ck_assert_uint_lt(wide_validity_end(0, UINT64_MAX / QUORUM_MILLISECOND * QUORUM_MILLISECOND, drift_ppm),
                          validity);
    else {
        ck_assert_uint_eq(ttl % QUORUM_MILLISECOND, 0);
        ck_assert_uint_ge(wide_validity_end(0, ttl, drift_ppm), validity);
        ck_assert_uint_lt(wide_validity_end(0, ttl - QUORUM_MILLISECOND, drift_ppm), validity);
    }
}

START_TEST(shortest_ttl_at_any_rate_and_size)
{
    uint64_t seed = 2;
    for (int i = 0; i < RATES - 1; i++) { /* at the last rate no validity is ever left */
        for (int j = 1; j < TTLS; j++)
            check_shortest(ttls[j], rates[i]);
        for (int j = 0; j < 500; j++)
            check_shortest((next_random(&seed) >> random_below(&seed, 64)) | 1, rates[i]);
    }
}
END_TEST

START_TEST(shortest_ttl_that_does_not_fit_is_never)
{
    ck_assert_uint_eq(quorum_shortest_ttl(UINT64_MAX, ONE_PERCENT), QUORUM_NEVER);
    ck_assert_uint_eq(quorum_shortest_ttl(UINT64_MAX - QUORUM_MILLISECOND, 0), QUORUM_NEVER);
    ck_assert_uint_eq(quorum_shortest_ttl(10 * 3600 * QUORUM_SECOND, 999999), QUORUM_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/validity");
    TCase *drift = tcase_create("drift");
    tcase_add_test(drift, drift_of_the_manual);
    tcase_add_test(drift, drift_is_exact_for_any_ttl);
    suite_add_tcase(suite, drift);

    TCase *end = tcase_create("end");
    tcase_add_test(end, end_is_exact_for_any_ttl);
    suite_add_tcase(suite, end);

    TCase *shortest = tcase_create("shortest_ttl");
    tcase_add_loop_test(shortest, shortest_ttl_is_the_least_that_does, 0, RATES);
    tcase_add_test(shortest, shortest_ttl_at_any_rate_and_size);
    tcase_add_test(shortest, shortest_ttl_that_does_not_fit_is_never);
    suite_add_tcase(suite, shortest);
    return run_suite(suite);
}
