#define _GNU_SOURCE
#include "clock.h"

#include <poll.h>
#include <stddef.h>

uint64_t test_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t test_deadline_ns(unsigned timeout_ms)
{
    return test_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

int test_ms_left(uint64_t deadline_ns)
{
    uint64_t now = test_now_ns();
    return deadline_ns <= now ? 0 : (int)((deadline_ns - now + 999999u) / 1000000u);
}

struct timespec test_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static bool wait_with_pauses(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms, int longest_ms)
{
    uint64_t began = test_now_ns(), deadline = test_deadline_ns(timeout_ms);
    while (!predicate(arg)) {
        if (test_ms_left(deadline) == 0)
            return predicate(arg);
        int pause_ms = 1 + (int)((test_now_ns() - began) / 50000000);
        poll(NULL, 0, pause_ms < longest_ms ? pause_ms : longest_ms);
    }
    return true;
}

bool wait_until(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms)
{
    return wait_with_pauses(predicate, arg, timeout_ms, 20);
}

bool wait_closely(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms)
{
    return wait_with_pauses(predicate, arg, timeout_ms, 1);
}
