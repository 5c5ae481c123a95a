/*
 * A machine's clock. It runs at its own rate, and may stop or jump. True time is the world's time, which only the
 * simulator knows.
 */
#ifndef SIMULATION_CLOCK_H
#define SIMULATION_CLOCK_H

#include <stdint.h>

#include "quorum/time.h"

#define SIM_STOPPED (-1000000000)

struct sim_clock {
    quorum_time since;      /* true time at which it showed ... */
    quorum_time shown;      /* ... this */
    int64_t rate;           /* its error in billionths; SIM_STOPPED: the clock is stopped */
    int64_t rate_by_itself; /* the rate to which it returns */
};

#define SIM_BILLION INT64_C(1000000000)

static inline quorum_time sim_clock_read(const struct sim_clock *clock, quorum_time now)
{
    int64_t passed = (int64_t)(now - clock->since);
    int64_t error = passed / SIM_BILLION * clock->rate + passed % SIM_BILLION * clock->rate / SIM_BILLION;
    return clock->shown + (quorum_time)(passed + error);
}

/* Sets the rate from now on. */
static inline void sim_clock_turn(struct sim_clock *clock, quorum_time now, int64_t rate)
{
    clock->shown = sim_clock_read(clock, now);
    clock->since = now;
    clock->rate = rate;
}

static inline void sim_clock_jump(struct sim_clock *clock, quorum_time now, int64_t by)
{
    clock->shown = sim_clock_read(clock, now) + (quorum_time)by;
    clock->since = now;
}

/* The true time at which the clock will show this value; QUORUM_NEVER while it is stopped. */
static inline quorum_time sim_clock_when(const struct sim_clock *clock, quorum_time shown, quorum_time now)
{
    if (sim_clock_read(clock, now) >= shown)
        return now;
    if (clock->rate == SIM_STOPPED)
        return QUORUM_NEVER;
    int64_t left = (int64_t)(shown - sim_clock_read(clock, now)), pace = SIM_BILLION + clock->rate;
    if (left < 0 || left > INT64_MAX / 4)
        return QUORUM_NEVER;
    return now + (quorum_time)(left / pace * SIM_BILLION + left % pace * SIM_BILLION / pace + 1);
}

#endif
