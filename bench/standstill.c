#include "standstill.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "clock.h"

#define PERIOD 2000000u /* ns */

/* Only one thread detects a standstill: the first one that runs again. */
static void look(struct standstills *standstills)
{
    uint64_t now = clock_now(), last = atomic_exchange(&standstills->alive, now);
    unsigned count = atomic_load(&standstills->count);
    if (now < last + 2 * PERIOD || count == STANDSTILLS_MAX)
        return;
    standstills->time[count].begin = last + PERIOD;
    standstills->time[count].end = now;
    atomic_store(&standstills->count, count + 1);
}

static void *watch(void *standstills)
{
    const struct timespec period = {.tv_nsec = PERIOD};
    for (;;) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &period, NULL);
        look(standstills);
    }
    return NULL;
}

void standstills_watch(struct standstills *standstills)
{
    const struct sched_param highest = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store(&standstills->alive, clock_now());
    for (long i = 0; i < processors; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        cpu_set_t processor;
        CPU_ZERO(&processor);
        CPU_SET((size_t)i, &processor);
        pthread_attr_init(&attributes);
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
        pthread_attr_setschedparam(&attributes, &highest);
        pthread_attr_setaffinity_np(&attributes, sizeof processor, &processor);
        if (pthread_create(&thread, &attributes, watch, standstills) == 0)
            pthread_detach(thread);
        pthread_attr_destroy(&attributes);
    }
}

uint64_t standstills_within(const struct standstills *standstills, uint64_t begin, uint64_t end)
{
    uint64_t sum = 0;
    for (unsigned i = atomic_load(&standstills->count); i-- > 0 && standstills->time[i].end > begin;) {
        uint64_t from = standstills->time[i].begin, to = standstills->time[i].end;
        from = from < begin ? begin : from;
        to = to > end ? end : to;
        sum += to > from ? to - from : 0;
    }
    return sum;
}
