/* The histograms, and the text of the metrics. */
#include "redlock/redlock.h"
#include "src/core/histogram.h"
#include "support/test.h"

static redlock_client *client;
static char text[65536];

static void teardown(void)
{
    redlock_close(&client, NULL, NULL);
}

TEST_CASE(metrics, NULL, teardown);

/* Each line is a comment, which has a text, or `name{labels} value`, and the type of a family precedes its values. */
TEST(metrics, text_has_the_size_that_it_reports_and_counts_operations_by_their_ends)
{
    static const char *const lines[] = {
        "\nredlock_acquires_total{status=\"NO_QUORUM\"} 1\n",
        "\nredlock_losses_total{reason=\"expired\"} 0\n",
        "\nredlock_quarantines_total 0\n",
        "\nredlock_acquire_seconds_bucket{le=\"0.001024\"} 0\n",
        "\nredlock_node_usable{node=\"/no/\\\"a\\\\b\\\"\"} 0\n",
        "\nredlock_node_latency_seconds_bucket{node=\"/no/\\\"a\\\\b\\\"\",le=\"+Inf\"} 0\n",
        "\nredlock_node_latency_seconds_count{node=\"/no/\\\"a\\\\b\\\"\"} 0\n"};
    size_t needed = 0, again = 0;
    char family[128] = "", name[128];
    redlock_lock *lock;
    double value;
    ck_assert_int_eq(redlock_connect("unix:///no/%22a%5Cb%22", NULL, &client, NULL), REDLOCK_OK);
    ck_assert_int_eq(redlock_acquire(client, "stock", NULL, &lock, NULL), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(redlock_metrics(client, NULL, 0, &needed), REDLOCK_INVALID);
    ck_assert_uint_gt(needed, 1000);
    ck_assert_int_eq(redlock_metrics(client, text, sizeof text, &again), REDLOCK_OK);
    ck_assert_uint_eq(strlen(text) + 1, again);
    for (int i = 0; i < ROWS(lines); i++)
        ck_assert_ptr_nonnull(strstr(text, lines[i]));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, "# TYPE %127s", family) == 1 || sscanf(line, "# HELP %*s %127s", name) == 1)
            continue;
        ck_assert_msg(sscanf(line, "%127[a-z_]", name) == 1, "%s", line);
        ck_assert_msg(strncmp(name, family, strlen(family)) == 0, "%s is not of %s", line, family);
        ck_assert_msg(sscanf(strrchr(line, ' '), "%lf", &value) == 1, "%s", line);
    }
}

TEST_CASE(histogram, NULL, NULL);

TEST(histogram, a_value_is_in_the_first_bucket_that_bounds_it_by_a_quarter)
{
    for (uint64_t us = 0; us < 5000000; us += us / 7 + 1) {
        redlock_histogram histogram = {0, 0, {0}};
        rl_histogram_add(&histogram, us * QUORUM_MICROSECOND);
        uint32_t bucket = 0;
        while (histogram.bucket[bucket] == 0)
            bucket++;
        ck_assert_uint_ge(redlock_histogram_bound_us(bucket), us);
        uint64_t before = bucket ? redlock_histogram_bound_us(bucket - 1) : 0;
        ck_assert(bucket == 0 || before < us);
        ck_assert_uint_le(redlock_histogram_bound_us(bucket) - before, before / 4 + 1);
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
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 0.98), 1);
    ck_assert_uint_ge(redlock_histogram_quantile_us(&histogram, 1), 1000000);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, -1), 0);
    rl_histogram_add(&histogram, QUORUM_NEVER);
    ck_assert_uint_eq(redlock_histogram_quantile_us(&histogram, 1), UINT64_MAX);
}

TEST_PROGRAM("metrics")
