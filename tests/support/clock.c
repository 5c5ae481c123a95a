#define _GNU_SOURCE
#include "clock.h"
#include "fixture.h"

#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

bool wait_until(bool (*predicate)(void *arg), void *arg, unsigned timeout_ms)
{
    uint64_t began = test_now_ns(), deadline = test_deadline_ns(timeout_ms);
    while (!predicate(arg)) {
        if (test_ms_left(deadline) == 0)
            return predicate(arg);
        int pause_ms = 1 + (int)((test_now_ns() - began) / 50000000);
        poll(NULL, 0, pause_ms < 20 ? pause_ms : 20);
    }
    return true;
}

/* --- How late the machine is, for tests of punctuality --- */

enum { SLEEP_US = 1000 };

double lateness_waited_ms(pid_t process)
{
    char *pattern = fixture_text("/proc/%d/task/*/schedstat", (int)process);
    unsigned long long waited_ns, total_ns = 0;
    glob_t paths = {0};
    glob(pattern, 0, NULL, &paths);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        FILE *file = fopen(paths.gl_pathv[i], "re"); /* NULL: the thread has ended */
        if (!file)
            continue;
        total_ns += fscanf(file, "%*u %llu", &waited_ns) == 1 ? waited_ns : 0;
        fclose(file);
    }
    globfree(&paths);
    free(pattern);
    return (double)total_ns / 1e6;
}

static struct {
    pthread_t thread;
    atomic_bool over;
    double worst_ms;
} sleeper;

static void *sleep_again_and_again(void *unused)
{
    (void)unused;
    while (!atomic_load(&sleeper.over)) {
        uint64_t before = test_now_ns();
        usleep(SLEEP_US);
        double late_ms = (double)(test_now_ns() - before) / 1e6 - SLEEP_US / 1e3;
        sleeper.worst_ms = late_ms > sleeper.worst_ms ? late_ms : sleeper.worst_ms;
    }
    return NULL;
}

void lateness_begin(void)
{
    atomic_store(&sleeper.over, false);
    sleeper.worst_ms = 0;
    if (pthread_create(&sleeper.thread, NULL, sleep_again_and_again, NULL) != 0)
        fixture_fail("cannot start a thread");
}

double lateness_end_ms(void)
{
    atomic_store(&sleeper.over, true);
    pthread_join(sleeper.thread, NULL);
    return sleeper.worst_ms;
}
