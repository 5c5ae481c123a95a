/* A client's statistics: the histogram alone, the counters on real servers. */
#include "real/clients.h"
#include "src/core/histogram.h"

/* --- Histogram --- */

TEST_CASE(histogram, NULL, NULL);
REAL_CASE(counters, real_bare_case, NULL);

TEST(histogram, buckets_are_contiguous_and_grow_by_a_quarter_at_most)
{
    for (uint32_t bucket = 1; bucket < REDLOCK_HISTOGRAM_BUCKETS - 1; bucket++) {
        uint64_t before = redlock_histogram_bound_us(bucket - 1), bound = redlock_histogram_bound_us(bucket);
        ck_assert_uint_gt(bound, before);
        ck_assert_uint_le(bound - before, before / 4 + 1);
    }
    ck_assert_uint_eq(redlock_histogram_bound_us(REDLOCK_HISTOGRAM_BUCKETS - 1), UINT64_MAX);
}

TEST(histogram, a_value_is_in_the_first_bucket_that_bounds_it)
{
    for (uint64_t us = 0; us < 5000000; us += us / 7 + 1) {
        redlock_histogram histogram = {0, 0, {0}};
        rl_histogram_add(&histogram, us * QUORUM_MICROSECOND);
        uint32_t bucket = 0;
        while (histogram.bucket[bucket] == 0)
            bucket++;
        ck_assert_uint_ge(redlock_histogram_bound_us(bucket), us);
        ck_assert(bucket == 0 || redlock_histogram_bound_us(bucket - 1) < us);
        ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 0.5), redlock_histogram_bound_us(bucket));
        ck_assert_uint_eq(histogram.sum_us, us);
    }
}

TEST(histogram, quantiles_count_from_below)
{
    redlock_histogram histogram = {0, 0, {0}};
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 0.5), 0);
    ck_assert_uint_eq(redlock_histogram_quantile_us(NULL, 0.5), 0);
    for (int i = 0; i < 99; i++)
        rl_histogram_add(&histogram, QUORUM_MICROSECOND);
    rl_histogram_add(&histogram, QUORUM_SECOND);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 0.5), 1);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 0.98), 1);
    ck_assert_uint_ge(redlock_histogram_quantile_us(&histogram, 1), 1000000);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, -1), 0);
    rl_histogram_add(&histogram, QUORUM_NEVER);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 1), UINT64_MAX);
}

/* --- Counters --- */

static redlock_client *client;

static redlock_lock *acquire(const char *resource, int status)
{
    redlock_lock *lock;
    /* The owner is not the thread, which would re-enter the lock. */
    ck_assert_int_eq(redlock_acquire(client, resource, REAL_WITH(.owner = resource), &lock, NULL), status);
    return lock;
}

TEST(counters, operations_are_counted_by_their_ends)
{
    static char other[] = real_key("stock"); /* another owner */
    const char *stock = real_key("stock");
    redlock_statistics statistics;
    client = face_client(clients_open(BLOCKING_FACE));
    redlock_lock *lock = acquire(stock, REDLOCK_OK);
    ck_assert_ptr_null(acquire(other, REDLOCK_HELD));
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.acquires[0], 1);
    ck_assert_uint_eq(statistics.acquires[-REDLOCK_HELD], 1);
    ck_assert_uint_eq(statistics.locks_held, 1);
    ck_assert_uint_eq(statistics.attempts, 2);
    ck_assert_uint_eq(statistics.acquire_latency.count, 1);
    redlock_lock *again = acquire(stock, REDLOCK_OK);
    ck_assert_int_eq(redlock_release(&again, NULL, NULL), REDLOCK_OK); /* no node takes part in it */
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.reentered, 1);
    ck_assert_uint_eq(statistics.released, 0);
    ck_assert_int_eq(redlock_release(&lock, NULL, NULL), REDLOCK_OK);
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.released, 1);
    ck_assert_uint_eq(statistics.locks_held, 0);
    ck_assert_int_eq(redlock_statistics_get(NULL, &statistics), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_statistics_get(client, NULL), REDLOCK_INVALID);
}

/* Each line is a comment or `name{labels} value`, and the type of a family precedes its values. */
static void check_exposition(char *text)
{
    char family[128] = "";
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        double value;
        char name[128];
        if (sscanf(line, "# TYPE %127s", family) == 1 || strncmp(line, "# HELP ", 7) == 0)
            continue;
        ck_assert_msg(sscanf(line, "%127[a-z_]", name) == 1, "%s", line);
        ck_assert_msg(strncmp(name, family, strlen(family)) == 0, "%s is not of %s", line, family);
        ck_assert_msg(sscanf(strrchr(line, ' '), "%lf", &value) == 1, "%s", line);
    }
}

TEST(counters, metrics_report_the_size_that_they_need)
{
    size_t needed = 0, again = 0;
    client = face_client(clients_open(BLOCKING_FACE));
    redlock_lock *lock = acquire(real_key("stock"), REDLOCK_OK);
    ck_assert_int_eq(redlock_release(&lock, NULL, NULL), REDLOCK_OK);
    ck_assert_int_eq(redlock_metrics(client, NULL, 0, &needed), REDLOCK_INVALID);
    ck_assert_uint_gt(needed, 1000);
    char *text = malloc(needed + 64); /* numbers may have grown by a digit */
    ck_assert_int_eq(redlock_metrics(client, text, needed + 64, &again), REDLOCK_OK);
    ck_assert_uint_eq(strlen(text) + 1, again);
    ck_assert_ptr_nonnull(strstr(text, "\nredlock_acquires_total{status=\"OK\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nredlock_acquire_seconds_count 1\n"));
    check_exposition(text);
    free(text);
}

REAL_FAULTS_PROGRAM("statistics")
