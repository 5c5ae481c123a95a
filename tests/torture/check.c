#include "check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000 };

const char *const check_promise_names[CHECK_PROMISES] = {"exclusion", "fencing", "told in time", "bounded",
                                                         "nothing left"};

struct stall {
    char who[16];
    uint64_t begin;
    uint64_t end;
};

struct client {
    char who[16];
    uint64_t last; /* time of its last line */
    bool ended;
};

struct list {
    void *items;
    size_t count;
    size_t room;
    size_t size; /* of one item */
};

struct check {
    struct check_terms terms;
    struct list holds, faults, stalls, clients;
    uint64_t *told; /* how late each loss was reported, in ns */
    size_t told_count;
    struct check_summary summary;
    FILE *out;
};

static void *add(struct list *list)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->items = realloc(list->items, list->room * list->size);
        if (!list->items)
            abort();
    }
    void *item = (char *)list->items + list->count++ * list->size;
    memset(item, 0, list->size);
    return item;
}

static struct check_hold *hold_at(const struct check *check, size_t index)
{
    return (struct check_hold *)check->holds.items + index;
}

struct check *check_new(const struct check_terms *terms)
{
    struct check *check = calloc(1, sizeof *check);
    if (!check)
        abort();
    check->terms = *terms;
    check->holds.size = sizeof(struct check_hold);
    check->faults.size = sizeof(struct check_fault);
    check->stalls.size = sizeof(struct stall);
    check->clients.size = sizeof(struct client);
    return check;
}

