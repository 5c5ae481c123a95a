#define _GNU_SOURCE
#include "moment.h"

#include <sys/timerfd.h>
#include <time.h>

enum { SECOND_MS = 1000, MILLISECOND_NS = 1000000 };

int64_t cli_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * SECOND_MS + now.tv_nsec / MILLISECOND_NS;
}

int cli_alarm_make(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void cli_alarm_set(int alarm, int64_t moment_ms)
{
    struct itimerspec when = {0};

    if (moment_ms < 1)
        moment_ms = 1; /* 0 would be never */
    if (moment_ms != INT64_MAX)
        when.it_value = (struct timespec){.tv_sec = moment_ms / SECOND_MS,
                                          .tv_nsec = (long)(moment_ms % SECOND_MS * MILLISECOND_NS)};
    timerfd_settime(alarm, TFD_TIMER_ABSTIME, &when, NULL);
}
