#include "src/core/timer.h"

#include <assert.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Linux has CLOCK_BOOTTIME; CLOCK_MONOTONIC stops during suspend. */
#ifdef CLOCK_BOOTTIME
#define RL_CLOCK CLOCK_BOOTTIME
#else
#define RL_CLOCK CLOCK_MONOTONIC
#endif

#define DIGIT (1U << RL_TIMER_DIGIT_BITS) /* the values of one */
#define SHORT 16                          /* timers that are read to know when the first is due */

quorum_time rl_now(void)
{
    struct timespec now;
    int failed = clock_gettime(RL_CLOCK, &now);
    assert(!failed);
    (void)failed;
    return (quorum_time)now.tv_sec * QUORUM_SECOND + (quorum_time)now.tv_nsec;
}

bool rl_timers_open(struct rl_timers *timers)
{
    *timers = (struct rl_timers){.earliest = QUORUM_NEVER, .armed = QUORUM_NEVER};
    timers->descriptor = timerfd_create(RL_CLOCK, TFD_CLOEXEC | TFD_NONBLOCK);
    return timers->descriptor >= 0;
}

void rl_timers_close(struct rl_timers *timers)
{
    if (timers->descriptor >= 0)
        close(timers->descriptor);
    timers->descriptor = -1;
}

/* Puts the timer into the list for its time. */
static void place(struct rl_timers *timers, struct rl_timer *timer)
{
    quorum_time key = timer->due > timers->base ? timer->due : timers->base;
    unsigned digit = (63 - (unsigned)__builtin_clzll((key ^ timers->base) | 1)) / RL_TIMER_DIGIT_BITS;
    unsigned list = digit < RL_TIMER_DIGITS ? DIGIT * digit + (unsigned)(key >> RL_TIMER_DIGIT_BITS * digit) % DIGIT
                                            : RL_TIMER_LATER;
    timer->link = &timers->list[list];
    timer->next = *timer->link;
    if (timer->next)
        timer->next->link = &timer->next;
    *timer->link = timer;
    timers->used[list / 64] |= (uint64_t)1 << list % 64;
}

void rl_timer_stop(struct rl_timer *timer)
{
    if (!timer->set)
        return;
    assert(*timer->link == timer);
    *timer->link = timer->next;
    if (timer->next)
        timer->next->link = timer->link;
    timer->set = false;
}

void rl_timer_set(struct rl_timers *timers, struct rl_timer *timer, quorum_time due)
{
    if (timer->set && timer->due == due)
        return;
    rl_timer_stop(timer);
    if (due == QUORUM_NEVER)
        return;
    /* A timer that a handler sets for now fires in the next call; otherwise rl_timers_fire() might not end. */
    timer->due = timers->firing && due <= timers->firing ? timers->firing + 1 : due;
    timer->set = true;
    place(timers, timer);
    if (timer->due < timers->earliest)
        timers->earliest = timer->due;
}

/* The first list that has a timer; RL_TIMER_LISTS: none has one. */
static unsigned first_list(struct rl_timers *timers)
{
    for (unsigned i = 0; i < sizeof timers->used / sizeof timers->used[0]; i++)
        for (; timers->used[i]; timers->used[i] &= timers->used[i] - 1) {
            unsigned list = 64 * i + (unsigned)__builtin_ctzll(timers->used[i]);
            if (timers->list[list])
                return list;
        }
    return RL_TIMER_LISTS;
}

/* When the first timer of this list is due, or, if the list is long, a time before that: the least one that belongs into
 * the list. */
static quorum_time list_begin(const struct rl_timers *timers, unsigned list)
{
    unsigned shift = list / DIGIT * RL_TIMER_DIGIT_BITS, count = 0;
    quorum_time base = timers->base >> shift, first = QUORUM_NEVER;
    quorum_time begin = (list == RL_TIMER_LATER ? base + 1 : base / DIGIT * DIGIT + list % DIGIT) << shift;
    for (const struct rl_timer *timer = timers->list[list]; timer && count < SHORT; timer = timer->next, count++)
        first = timer->due < first ? timer->due : first;
    return count < SHORT && first > begin ? first : begin;
}

/*
 * The timer that is due first, if it is due at `now`. Otherwise NULL, and `earliest` is set. When a list begins, the heap
 * moves on to that time, and the list's timers to lower lists: each at most once for each digit, and for each block that
 * it waits.
 */
static struct rl_timer *first_due(struct rl_timers *timers, quorum_time now)
{
    unsigned list; /* the first one */
    while ((list = first_list(timers)) != timers->base % DIGIT) {
        timers->earliest = list < RL_TIMER_LISTS ? list_begin(timers, list) : QUORUM_NEVER;
        if (timers->earliest > now)
            return NULL;
        assert(timers->earliest > timers->base);
        timers->base = timers->earliest;
        struct rl_timer *next, *timer = timers->list[list];
        for (timers->list[list] = NULL; timer; timer = next) {
            next = timer->next;
            place(timers, timer);
        }
    }
    return timers->list[list];
}

void rl_timers_fire(struct rl_timers *timers, quorum_time now)
{
    uint64_t expirations;
    struct rl_timer *timer;
    /* Makes the descriptor unreadable, even if no timer is left to set it for. */
    ssize_t got = read(timers->descriptor, &expirations, sizeof expirations);
    (void)got;
    timers->firing = now;
    while ((timer = first_due(timers, now)) != NULL) {
        assert(timer->due <= timers->base);
        rl_timer_stop(timer);
        if (timer->fire)
            timer->fire(timer);
    }
    timers->firing = 0;
    timers->armed = QUORUM_NEVER; /* it has expired, or its time belongs to a timer that has just fired */
}

void rl_timers_arm(struct rl_timers *timers)
{
    if (timers->earliest >= timers->armed)
        return;
    quorum_time due = timers->earliest;
    struct itimerspec setting = {{0, 0}, {(time_t)(due / QUORUM_SECOND), (long)(due % QUORUM_SECOND)}};
    if (timerfd_settime(timers->descriptor, TFD_TIMER_ABSTIME, &setting, NULL) == 0)
        timers->armed = due;
}
