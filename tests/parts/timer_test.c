/* The heap of timers and its descriptor. The test sets the time. */
#include "rules/random.h"
#include "src/core/timer.h"
#include "support/test.h"

enum { MANY = 500, STEPS = 10000 };

static struct rl_timers timers;
static struct rl_timer timer[MANY];
static quorum_time due[MANY];                  /* what the timers are set for; 0: they are not */
static quorum_time now, before, latest, grain; /* before: when they fired last */
static bool firing;
static unsigned fired;
static uint64_t seed;

/* Sets, moves or stops any timer. One that a callback sets for now fires in the next call. */
static void change_one(void)
{
    unsigned i = random_below(&seed, MANY);
    quorum_time at = (now / grain + random_below(&seed, grain > 1 ? 10 : 1000)) * grain;
    if (random_below(&seed, 14) < 9) {
        rl_timer_set(&timers, &timer[i], at);
        if (due[i] != at)
            due[i] = firing && at <= now ? now + 1 : at;
    } else {
        if (at % 2)
            rl_timer_stop(&timer[i]);
        else
            rl_timer_set(&timers, &timer[i], QUORUM_NEVER);
        due[i] = 0;
    }
}

static void fire(struct rl_timer *own)
{
    quorum_time *own_due = &due[own - timer];
    ck_assert(!own->set && own->due == *own_due && own->due <= now);
    ck_assert(own->due >= latest || own->due <= before); /* it was overdue when it was set */
    latest = own->due > latest ? own->due : latest;
    *own_due = 0;
    fired++;
    change_one();
}

static void setup(void)
{
    ck_assert(rl_timers_open(&timers));
    for (unsigned i = 0; i < MANY; i++)
        timer[i] = (struct rl_timer){.fire = fire};
    memset(due, 0, sizeof due);
}

static void teardown(void)
{
    rl_timers_close(&timers);
}

TEST_CASE(timers, setup, teardown);

/* Compares the heap with an array of due times; each callback changes a timer. The descriptor is set only before the loop
 * sleeps, and only for something earlier. Two of three runs use few distinct times, so
 * that most timers share one; those of the last are due in different blocks. */
TEST_ROWS(timers, set_move_stop_and_fire_at_random, 6)
{
    const quorum_time grains[] = {1, 5 * QUORUM_MILLISECOND, 1000 * QUORUM_SECOND};
    seed = (uint64_t)_i;
    grain = grains[_i % 3];
    now = 1000 * grain;
    fired = 0;
    before = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned wrong = 0;
        quorum_time armed = timers.armed, earliest = QUORUM_NEVER;
        if (random_below(&seed, 8))
            change_one();
        else {
            now += random_below(&seed, 100) * (grain > 1 ? grain / 50 : 1);
            latest = 0;
            firing = true;
            rl_timers_fire(&timers, now);
            firing = false;
            before = now;
            armed = QUORUM_NEVER;
            for (unsigned i = 0; i < MANY; i++)
                wrong += due[i] && due[i] <= now;
        }
        for (unsigned i = 0; i < MANY; i++) {
            wrong += timer[i].set != (due[i] != 0) || (timer[i].set && timer[i].due != due[i]);
            earliest = due[i] && due[i] < earliest ? due[i] : earliest;
        }
        wrong += timers.armed != armed;
        rl_timers_arm(&timers);
        wrong += timers.armed > earliest;
        ck_assert_uint_eq(wrong, 0);
    }
    ck_assert_uint_gt(fired, STEPS / 10);
}

static void count(struct rl_timer *own)
{
    fired += own->due == now;
}

/* The loop may also wake to read a long list, but not often, and never with few timers. They are due between a microsecond
 * and some hours. */
TEST_ROWS(timers, loop_wakes_for_timers_alone, 2)
{
    const unsigned many = _i ? MANY : 16;
    unsigned wakes = 0;
    fired = 0;
    seed = 1;
    for (unsigned i = 0; i < many; i++) {
        timer[i].fire = count;
        rl_timer_set(&timers, &timer[i], quorum_time_add(1000, (quorum_time)random_below(&seed, 1000) << i % 34));
    }
    for (rl_timers_arm(&timers); timers.armed != QUORUM_NEVER; rl_timers_arm(&timers), wakes++) {
        now = timers.armed;
        rl_timers_fire(&timers, now);
    }
    ck_assert_uint_eq(fired, many); /* each at its time */
    ck_assert_uint_le(wakes, _i ? many + many / 4 : many);
}

TEST_PROGRAM("timers")
