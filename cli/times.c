#define _GNU_SOURCE
#include "times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

enum { SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS };
enum { MILLISECOND_NS = 1000000 };

/* --- The clock --- */

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

/* --- Durations --- */

static const struct unit {
    const char *name;
    int milliseconds;
} units[] = {{"", SECOND_MS}, {"ms", 1}, {"s", SECOND_MS}, {"m", MINUTE_MS}, {"h", HOUR_MS}, {"d", DAY_MS}};

static const struct unit *find_unit(const char *name)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

bool cli_duration_read(const char *text, int64_t *milliseconds)
{
    size_t digits = strspn(text, "0123456789.");
    const struct unit *unit = find_unit(text + digits);
    char *end;

    /* Only what begins with a digit: strtod(3) knows signs, hexadecimal and infinity, too. */
    if (unit == NULL || text[0] < '0' || text[0] > '9')
        return false;
    double number = strtod(text, &end);
    if (end != text + digits || number * unit->milliseconds > (double)CLI_DURATION_MAX_MS)
        return false;
    double whole = ceil(number * unit->milliseconds);
    *milliseconds = (int64_t)whole;
    return true;
}

const char *cli_duration_text(int64_t milliseconds, char buffer[CLI_DURATION_SIZE])
{
    if (milliseconds < SECOND_MS)
        snprintf(buffer, CLI_DURATION_SIZE, "%lld ms", (long long)milliseconds);
    else if (milliseconds < 100 * SECOND_MS)
        snprintf(buffer, CLI_DURATION_SIZE, "%.1f s", (double)milliseconds / SECOND_MS);
    else if (milliseconds < 100 * MINUTE_MS)
        snprintf(buffer, CLI_DURATION_SIZE, "%.0f min", (double)milliseconds / MINUTE_MS);
    else
        snprintf(buffer, CLI_DURATION_SIZE, "%.1f h", (double)milliseconds / HOUR_MS);
    return buffer;
}

const char *cli_duration_exact(int64_t milliseconds, char buffer[CLI_DURATION_SIZE])
{
    int64_t step = milliseconds < SECOND_MS         ? 1
                   : milliseconds < 100 * SECOND_MS ? SECOND_MS / 10
                   : milliseconds < 100 * MINUTE_MS ? MINUTE_MS
                                                    : HOUR_MS / 10;

    if (milliseconds % step == 0)
        return cli_duration_text(milliseconds, buffer);
    snprintf(buffer, CLI_DURATION_SIZE, "%.*f s", milliseconds % 100 == 0 ? 1 : 3, (double)milliseconds / SECOND_MS);
    return buffer;
}
