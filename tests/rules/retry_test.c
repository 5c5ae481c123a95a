/* When to try again: never before one round's time has passed, never after the deadline, and in windows that grow
 * with the losses. */
#include "quorum/retry.h"

#include "support/test.h"

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

static struct quorum_retry lost_so_often(unsigned losses, enum quorum_verdict verdict)
{
    struct quorum_retry retry = {.deadline = QUORUM_NEVER};
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

TEST_CASE(retry, NULL, NULL);

/* The random number is taken modulo the window: the smallest number that gives a pause of 0 again is the window. */
TEST_ROWS(retry, window_doubles_up_to_its_last, ROWS(schedules))
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

TEST(retry, window_starts_anew_after_another_verdict)
{
    for (int i = 0; i < ROWS(schedules); i++)
        for (int j = 0; j < ROWS(schedules); j++) {
            struct quorum_retry retry = lost_so_often(9, schedules[i].verdict);
            quorum_duration window = i == j ? schedules[j].last : schedules[j].first;
            ck_assert_uint_eq(pause_after(retry, schedules[j].verdict, window - 1), window - 1);
            ck_assert_uint_eq(pause_after(retry, schedules[j].verdict, window), 0);
        }
}

/* Two clients that split the votes must not collide in the next round again. But if the machine was suspended during
 * the round, it seems to have taken hours, and the pause must not become as long. */
TEST_ROWS(retry, pause_is_never_below_one_round_or_a_second, ROWS(schedules))
{
    static const quorum_duration rounds[] = {0, 1, 50 * MS, 1000 * MS, 1000 * MS + 1, 8 * 3600 * QUORUM_SECOND};
    const struct schedule *schedule = &schedules[_i];
    for (int i = 0; i < ROWS(rounds); i++) {
        quorum_time earliest = now + (rounds[i] < QUORUM_SECOND ? rounds[i] : QUORUM_SECOND);
        struct quorum_retry retry = lost_so_often(0, schedule->verdict), same = retry;
        ck_assert_uint_eq(quorum_retry_next(&retry, now, schedule->verdict, rounds[i], 0), earliest);
        ck_assert_uint_eq(quorum_retry_next(&same, now, schedule->verdict, rounds[i], schedule->first - 1),
                          earliest + schedule->first - 1);
    }
}

/* A round of 2 ms, and this much time left until the deadline. The window is cut there: a client that waits for a
 * second must not give up after half of it. */
TEST(retry, next_attempt_is_before_the_deadline)
{
    static const quorum_duration rests[] = {MS, MS + 1, 2 * MS, 5 * MS - 1, 5 * MS, 5 * MS + 1};
    for (int i = 0; i < ROWS(rests); i++)
        for (uint64_t random = rests[i] - 2; random < rests[i] + 2; random++) {
            struct quorum_retry retry = {.deadline = now + 2 * MS + rests[i]};
            quorum_time next = quorum_retry_next(&retry, now, QUORUM_LOST_HELD, 2 * MS, random);
            ck_assert_uint_eq(next, now + 2 * MS + random % (rests[i] < 5 * MS ? rests[i] : 5 * MS));
            ck_assert_uint_lt(next, now + 2 * MS + rests[i]);
        }
}

/* The time until the deadline is shorter than a round and a millisecond, or the clock has no later time. */
TEST(retry, no_attempt_follows_without_time_for_a_round)
{
    static const struct {
        quorum_time deadline, now;
    } rows[] = {{now + 2 * MS, now},
                {now + 2 * MS + 1, now},
                {now + 3 * MS - 1, now},
                {now - 1, now},
                {0, now},
                {QUORUM_NEVER, QUORUM_NEVER - 1}};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_retry retry = {.deadline = rows[i].deadline};
        ck_assert_uint_eq(quorum_retry_next(&retry, rows[i].now, QUORUM_LOST_HELD, 2 * MS, 0), QUORUM_NEVER);
    }
}

TEST_PROGRAM("quorum/retry")
