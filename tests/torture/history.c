#include "history.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[HISTORY_EVENTS] = {"start",  "held",  "fence", "valid", "release", "released", "lost",
                                                  "failed", "stall", "end",   "begin", "finish",  "left"};

uint64_t history_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int history_open(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

bool history_write(int file, const struct history_line *line)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%" PRIu64 " %s %s %u %s %" PRId64 " %s\n", line->time, line->who,
                          names[line->event], line->hold, line->resource[0] ? line->resource : "-", line->number,
                          line->text[0] ? line->text : "-");
    return length > 0 && (size_t)length < sizeof text && write(file, text, (size_t)length) == length;
}

static bool find_event(const char *name, enum history_event *event)
{
    for (unsigned i = 0; i < HISTORY_EVENTS; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *event = (enum history_event)i;
        return true;
    }
    return false;
}

bool history_parse(const char *text, struct history_line *line)
{
    char event[16];
    memset(line, 0, sizeof *line);
    int fields = sscanf(text, "%" SCNu64 " %15s %15s %u %15s %" SCNd64 " %63[^\n]", &line->time, line->who, event,
                        &line->hold, line->resource, &line->number, line->text);
    return fields == 7 && find_event(event, &line->event);
}
