/* The heap of timers and its descriptor. The test sets the time, except in the tests of the descriptor. */
#include "rules/random.h"
#include "src/core/timer.h"
#include "support/test.h"

#include <sys/timerfd.h>

enum { MANY = 500 };

struct counted {
    struct rl_timer timer; /* must be first: the tests cast a timer to its struct counted */
    unsigned fired;
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
    fired++;
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

static void set(unsigned i, quorum_time due)
{
    rl_timer_set(&timers, &counted[i].timer, due);
}

/* --- Order --- */

TEST_CASE(timers, setup, teardown);

/* Compares the heap with an array of due times. Every other run uses few distinct times, so that most timers share
 * one. */
TEST_ROWS(timers, set_move_and_stop_at_random, 6)
{
    static quorum_time due[MANY];
    const bool few = _i % 2;
    const quorum_time grain = few ? 5 * QUORUM_MILLISECOND : 1;
    quorum_time now = 1;
    uint64_t seed = (uint64_t)_i;
    unsigned wrong = 0;
    for (unsigned i = 0; i < MANY; i++)
        due[i] = 0;
    for (unsigned step = 0; step < 10000; step++) {
        unsigned i = random_below(&seed, MANY), act = random_below(&seed, 16);
        if (act < 9) {
            due[i] = (now / grain + 1 + random_below(&seed, few ? 10 : 1000)) * grain;
            set(i, due[i]);
        } else if (act < 14) {
            rl_timer_stop(&timers, &counted[i].timer);
            due[i] = 0;
        } else {
            unsigned before = fired, expected = 0;
            now += random_below(&seed, 100) * (few ? grain / 50 : 1);
            for (unsigned j = 0; j < MANY; j++) {
                expected += due[j] && due[j] <= now;
                due[j] = due[j] <= now ? 0 : due[j];
            }
            latest = 0;
            rl_timers_fire(&timers, now);
            ck_assert_uint_eq(fired - before, expected);
        }
        for (unsigned j = 0; j < MANY; j++)
            wrong += counted[j].timer.set != (due[j] != 0);
        ck_assert_uint_eq(wrong, 0);
    }
}

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

/* Itself, and another. */
TEST_ROWS(timers, timer_that_a_callback_sets_fires_in_the_next_call, 8)
{
    static const quorum_time dues[] = {0, 3, 10, 11};
    unsigned which = (unsigned)_i / 4;
    counted[0].timer.fire = set_victim;
    victim = &counted[which].timer;
    victim_due = dues[_i % 4];
    set(0, 3);
    rl_timers_fire(&timers, 10);
    ck_assert_uint_eq(fired, 1);
    ck_assert(victim->set);
    ck_assert_uint_eq(victim->due, 11);
    victim = NULL;
    rl_timers_fire(&timers, 11);
    ck_assert_uint_eq(counted[which].fired, which ? 1 : 2);
}

TEST(timers, due_timer_can_be_stopped_by_another)
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

/* --- The descriptor --- */

static bool armed(void)
{
    struct itimerspec setting;
    ck_assert_int_eq(timerfd_gettime(timers.descriptor, &setting), 0);
    return setting.it_value.tv_sec || setting.it_value.tv_nsec;
}

TEST(timers, the_descriptor_is_set_only_for_something_earlier)
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

TEST_PROGRAM("timers")
