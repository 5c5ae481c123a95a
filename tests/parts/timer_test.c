/* The heap of timers and its descriptor. The test sets the time, except in the tests of the descriptor. */
#include "src/core/clock.h"
#include "src/core/timer.h"
#include "support/suite.h"

#include <poll.h>
#include <sys/timerfd.h>

enum { MANY = 10000 };

struct counted {
    struct rl_timer timer; /* must be first: the tests cast a timer to its struct counted */
    unsigned fired;
    unsigned order; /* its place in the order of firing */
};

static struct rl_timers timers;
static struct counted counted[MANY];
static unsigned fired;
static quorum_time latest; /* the due time of the last timer that fired */

static void count(struct rl_timer *timer)
{
    struct counted *self = (struct counted *)timer;
    ck_assert(!timer->set);
    ck_assert_uint_ge(timer->due, latest);
    latest = timer->due;
    self->fired++;
    self->order = ++fired;
}

static void setup(void)
{
    fired = 0;
    latest = 0;
    ck_assert(rl_timers_open(&timers));
    for (unsigned i = 0; i < MANY; i++)
        counted[i] = (struct counted){.timer = {.fire = count}};
}

static void teardown(void)
{
    rl_timers_close(&timers);
}

static uint64_t random_state;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void set(unsigned i, quorum_time due)
{
    rl_timer_set(&timers, &counted[i].timer, due);
}

/* --- Order --- */

START_TEST(ten_thousand_in_random_order)
{
    random_state = (uint64_t)_i + 1;
    for (unsigned i = 0; i < MANY; i++)
        set(i, 1 + random_next() % (_i == 0 ? MANY : 50)); /* few distinct times: many timers share one */
    rl_timers_fire(&timers, MANY / 2);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_uint_eq(counted[i].fired, counted[i].timer.due <= MANY / 2);
    rl_timers_fire(&timers, MANY);
    ck_assert_uint_eq(fired, MANY);
    ck_assert_ptr_null(timers.root);
}
END_TEST

START_TEST(in_rising_and_falling_order)
{
    for (unsigned i = 0; i < MANY; i++)
        set(i, _i ? i + 1 : MANY - i);
    rl_timers_fire(&timers, QUORUM_NEVER);
    ck_assert_uint_eq(fired, MANY);
}
END_TEST

/* Compares the heap with an array of due times. Every other run uses few distinct times, so that most timers share
 * one. */
START_TEST(set_move_and_stop_at_random)
{
    static quorum_time due[MANY];
    const bool few = _i % 2;
    const quorum_time grain = few ? 5 * QUORUM_MILLISECOND : 1;
    quorum_time now = 1;
    random_state = (uint64_t)_i * 7919 + 17;
    for (unsigned i = 0; i < MANY; i++)
        due[i] = 0;
    for (unsigned step = 0; step < 10000; step++) {
        unsigned i = (unsigned)(random_next() % 500);
        unsigned act = (unsigned)(random_next() % 16);
        if (act < 9) {
            due[i] = (now / grain + 1 + random_next() % (few ? 10 : 1000)) * grain;
            set(i, due[i]);
        } else if (act < 14) {
            rl_timer_stop(&timers, &counted[i].timer);
            due[i] = 0;
        } else {
            unsigned before = fired, expected = 0;
            now += random_next() % 100 * (few ? grain / 50 : 1);
            for (unsigned j = 0; j < 500; j++) {
                expected += due[j] && due[j] <= now;
                due[j] = due[j] <= now ? 0 : due[j];
            }
            latest = 0;
            rl_timers_fire(&timers, now);
            ck_assert_uint_eq(fired - before, expected);
        }
        ck_assert_int_eq(counted[i].timer.set, due[i] != 0);
    }
}
END_TEST

START_TEST(stopping_what_is_not_set_does_nothing)
{
    rl_timer_stop(&timers, &counted[0].timer);
    set(0, 5);
    rl_timer_stop(&timers, &counted[0].timer);
    rl_timer_stop(&timers, &counted[0].timer);
    rl_timers_fire(&timers, 10);
    ck_assert_uint_eq(fired, 0);
}
END_TEST

START_TEST(setting_again_moves)
{
    set(0, 5);
    set(1, 6);
    set(0, 7);
    rl_timers_fire(&timers, 6);
    ck_assert_uint_eq(counted[0].fired, 0);
    rl_timers_fire(&timers, 7);
    ck_assert_uint_eq(counted[0].fired, 1);
    ck_assert_uint_gt(counted[0].order, counted[1].order);
}
END_TEST

/* --- From a timer's callback --- */

static struct rl_timer *victim; /* the timer that the next callback sets or stops */
static quorum_time victim_due;

static void set_victim(struct rl_timer *timer)
{
    count(timer);
    if (victim)
        rl_timer_set(&timers, victim, victim_due);
}

static void stop_victim(struct rl_timer *timer)
{
    count(timer);
    rl_timer_stop(&timers, victim);
}

START_TEST(one_that_sets_itself_waits_for_the_next_call)
{
    static const quorum_time dues[] = {0, 3, 10, 11};
    counted[0].timer.fire = set_victim;
    victim = &counted[0].timer;
    victim_due = dues[_i];
    set(0, 3);
    rl_timers_fire(&timers, 10);
    ck_assert_uint_eq(counted[0].fired, 1);
    ck_assert(counted[0].timer.set);
    ck_assert_uint_eq(counted[0].timer.due, 11);
    victim = NULL;
    rl_timers_fire(&timers, 11);
    ck_assert_uint_eq(counted[0].fired, 2);
}
END_TEST

