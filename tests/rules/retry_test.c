/* When to try again: never before one round's time has passed, never after the deadline, and in windows that grow
 * with the losses. */
#include "quorum/retry.h"

#include "rules/random.h"
#include "support/suite.h"

#define MS QUORUM_MILLISECOND

static const quorum_time now = 1000 * QUORUM_SECOND;

struct schedule {
    enum quorum_verdict verdict;
    quorum_duration first, last;
};

/* Held: the other holders are quick. Other verdicts: nodes have to recover first. */
static const struct schedule schedules[] = {{QUORUM_LOST_HELD, 5 * MS, 80 * MS},
                                            {QUORUM_LOST_NO_QUORUM, 20 * MS, 640 * MS},
                                            {QUORUM_LOST_MISCONFIGURED, 20 * MS, 640 * MS},
                                            {QUORUM_LOST_TOO_SLOW, 20 * MS, 640 * MS}};
#define SCHEDULES ((int)(sizeof schedules / sizeof *schedules))

static struct quorum_retry lost_so_often(unsigned losses, enum quorum_verdict verdict)
{
    struct quorum_retry retry;
    quorum_retry_init(&retry, QUORUM_NEVER);
    for (unsigned i = 0; i < losses; i++)
        quorum_retry_next(&retry, now, verdict, 0, 0);
    return retry;
}

/* The pause that follows the next loss. */
static quorum_duration pause_after(struct quorum_retry retry, enum quorum_verdict verdict, uint64_t random)
{
    return quorum_retry_next(&retry, now, verdict, 0, random) - now;
}

static quorum_duration expected_window(const struct schedule *schedule, unsigned losses)
{
    quorum_duration window = schedule->first;
    for (unsigned i = 1; i < losses; i++)
        window = window * 2 < schedule->last ? window * 2 : schedule->last;
    return window;
}

/* The random number is taken modulo the window: the smallest number that gives a pause of 0 again is the window. */
START_TEST(window_doubles_up_to_its_last)
{
    const struct schedule *schedule = &schedules[_i];
    for (unsigned losses = 1; losses < 40; losses++) {
        struct quorum_retry retry = lost_so_often(losses - 1, schedule->verdict);
        quorum_duration window = expected_window(schedule, losses);
        ck_assert_uint_eq(pause_after(retry, schedule->verdict, 0), 0);
        ck_assert_uint_eq(pause_after(retry, schedule->verdict, 1), 1);
        ck_assert_uint_eq(pause_after(retry, schedule->verdict, window - 1), window - 1);
        ck_assert_uint_eq(pause_after(retry, schedule->verdict, window), 0);
        ck_assert_uint_lt(pause_after(retry, schedule->verdict, UINT64_MAX), window);
    }
}
END_TEST

START_TEST(window_starts_anew_when_something_else_is_met)
{
    for (int i = 0; i < SCHEDULES; i++)
        for (int j = 0; j < SCHEDULES; j++) {
            struct quorum_retry retry = lost_so_often(9, schedules[i].verdict);
            quorum_duration window = i == j ? schedules[j].last : schedules[j].first;
            ck_assert_uint_eq(pause_after(retry, schedules[j].verdict, window - 1), window - 1);
            ck_assert_uint_eq(pause_after(retry, schedules[j].verdict, window), 0);
        }
}
END_TEST

/* Two clients that split the votes must not collide in the next round again. */
START_TEST(pause_is_never_below_one_round)
{
    static const quorum_duration rounds[] = {0, 1, 100 * QUORUM_MICROSECOND, 50 * MS, 300 * MS};
    uint64_t seed = 3;
    for (int i = 0; i < SCHEDULES; i++)
        for (unsigned j = 0; j < sizeof rounds / sizeof *rounds; j++) {
            struct quorum_retry retry = lost_so_often(0, schedules[i].verdict);
            for (unsigned losses = 1; losses < 20; losses++) {
                quorum_time next = quorum_retry_next(&retry, now, schedules[i].verdict, rounds[j], next_random(&seed));
                ck_assert_uint_ge(next, now + rounds[j]);
                ck_assert_uint_lt(next, now + rounds[j] + expected_window(&schedules[i], losses));
            }
        }
}
END_TEST

/* When the machine was suspended during a round, the round seems to have taken hours. The pause must not become as
 * long. */
START_TEST(round_that_took_hours_does_not_make_the_pause_as_long)
{
    for (int i = 0; i < SCHEDULES; i++) {
        struct quorum_retry retry = lost_so_often(0, schedules[i].verdict);
        quorum_time next = quorum_retry_next(&retry, now, schedules[i].verdict, 8 * 3600 * QUORUM_SECOND, UINT64_MAX);
        ck_assert_uint_le(next, now + 2 * QUORUM_SECOND);
    }
}
END_TEST