void check_free(struct check *check)
{
    free(check->holds.items);
    free(check->faults.items);
    free(check->stalls.items);
    free(check->clients.items);
    free(check->told);
    free(check);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

static struct client *client_of(struct check *check, const char *who)
{
    struct client *clients = check->clients.items;
    for (size_t i = check->clients.count; i-- > 0;)
        if (strcmp(clients[i].who, who) == 0)
            return &clients[i];
    struct client *client = add(&check->clients);
    memcpy(client->who, who, sizeof client->who);
    return client;
}

/* Searches from the end, because a line most likely belongs to one of the client's latest holds. */
static struct check_hold *hold_of(struct check *check, const struct history_line *line)
{
    for (size_t i = check->holds.count; i-- > 0;) {
        struct check_hold *hold = hold_at(check, i);
        if (hold->hold == line->hold && strcmp(hold->who, line->who) == 0)
            return hold;
    }
    struct check_hold *hold = add(&check->holds);
    memcpy(hold->who, line->who, sizeof hold->who);
    memcpy(hold->resource, line->resource, sizeof hold->resource);
    hold->hold = line->hold;
    return hold;
}

static void promise(struct check_hold *hold, const struct history_line *line)
{
    uint64_t until = line->time + (uint64_t)line->number * MS;
    if (line->number <= 0)
        return;
    if (!hold->held)
        hold->held = line->time;
    if (until > hold->promised)
        hold->promised = until;
}

/* Returns false if two runs of a client have the same name. */
static bool take_of_client(struct check *check, const struct history_line *line)
{
    struct client *client = client_of(check, line->who);
    client->last = line->time > client->last ? line->time : client->last;
    if (line->event == HISTORY_END) {
        client->ended = true;
        return true;
    }
    if (line->event == HISTORY_STALL) {
        struct stall *stall = add(&check->stalls);
        memcpy(stall->who, line->who, sizeof stall->who);
        stall->begin = line->time - (uint64_t)line->number * MS;
        stall->end = line->time;
        return true;
    }
    struct check_hold *hold = hold_of(check, line);
    switch ((int)line->event) {
    case HISTORY_START:
        if (hold->started)
            return false;
        hold->started = line->time;
        hold->wait_ms = line->number;
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
        break;
    case HISTORY_RELEASE:
        hold->released = line->time;
        break;
    case HISTORY_LOST:
        if (!hold->lost)
            hold->lost = line->time;
        memcpy(hold->why, line->text, sizeof hold->why);
        break;
    case HISTORY_FAILED:
        hold->answered = line->time;
        memcpy(hold->why, line->text, sizeof hold->why);
        break;
    default:
        break;
    }
    return true;
}

static void violation(struct check *check, enum check_promise which, uint64_t time, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void take_of_nemesis(struct check *check, const struct history_line *line)
{
    struct check_fault *faults = check->faults.items;
    if (line->event == HISTORY_BEGIN) {
        struct check_fault *fault = add(&check->faults);
        memcpy(fault->what, line->text, sizeof fault->what);
        fault->target = line->hold;
        fault->begin = line->time;
    } else if (line->event == HISTORY_FINISH) {
        for (size_t i = check->faults.count; i-- > 0;) {
            if (faults[i].end || faults[i].target != line->hold || strcmp(faults[i].what, line->text) != 0)
                continue;
            faults[i].end = line->time;
            return;
        }
    } else if (line->event == HISTORY_LEFT) {
        violation(check, CHECK_NOTHING, line->time, "node %u still has %s", line->hold, line->text);
    }
}

bool check_line(struct check *check, const char *text)
{
    struct history_line line;
    if (!history_parse(text, &line))
        return false;
    struct check_summary *summary = &check->summary;
    if (!summary->begin || line.time < summary->begin)
        summary->begin = line.time;
    if (line.time > summary->end)
        summary->end = line.time;
    if (strcmp(line.who, "nemesis") == 0)
        take_of_nemesis(check, &line);
    else
        return take_of_client(check, &line);
    return true;
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

static void violation(struct check *check, enum check_promise which, uint64_t time, const char *format, ...)
{
    va_list arguments;
    check->summary.violations[which]++;
    if (!check->out)
        return;
    fprintf(check->out, "VIOLATION of %s at %.3f s: ", check_promise_names[which],
            (double)(time - check->summary.begin) / 1e9);
    va_start(arguments, format);
    vfprintf(check->out, format, arguments);
    va_end(arguments);
    fputc('\n', check->out);
}

uint64_t check_hold_end(const struct check_hold *hold)
{
    uint64_t end = hold->promised;
    if (hold->released && hold->released < end)
        end = hold->released;
    if (hold->lost && hold->lost < end)
        end = hold->lost;
    return end;
}

static int by_resource_and_time(const void *a, const void *b)
{
    const struct check_hold *first = a, *second = b;
    int order = strcmp(first->resource, second->resource);
    if (order)
        return order;
    return first->held < second->held ? -1 : first->held > second->held;
}

/* Sorts the holds by their beginnings and compares each with the one that ends last among those before it. */
static void check_exclusion(struct check *check)
{
    struct check_hold *longest = NULL;
    for (size_t i = 0; i < check->holds.count; i++) {
        struct check_hold *hold = hold_at(check, i);
        if (!hold->held || check_hold_end(hold) <= hold->held)
            continue;
        if (longest && strcmp(longest->resource, hold->resource) != 0)
            longest = NULL;
        if (longest && hold->held < check_hold_end(longest)) {
            hold->violates = longest->violates = true;
            violation(check, CHECK_EXCLUSION, hold->held,
                      "%s held %s (hold %u) while %s was promised it for %.3f ms more (hold %u)", hold->who,
                      hold->resource, hold->hold, longest->who, (double)(check_hold_end(longest) - hold->held) / 1e6,
                      longest->hold);
        }
        if (!longest || check_hold_end(hold) > check_hold_end(longest))
            longest = hold;
    }
}

/* Detects two equal tokens. */
static int by_fence(const void *a, const void *b)
{
    const struct check_hold *const *first = a, *const *second = b;
    int order = strcmp((*first)->resource, (*second)->resource);
    if (order)
        return order;
    return (*first)->fence < (*second)->fence ? -1 : (*first)->fence > (*second)->fence;
}

static void check_unique(struct check *check, struct check_hold **fenced, size_t count)
{
    if (count)
        qsort(fenced, count, sizeof(struct check_hold *), by_fence);
    for (size_t i = 1; i < count; i++) {
        if (by_fence(&fenced[i - 1], &fenced[i]) != 0)
            continue;
        fenced[i]->violates = fenced[i - 1]->violates = true;
        violation(check, CHECK_FENCING, fenced[i]->held, "%s and %s both had token %lld of %s", fenced[i - 1]->who,
                  fenced[i]->who, (long long)fenced[i]->fence, fenced[i]->resource);
    }
}

/* Checks the fenced holds of one resource, sorted by `held`. No hold that was held before the acquire of another one
 * began may have a larger token than it. */
static void check_order(struct check *check, struct check_hold **fenced, size_t count)
{
    struct check_hold **largest = calloc(count + 1, sizeof *largest); /* of the first i + 1 */
    if (!largest)
        abort();
    for (size_t i = 0; i < count; i++) {
        struct check_hold *hold = fenced[i];
        largest[i] = i && largest[i - 1]->fence > hold->fence ? largest[i - 1] : hold;
        size_t low = 0, high = i; /* number of holds that were held before this acquire began */
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (fenced[middle]->held < hold->started)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == 0 || largest[low - 1]->fence <= hold->fence)
            continue;
        hold->violates = true;
        violation(check, CHECK_FENCING, hold->held, "%s got token %lld of %s, after %s had %lld", hold->who,
                  (long long)hold->fence, hold->resource, largest[low - 1]->who, (long long)largest[low - 1]->fence);
    }
    free(largest);
}

static void check_fences(struct check *check)
{
    struct check_hold **fenced = calloc(check->holds.count + 1, sizeof *fenced);
    size_t count = 0;
    if (!fenced)
        abort();
    for (size_t i = 0; i < check->holds.count; i++) {
        struct check_hold *hold = hold_at(check, i);
        if (hold->fence && hold->held)
            fenced[count++] = hold;
    }
    check->summary.fences = count;
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && strcmp(fenced[next]->resource, fenced[first]->resource) == 0;)
            next++;
        check_order(check, fenced + first, next - first);
    }
    check_unique(check, fenced, count);
    free(fenced);
}