START_TEST(one_set_by_another_that_fires_waits_for_the_next_call)
{
    counted[0].timer.fire = set_victim;
    victim = &counted[1].timer;
    victim_due = 4;
    set(0, 3);
    rl_timers_fire(&timers, 10);
    ck_assert_uint_eq(counted[1].fired, 0);
    rl_timers_fire(&timers, 11);
    ck_assert_uint_eq(counted[1].fired, 1);
}
END_TEST

START_TEST(one_that_is_due_can_still_be_stopped)
{
    counted[0].timer.fire = stop_victim;
    victim = &counted[1].timer;
    set(0, 3);
    set(1, 4);
    set(2, 5);
    rl_timers_fire(&timers, 10);
    ck_assert_uint_eq(counted[1].fired, 0);
    ck_assert_uint_eq(counted[2].fired, 1);
}
END_TEST

/* --- The descriptor --- */

static bool readable(int timeout_ms)
{
    struct pollfd poll_for = {timers.descriptor, POLLIN, 0};
    return poll(&poll_for, 1, timeout_ms) == 1;
}

static bool armed(void)
{
    struct itimerspec setting;
    ck_assert_int_eq(timerfd_gettime(timers.descriptor, &setting), 0);
    return setting.it_value.tv_sec || setting.it_value.tv_nsec;
}

START_TEST(the_descriptor_wakes_for_the_earliest)
{
    quorum_time now = rl_now();
    set(0, now + 3600 * QUORUM_SECOND);
    set(1, now + QUORUM_MILLISECOND);
    rl_timers_arm(&timers);
    ck_assert(readable(5000));
    ck_assert_uint_ge(rl_now(), now + QUORUM_MILLISECOND);
    rl_timers_fire(&timers, rl_now());
    ck_assert_uint_eq(counted[1].fired, 1);
    ck_assert_uint_eq(counted[0].fired, 0);
    ck_assert(!readable(0));
}
END_TEST

START_TEST(the_descriptor_is_set_only_for_something_earlier)
{
    quorum_time now = rl_now();
    rl_timers_arm(&timers);
    ck_assert(!armed());
    set(0, now + 1000 * QUORUM_SECOND);
    ck_assert(!armed()); /* armed only before the loop sleeps */
    rl_timers_arm(&timers);
    ck_assert(armed());
    ck_assert_uint_eq(timers.armed, now + 1000 * QUORUM_SECOND);
    set(1, now + 2000 * QUORUM_SECOND);
    rl_timers_arm(&timers);
    ck_assert_uint_eq(timers.armed, now + 1000 * QUORUM_SECOND);
    set(1, now + 500 * QUORUM_SECOND);
    rl_timers_arm(&timers);
    ck_assert_uint_eq(timers.armed, now + 500 * QUORUM_SECOND);
}
END_TEST

/* A timer was stopped, so the descriptor becomes readable although no timer is due. That is harmless, and the
 * descriptor is set again for the next timer. */
START_TEST(a_wake_up_for_nothing_is_followed_by_the_right_one)
{
    quorum_time now = rl_now();
    set(0, now + QUORUM_MILLISECOND);
    rl_timers_arm(&timers);
    rl_timer_stop(&timers, &counted[0].timer);
    set(1, now + 20 * QUORUM_MILLISECOND);
    rl_timers_arm(&timers);
    while (counted[1].fired == 0) {
        ck_assert(readable(5000));
        rl_timers_fire(&timers, rl_now());
        rl_timers_arm(&timers);
    }
    ck_assert_uint_ge(rl_now(), now + 20 * QUORUM_MILLISECOND);
    ck_assert_uint_eq(counted[0].fired, 0);
}
END_TEST

START_TEST(a_moment_in_the_past_wakes_at_once)
{
    set(0, 1);
    rl_timers_arm(&timers);
    ck_assert(readable(5000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timers");
    TCase *tcase = tcase_create("heap"), *descriptor = tcase_create("descriptor");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, ten_thousand_in_random_order, 0, 2);
    tcase_add_loop_test(tcase, in_rising_and_falling_order, 0, 2);
    tcase_add_loop_test(tcase, set_move_and_stop_at_random, 0, 6);
    tcase_add_test(tcase, stopping_what_is_not_set_does_nothing);
    tcase_add_test(tcase, setting_again_moves);
    tcase_add_loop_test(tcase, one_that_sets_itself_waits_for_the_next_call, 0, 4);
    tcase_add_test(tcase, one_set_by_another_that_fires_waits_for_the_next_call);
    tcase_add_test(tcase, one_that_is_due_can_still_be_stopped);
    suite_add_tcase(suite, descriptor);
    tcase_add_checked_fixture(descriptor, setup, teardown);
    tcase_set_timeout(descriptor, 30);
    tcase_add_test(descriptor, the_descriptor_wakes_for_the_earliest);
    tcase_add_test(descriptor, the_descriptor_is_set_only_for_something_earlier);
    tcase_add_test(descriptor, a_wake_up_for_nothing_is_followed_by_the_right_one);
    tcase_add_test(descriptor, a_moment_in_the_past_wakes_at_once);
    return run_suite(suite);
}