/* A round of 2 ms, and this much time left until the deadline. */
START_TEST(deadline_is_never_passed_nor_met)
{
    static const quorum_duration rests[] = {MS, MS + 1, 2 * MS, 5 * MS - 1, 5 * MS, 5 * MS + 1};
    for (unsigned i = 0; i < sizeof rests / sizeof *rests; i++)
        for (uint64_t random = rests[i] - 2; random < rests[i] + 2; random++) {
            struct quorum_retry retry;
            quorum_retry_init(&retry, now + 2 * MS + rests[i]);
            quorum_time next = quorum_retry_next(&retry, now, QUORUM_LOST_HELD, 2 * MS, random);
            ck_assert_uint_eq(next, now + 2 * MS + random % (rests[i] < 5 * MS ? rests[i] : 5 * MS));
            ck_assert_uint_lt(next, now + 2 * MS + rests[i]);
        }
}
END_TEST

/* The time until the deadline is shorter than a round and a millisecond, or the clock has no later time. */
START_TEST(no_attempt_follows_too_late)
{
    static const struct {
        quorum_time deadline, now;
    } rows[] = {{now + 2 * MS, now},
                {now + 2 * MS + 1, now},
                {now + 3 * MS - 1, now},
                {now - 1, now},
                {0, now},
                {QUORUM_NEVER, QUORUM_NEVER - 1}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct quorum_retry retry;
        quorum_retry_init(&retry, rows[i].deadline);
        ck_assert_uint_eq(quorum_retry_next(&retry, rows[i].now, QUORUM_LOST_HELD, 2 * MS, 0), QUORUM_NEVER);
    }
}
END_TEST

/* A client that waits for a second must not give up after half of it because the window is wider than the remaining
 * time. */
START_TEST(wait_is_used_to_its_end)
{
    for (int i = 0; i < SCHEDULES; i++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct quorum_retry retry;
            uint64_t state = seed;
            unsigned attempts = 0;
            quorum_time deadline = now + QUORUM_SECOND, last = now;
            quorum_retry_init(&retry, deadline);
            for (quorum_time next = now; next != QUORUM_NEVER;) {
                last = next;
                next = quorum_retry_next(&retry, last, schedules[i].verdict, MS, next_random(&state));
                attempts++;
            }
            ck_assert_uint_lt(last, deadline);
            ck_assert_uint_gt(last + 2 * MS, deadline);
            ck_assert_uint_lt(attempts, 60); /* without a burst of attempts at the end */
        }
}
END_TEST

START_TEST(without_a_deadline_there_is_always_a_next)
{
    struct quorum_retry retry;
    uint64_t seed = 4;
    quorum_retry_init(&retry, QUORUM_NEVER);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_ne(quorum_retry_next(&retry, now, QUORUM_LOST_NO_QUORUM, 50 * MS, next_random(&seed)),
                          QUORUM_NEVER);
}
END_TEST

/* Full jitter: the pauses cover the whole window evenly. 64 bins of 1000 draws are within 5 standard deviations of
 * 1000. */
START_TEST(pauses_are_spread_evenly_over_the_window)
{
    enum { BINS = 64, DRAWS = 1000 * BINS };
    const struct schedule *schedule = &schedules[_i];
    struct quorum_retry retry = lost_so_often(20, schedule->verdict);
    unsigned bins[BINS] = {0};
    uint64_t seed = 5;
    for (int i = 0; i < DRAWS; i++)
        bins[pause_after(retry, schedule->verdict, next_random(&seed)) * BINS / schedule->last]++;
    for (int i = 0; i < BINS; i++) {
        ck_assert_uint_gt(bins[i], 840);
        ck_assert_uint_lt(bins[i], 1160);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/retry");
    TCase *window = tcase_create("window");
    tcase_add_loop_test(window, window_doubles_up_to_its_last, 0, SCHEDULES);
    tcase_add_test(window, window_starts_anew_when_something_else_is_met);
    tcase_add_loop_test(window, pauses_are_spread_evenly_over_the_window, 0, SCHEDULES);
    suite_add_tcase(suite, window);

    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, pause_is_never_below_one_round);
    tcase_add_test(bounds, round_that_took_hours_does_not_make_the_pause_as_long);
    tcase_add_test(bounds, deadline_is_never_passed_nor_met);
    tcase_add_test(bounds, no_attempt_follows_too_late);
    tcase_add_test(bounds, wait_is_used_to_its_end);
    tcase_add_test(bounds, without_a_deadline_there_is_always_a_next);
    suite_add_tcase(suite, bounds);
    return run_suite(suite);
}
