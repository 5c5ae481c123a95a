#define _GNU_SOURCE
#include "lateness.h"

#include "clock.h"
#include "fixture.h"

#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
