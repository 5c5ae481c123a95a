/* When to try again: never before one round's time has passed, never after the deadline, and in windows that grow
 * with the losses. */
#include "quorum/retry.h"

#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time now = 1000 * QUORUM_SECOND;

/* Held: the other holders are quick. Other verdicts: nodes have to recover first. */
static const struct {
    enum quorum_verdict verdict;
    quorum_duration first, last; /* the window, which doubles with each loss in a row */
} schedules[] = {{QUORUM_LOST_HELD, 5 * MS, 80 * MS},
                 {QUORUM_LOST_NO_QUORUM, 20 * MS, 640 * MS},
                 {QUORUM_LOST_MISCONFIGURED, 20 * MS, 640 * MS},
                 {QUORUM_LOST_TOO_SLOW, 20 * MS, 640 * MS}};

/* The next loss, after rounds that took so long, with so much time left behind the pause. Two clients that split the votes
 * must not collide in the next round again: the pause is a round, and a random part of the window. But if the machine was
 * suspended during the round, it seems to have taken hours, and the pause must not become as long. The window is cut at
 * the deadline: a client that waits for a second must not give up after half of it. */
static void check_next(const struct quorum_retry *before, enum quorum_verdict verdict, quorum_duration window)
{
    static const quorum_duration rounds[] = {0, 1, 50 * MS, 1000 * MS, 1000 * MS + 1, 8 * 3600 * QUORUM_SECOND};
    const quorum_duration rests[] = {0, MS - 1, MS, MS + 1, window - 1, window, window + 1, QUORUM_NEVER};
    for (int i = 0; i < ROWS(rounds); i++)
        for (int j = 0; j < ROWS(rests); j++) {
            const quorum_time earliest = now + (rounds[i] < QUORUM_SECOND ? rounds[i] : QUORUM_SECOND);
            const quorum_duration width = window < rests[j] ? window : rests[j];
            const uint64_t randoms[] = {0, 1, width - 1, width, UINT64_MAX};
            for (int k = 0; k < ROWS(randoms); k++) {
                struct quorum_retry retry = *before;
                retry.deadline = quorum_time_add(earliest, rests[j]);
                ck_assert_uint_eq(quorum_retry_next(&retry, now, verdict, rounds[i], randoms[k]),
                                  rests[j] < MS ? QUORUM_NEVER : earliest + randoms[k] % width);
            }
        }
}

TEST_CASE(retry, NULL, NULL);

/* It begins anew after another verdict. */
TEST_ROWS(retry, window_doubles_with_each_loss_up_to_its_last, ROWS(schedules) * ROWS(schedules))
{
    const enum quorum_verdict verdict = schedules[_i % ROWS(schedules)].verdict;
    const enum quorum_verdict other = schedules[_i / ROWS(schedules)].verdict;
    quorum_duration window = schedules[_i % ROWS(schedules)].first, last = schedules[_i % ROWS(schedules)].last;
    struct quorum_retry retry = {.deadline = QUORUM_NEVER};
    for (unsigned i = 0; i < 9 && other != verdict; i++)
        quorum_retry_next(&retry, now, other, 0, 0);
    for (unsigned losses = 1; losses < 40; losses++) {
        check_next(&retry, verdict, window);
        quorum_retry_next(&retry, now, verdict, 0, 0);
        window = window < last ? 2 * window : last;
    }
}

TEST(retry, no_attempt_follows_behind_the_deadline_or_the_end_of_the_clock)
{
    const quorum_time rows[][2] = {{now - 1, now}, {0, now}, {QUORUM_NEVER, QUORUM_NEVER - 1}};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_retry retry = {.deadline = rows[i][0]};
        ck_assert_uint_eq(quorum_retry_next(&retry, rows[i][1], QUORUM_LOST_HELD, 2 * MS, 0), QUORUM_NEVER);
    }
}

TEST_PROGRAM("quorum/retry")
