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
    timers->root = NULL;
    timers->armed = QUORUM_NEVER;
    timers->firing = 0;
    timers->descriptor = timerfd_create(RL_CLOCK, TFD_CLOEXEC | TFD_NONBLOCK);
    return timers->descriptor >= 0;
}

void rl_timers_close(struct rl_timers *timers)
{
    if (timers->descriptor >= 0)
        close(timers->descriptor);
    timers->descriptor = -1;
}

/* Merges two heaps: the later root becomes the first child of the earlier one. */
static struct rl_timer *meld(struct rl_timer *a, struct rl_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    assert(!a->previous && !a->next && !b->previous && !b->next); /* both are roots */
    if (b->due < a->due) {
        struct rl_timer *swap = a;
        a = b;
        b = swap;
    }
    b->next = a->child;
    b->previous = a;
    if (a->child)
        a->child->previous = b;
    a->child = b;
    return a;
}

/* Merges a list of siblings into one heap: in pairs from the left, then all of them from the right. It does not
 * recurse, because there may be 100,000 siblings. */
static struct rl_timer *meld_siblings(struct rl_timer *first)
{
    struct rl_timer *pairs = NULL;
    while (first) {
        struct rl_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->previous = NULL;
        if (b)
            b->next = b->previous = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct rl_timer *root = NULL;
    while (pairs) {
        struct rl_timer *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = meld(root, pair);
    }
    return root;
}

/* Makes the link to `timer` point to `instead`. */
static void relink(struct rl_timers *timers, struct rl_timer *timer, struct rl_timer *instead)
{
    assert(timer->previous || timers->root == timer);
    if (!timer->previous)
        timers->root = instead;
    else
        *(timer->previous->child == timer ? &timer->previous->child : &timer->previous->next) = instead;
}

void rl_timer_stop(struct rl_timers *timers, struct rl_timer *timer)
{
    if (!timer->set)
        return;
    struct rl_timer *below = meld_siblings(timer->child);
    relink(timers, timer, timer->next); /* the root has no siblings */
    if (timer->next)
        timer->next->previous = timer->previous;
    timers->root = meld(timers->root, below);
    timer->child = timer->next = timer->previous = NULL;
    timer->set = false;
}

void rl_timer_set(struct rl_timers *timers, struct rl_timer *timer, quorum_time due)
{
    if (timer->set && timer->due == due)
        return;
    rl_timer_stop(timers, timer);
    if (due == QUORUM_NEVER)
        return;
    /* A timer that a handler sets for now fires in the next call; otherwise rl_timers_fire() might not end. */
    timer->due = timers->firing && due <= timers->firing ? timers->firing + 1 : due;
    timer->set = true;
    timers->root = meld(timers->root, timer);
}

void rl_timers_fire(struct rl_timers *timers, quorum_time now)
{
    uint64_t expirations;
    quorum_time last = 0;
    /* Makes the descriptor unreadable, even if no timer is left to set it for. */
    ssize_t got = read(timers->descriptor, &expirations, sizeof expirations);
    (void)got;
    timers->firing = now;
    while (timers->root && timers->root->due <= now) {
        struct rl_timer *timer = timers->root;
        assert(timer->due >= last); /* the heap is in order */
        last = timer->due;
        rl_timer_stop(timers, timer);
        if (timer->fire)
            timer->fire(timer);
    }
    timers->firing = 0;
    timers->armed = QUORUM_NEVER; /* it has expired, or its time belongs to a timer that has just fired */
}

void rl_timers_arm(struct rl_timers *timers)
{
    if (!timers->root || timers->root->due >= timers->armed)
        return;
    quorum_time due = timers->root->due;
    struct itimerspec setting = {{0, 0}, {(time_t)(due / QUORUM_SECOND), (long)(due % QUORUM_SECOND)}};
    if (timerfd_settime(timers->descriptor, TFD_TIMER_ABSTIME, &setting, NULL) == 0)
        timers->armed = due;
}