static bool same_process(const char *a, const char *b)
{
    size_t process = strcspn(a, ".");
    return process == strcspn(b, ".") && memcmp(a, b, process) == 0;
}

/* The part of the time from `begin` to `end` in which the process did not run. */
static uint64_t stalled(const struct check *check, const char *who, uint64_t begin, uint64_t end)
{
    const struct stall *stalls = check->stalls.items;
    uint64_t sum = 0;
    for (size_t i = 0; i < check->stalls.count; i++) {
        if (!same_process(stalls[i].who, who) || stalls[i].end <= begin || stalls[i].begin >= end)
            continue;
        uint64_t from = stalls[i].begin > begin ? stalls[i].begin : begin;
        sum += (stalls[i].end < end ? stalls[i].end : end) - from;
    }
    return sum;
}

static uint64_t lateness(const struct check *check, const char *who, uint64_t due, uint64_t done)
{
    if (done <= due)
        return 0;
    uint64_t excused = stalled(check, who, due, done);
    return done - due > excused ? done - due - excused : 0;
}

/* Validity is rounded down to milliseconds, so the end is up to 1 ms later than promised. */
static void check_told(struct check *check, const struct check_hold *hold)
{
    uint64_t allowed = (uint64_t)check->terms.told_ms * MS, end = hold->promised + MS;
    if (!hold->held || (hold->released && hold->released < end))
        return;
    const struct client *client = client_of(check, hold->who);
    uint64_t told = hold->lost ? hold->lost : client->last;
    if (hold->released && hold->released < told)
        told = hold->released;
    uint64_t late = lateness(check, hold->who, end, told);
    if (hold->lost)
        check->told[check->told_count++] = late;
    if (late > allowed)
        violation(check, CHECK_TOLD, told, "%s of %s (hold %u) was %s %.3f ms after its end", hold->resource, hold->who,
                  hold->hold, hold->lost ? "told" : "not told", (double)late / 1e6);
}

static void check_bound(struct check *check, const struct check_hold *hold)
{
    uint64_t ended = hold->answered;
    uint64_t due = hold->started + (uint64_t)hold->wait_ms * MS;
    if (!hold->started)
        return;
    if (!ended)
        ended = client_of(check, hold->who)->last;
    if (lateness(check, hold->who, due, ended) > (uint64_t)check->terms.bound_ms * MS)
        violation(check, CHECK_BOUNDED, ended, "the acquire of %s by %s (hold %u) took %.3f ms of %lld", hold->resource,
                  hold->who, hold->hold, (double)(ended - hold->started) / 1e6, (long long)hold->wait_ms);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;
    return *first < *second ? -1 : *first > *second;
}

static void count_clients(struct check *check)
{
    struct client *clients = check->clients.items;
    for (size_t i = 0; i < check->clients.count; i++)
        for (size_t j = 0; j < check->holds.count; j++)
            if (hold_at(check, j)->held && strcmp(hold_at(check, j)->who, clients[i].who) == 0) {
                check->summary.clients++;
                break;
            }
}

struct check_summary check_all(struct check *check, FILE *out)
{
    struct check_summary *summary = &check->summary;
    check->out = out;
    check->told = calloc(check->holds.count + 1, sizeof *check->told);
    if (!check->told)
        abort();
    if (check->holds.count)
        qsort(check->holds.items, check->holds.count, sizeof(struct check_hold), by_resource_and_time);
    check_exclusion(check);
    check_fences(check);
    for (size_t i = 0; i < check->holds.count; i++) {
        const struct check_hold *hold = hold_at(check, i);
        check_told(check, hold);
        check_bound(check, hold);
        summary->attempts += hold->started != 0;
        summary->holds += hold->held != 0;
        summary->losses += hold->lost != 0;
    }
    summary->faults = check->faults.count;
    count_clients(check);
    qsort(check->told, check->told_count, sizeof *check->told, by_value);
    if (check->told_count) {
        summary->latest_told_us = check->told[check->told_count - 1] / 1000;
        summary->median_told_us = check->told[check->told_count / 2] / 1000;
    }
    return *summary;
}

size_t check_holds(const struct check *check, const struct check_hold **holds)
{
    *holds = check->holds.items;
    return check->holds.count;
}

size_t check_faults(const struct check *check, const struct check_fault **faults)
{
    *faults = check->faults.items;
    return check->faults.count;
}
