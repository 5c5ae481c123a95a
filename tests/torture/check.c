#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { US = 1000, MS = 1000000 };

const char *const check_promise_names[CHECK_PROMISES] = {"exclusion", "fencing", "told in time", "bounded",
                                                         "nothing left"};

/* One lock from its acquire to its end. A time of 0: the event did not happen. */
struct hold {
    char who[16];
    char resource[16];
    unsigned number;
    uint64_t started;
    int64_t wait_ms; /* negative: no limit */
    bool shared;
    unsigned permits; /* of a semaphore that has `of` */
    unsigned of;
    uint64_t answered; /* when the acquire ended */
    uint64_t held;     /* when it was first known to be valid */
    uint64_t promised; /* the end of validity by the latest reply */
    uint64_t released; /* when the release began */
    uint64_t kept;     /* the end of at_least_ms, if it was released before */
    uint64_t lost;     /* when the loss was reported */
    uint64_t last;     /* the time of its last line */
    uint64_t fenced;   /* when its token was known */
    int64_t fence;
};

struct check {
    unsigned told_ms, bound_ms;
    struct hold *holds;
    struct history_line *stalls, *left;
    size_t hold_count, stall_count, left_count;
    struct check_summary summary;
    check_report *report;
    void *report_arg;
};

/* Makes room for one more item in an array, which grows when its count is a power of two. */
static void *grow(void *items, size_t count, size_t size)
{
    if ((count & (count - 1)) == 0)
        items = realloc(items, (count ? 2 * count : 1) * size);
    if (!items)
        abort();
    memset((char *)items + count * size, 0, size);
    return items;
}

struct check *check_new(unsigned told_ms, unsigned bound_ms)
{
    struct check *check = calloc(1, sizeof *check);
    if (!check)
        abort();
    check->told_ms = told_ms;
    check->bound_ms = bound_ms;
    return check;
}

void check_free(struct check *check)
{
    free(check->holds);
    free(check->stalls);
    free(check->left);
    free(check);
}

__attribute__((format(printf, 4, 5))) static void violation(struct check *check, enum check_promise which,
                                                            uint64_t time, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->summary.violations[which]++;
    check->report(check->report_arg, which, time, text);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* Searches from the end, because a line most likely belongs to one of the client's latest holds. */
static struct hold *hold_of(struct check *check, const struct history_line *line)
{
    for (size_t i = check->hold_count; i-- > 0;)
        if (check->holds[i].number == line->hold && strcmp(check->holds[i].who, line->who) == 0)
            return &check->holds[i];
    check->holds = grow(check->holds, check->hold_count, sizeof *check->holds);
    struct hold *hold = &check->holds[check->hold_count++];
    memcpy(hold->who, line->who, sizeof hold->who);
    memcpy(hold->resource, line->resource, sizeof hold->resource);
    hold->number = line->hold;
    return hold;
}

static void promise(struct hold *hold, const struct history_line *line)
{
    uint64_t until = line->time + (uint64_t)line->number * US;
    if (line->number <= 0)
        return;
    if (!hold->held)
        hold->held = line->time;
    if (until > hold->promised)
        hold->promised = until;
}

static void keep(struct hold *hold, const struct history_line *line)
{
    if (line->number > 0)
        hold->kept = line->time + (uint64_t)line->number * US;
}

/* Returns false if two runs of a client have the same name. */
static bool take_of_client(struct check *check, const struct history_line *line)
{
    if (line->event == HISTORY_STALL) {
        check->stalls = grow(check->stalls, check->stall_count, sizeof *check->stalls);
        check->stalls[check->stall_count++] = *line;
        return true;
    }
    struct hold *hold = hold_of(check, line);
    hold->last = line->time > hold->last ? line->time : hold->last;
    switch ((int)line->event) {
    case HISTORY_START:
        if (hold->started)
            return false;
        hold->started = line->time;
        hold->wait_ms = line->number;
        hold->shared = strcmp(line->text, "shared") == 0;
        sscanf(line->text, "%u/%u", &hold->permits, &hold->of);
        break;
    case HISTORY_HELD:
        hold->answered = line->time;
        promise(hold, line);
        break;
    case HISTORY_VALID:
        promise(hold, line);
        break;
    case HISTORY_FENCE:
        hold->fence = line->number;
        hold->fenced = line->time;
        break;
    case HISTORY_RELEASE:
        hold->released = line->time;
        keep(hold, line);
        break;
    case HISTORY_RELEASED:
        keep(hold, line);
        break;
    case HISTORY_LOST:
        if (!hold->lost)
            hold->lost = line->time;
        break;
    case HISTORY_FAILED:
        hold->answered = line->time;
        break;
    default:
        break;
    }
    return true;
}

bool check_add(struct check *check, const struct history_line *line)
{
    struct check_summary *summary = &check->summary;
    if (!summary->begin || line->time < summary->begin)
        summary->begin = line->time;
    if (line->time > summary->end)
        summary->end = line->time;
    if (strcmp(line->who, "nemesis") != 0)
        return take_of_client(check, line);
    summary->faults += line->event == HISTORY_BEGIN;
    if (line->event != HISTORY_LEFT)
        return true;
    check->left = grow(check->left, check->left_count, sizeof *check->left);
    check->left[check->left_count++] = *line;
    return true;
}

bool check_line(struct check *check, const char *text)
{
    struct history_line line;
    return history_parse(text, &line) && check_add(check, &line);
}

bool check_file(struct check *check, const char *path)
{
    char text[512];
    bool whole = true;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (whole && fgets(text, sizeof text, file))
        whole = check_line(check, text) || !strchr(text, '\n'); /* cut: its writer was killed in the middle */
    fclose(file);
    return whole;
}

/* --------------------------------------------------------------------------------------------------------- checking */

static uint64_t end_of(const struct hold *hold)
{
    uint64_t end = hold->promised;
    if (hold->released && hold->released < end)
        end = hold->released;
    if (hold->lost && hold->lost < end)
        end = hold->lost;
    return hold->kept > end ? hold->kept : end;
}

static int by_resource_and_time(const void *a, const void *b)
{
    const struct hold *first = a, *second = b;
    int order = strcmp(first->resource, second->resource);
    if (order)
        return order;
    return first->held < second->held ? -1 : first->held > second->held;
}

/* A hold that the other ends too late for. Those of a semaphore are counted. */
static bool excludes(const struct hold *other, const struct hold *hold, unsigned permits)
{
    return hold->of ? permits > hold->of : !(other->shared && hold->shared);
}

/* Compares each hold, in the order of their beginnings, with those that have not ended, of which `beside` gets the
 * indexes. Reports the one that ends last. */
static void check_exclusion(struct check *check, size_t *beside)
{
    size_t count = 0;
    for (size_t i = 0; i < check->hold_count; i++) {
        const struct hold *hold = &check->holds[i], *longest = NULL;
        unsigned permits = hold->permits;
        size_t left = 0;
        if (!hold->held || end_of(hold) <= hold->held)
            continue;
        for (size_t j = 0; j < count; j++) {
            const struct hold *other = &check->holds[beside[j]];
            if (strcmp(other->resource, hold->resource) != 0 || end_of(other) <= hold->held)
                continue;
            beside[left++] = beside[j];
            permits += other->permits;
            if (excludes(other, hold, permits) && (!longest || end_of(other) > end_of(longest)))
                longest = other;
        }
        if (longest)
            violation(check, CHECK_EXCLUSION, hold->held,
                      "%s held %s (hold %u) while %s was promised it for %.3f ms more (hold %u)", hold->who,
                      hold->resource, hold->number, longest->who, (double)(end_of(longest) - hold->held) / 1e6,
                      longest->number);
        count = left;
        beside[count++] = i;
    }
}

/* Compares the hold with the others of its resource. A reader's token is another's. */
static void check_fence(struct check *check, size_t index, size_t first)
{
    const struct hold *hold = &check->holds[index];
    if (!hold->fenced)
        return;
    check->summary.fences++;
    for (size_t i = first; i < check->hold_count && strcmp(check->holds[i].resource, hold->resource) == 0; i++) {
        const struct hold *other = &check->holds[i];
        bool was_known = other->fenced < hold->started && other->fence > hold->fence;
        bool is_same = other->fence == hold->fence && !hold->shared && i < index;
        if (!other->fenced || other->shared || !(was_known || is_same))
            continue;
        violation(check, CHECK_FENCING, hold->fenced, "%s got token %lld of %s, and %s had %lld", hold->who,
                  (long long)hold->fence, hold->resource, other->who, (long long)other->fence);
        return;
    }
}

static bool same_process(const char *a, const char *b)
{
    size_t process = strcspn(a, ".");
    return process == strcspn(b, ".") && memcmp(a, b, process) == 0;
}

/* By how much it was done after it was due, without the time in which the process did not run. */
static uint64_t lateness(const struct check *check, const char *who, uint64_t due, uint64_t done)
{
    uint64_t late = done > due ? done - due : 0;
    for (size_t i = 0; i < check->stall_count && late; i++) {
        const struct history_line *stall = &check->stalls[i];
        uint64_t begin = stall->time - (uint64_t)stall->number * MS;
        if (!same_process(stall->who, who) || stall->time <= due || begin >= done)
            continue;
        uint64_t from = begin > due ? begin : due, to = stall->time < done ? stall->time : done;
        late -= to - from < late ? to - from : late;
    }
    return late;
}

/* Returns how late the loss was reported. Validity is rounded down to milliseconds, so the end is up to 1 ms later
 * than promised. */
static uint64_t check_told(struct check *check, const struct hold *hold)
{
    uint64_t end = hold->promised + MS;
    if (!hold->held || (hold->released && hold->released < end))
        return 0;
    uint64_t told = hold->lost ? hold->lost : hold->last;
    if (hold->released && hold->released < told)
        told = hold->released;
    uint64_t late = lateness(check, hold->who, end, told);
    if (late > (uint64_t)check->told_ms * MS)
        violation(check, CHECK_TOLD, told, "%s of %s (hold %u) was %s %.3f ms after its end", hold->resource, hold->who,
                  hold->number, hold->lost ? "told" : "not told", (double)late / 1e6);
    return late;
}

static void check_bound(struct check *check, const struct hold *hold)
{
    uint64_t due = hold->started + (uint64_t)hold->wait_ms * MS;
    if (!hold->started || hold->wait_ms < 0)
        return;
    uint64_t ended = hold->answered ? hold->answered : hold->last;
    if (lateness(check, hold->who, due, ended) > (uint64_t)check->bound_ms * MS)
        violation(check, CHECK_BOUNDED, ended, "the acquire of %s by %s (hold %u) took %.3f ms of %lld", hold->resource,
                  hold->who, hold->number, (double)(ended - hold->started) / 1e6, (long long)hold->wait_ms);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;
    return *first < *second ? -1 : *first > *second;
}

struct check_summary check_all(struct check *check, check_report *report, void *arg)
{
    struct check_summary *summary = &check->summary;
    uint64_t *told = calloc(check->hold_count + 1, sizeof *told);
    size_t *beside = calloc(check->hold_count + 1, sizeof *beside), first = 0;
    if (!told || !beside)
        abort();
    check->report = report;
    check->report_arg = arg;
    if (check->hold_count)
        qsort(check->holds, check->hold_count, sizeof *check->holds, by_resource_and_time);
    check_exclusion(check, beside);
    for (size_t i = 0; i < check->hold_count; i++) {
        const struct hold *hold = &check->holds[i];
        uint64_t late = check_told(check, hold);
        if (strcmp(hold->resource, check->holds[first].resource) != 0)
            first = i;
        if (hold->lost)
            told[summary->losses++] = late;
        check_fence(check, i, first);
        check_bound(check, hold);
        summary->attempts += hold->started != 0;
        summary->holds += hold->held != 0;
    }
    for (size_t i = 0; i < check->left_count; i++)
        violation(check, CHECK_NOTHING, check->left[i].time, "left on the nodes: %s", check->left[i].text);
    qsort(told, summary->losses, sizeof *told, by_value);
    summary->latest_told_us = summary->losses ? told[summary->losses - 1] / 1000 : 0;
    summary->median_told_us = told[summary->losses / 2] / 1000;
    free(beside);
    free(told);
    return *summary;
}
