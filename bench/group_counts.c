/* Figures without noise, for one acquire and release on five nodes in the steady state. Tools count two runs of
 * different length; the difference excludes start, connecting and end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apis.h"
#include "groups.h"
#include "report.h"

enum {
    NODES = 5,
    REPEATS = 3,
    COUNTS_MAX = 64,
    PREFIX_MAX = 12,
    NAME_SIZE = 32,
    IN_FLIGHT = 1000,
    IN_FLIGHT_THREADS = 100,
    BLOCK_US = 60000000,
    BYTES_LIMIT = 1024 /* per operation in flight */
};

struct counts {
    unsigned count;
    struct {
        char name[NAME_SIZE];
        double number;
    } of[COUNTS_MAX];
    double own_allocations;
};

/* ------------------------------------------------------------------------------------------------------------ tools */

struct tool {
    const char *prefix[PREFIX_MAX]; /* "%s": the path of the output; "%l": of the preloaded library */
    void (*read)(FILE *output, struct counts *counts);
    unsigned short_run, long_run; /* locks */
};

static void add(struct counts *counts, const char *name, double number)
{
    if (counts->count == COUNTS_MAX)
        die("more than %d counts", COUNTS_MAX);
    snprintf(counts->of[counts->count].name, NAME_SIZE, "%.*s", NAME_SIZE - 1, name);
    counts->of[counts->count++].number = number;
}

static double number_of(const struct counts *counts, const char *name)
{
    for (unsigned i = 0; i < counts->count; i++)
        if (strcmp(counts->of[i].name, name) == 0)
            return counts->of[i].number;
    return 0;
}

/* A line of strace -c: percent, seconds, microseconds per call, calls, errors if any, name. */
static void read_strace(FILE *output, struct counts *counts)
{
    char line[256], name[NAME_SIZE], errors[NAME_SIZE];
    double number;
    while (fgets(line, sizeof line, output)) {
        int fields = sscanf(line, "%*f %*f %*f %lf %31s %31s", &number, errors, name);
        if (fields >= 2)
            add(counts, fields == 3 ? name : errors, number);
    }
}

static void read_malloc_count(FILE *output, struct counts *counts)
{
    double number;
    if (fscanf(output, "%lf", &number) == 1)
        add(counts, "allocations, with hiredis", number);
}

/* "events: Ir I1mr ..." and, at the end, "summary: NUMBER NUMBER ...": reads and writes are added up. */
static void read_cachegrind(FILE *output, struct counts *counts)
{
    static char events[512], summary[1024], line[4096];
    while (fgets(line, sizeof line, output)) {
        if (strncmp(line, "events:", 7) == 0)
            snprintf(events, sizeof events, "%.*s", (int)sizeof events - 1, line + 7);
        if (strncmp(line, "summary:", 8) == 0)
            snprintf(summary, sizeof summary, "%.*s", (int)sizeof summary - 1, line + 8);
    }
    char *names = events, *numbers = summary, *name;
    struct counts all = {0};
    while ((name = strsep(&names, " \n")))
        if (*name)
            add(&all, name, strtod(numbers, &numbers));
    add(counts, "instructions", number_of(&all, "Ir"));
    add(counts, "first-level-data-misses", number_of(&all, "D1mr") + number_of(&all, "D1mw"));
    add(counts, "first-level-instruction-misses", number_of(&all, "I1mr"));
    add(counts, "last-level-misses", number_of(&all, "ILmr") + number_of(&all, "DLmr") + number_of(&all, "DLmw"));
}

static const struct tool strace = {
    .prefix = {"strace", "-f", "-q", "-c", "-o", "%s"}, .read = read_strace, .short_run = 1000, .long_run = 3000};
static const struct tool malloc_count = {.prefix = {"env", "LD_PRELOAD=%l", "BENCH_MALLOC_COUNT=%s"},
                                         .read = read_malloc_count,
                                         .short_run = 1000,
                                         .long_run = 3000};
/* The same caches on every machine: 32 KiB each for data and instructions, 8 MiB in all. */
static const struct tool cachegrind = {.prefix = {"valgrind", "--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64",
                                                  "--D1=32768,8,64", "--LL=8388608,16,64", "--cachegrind-out-file=%s",
                                                  "--log-file=/dev/null"},
                                       .read = read_cachegrind,
                                       .short_run = 2000,
                                       .long_run = 6000};

/* ----------------------------------------------------------------------------------------------------------- runs */

static void make_temporary(char *path)
{
    strcpy(path, "/tmp/redlock-bench-XXXXXX");
    int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor < 0)
        die("no temporary file: %s", strerror(errno));
    close(descriptor);
}

/* Runs a contender for this number of locks per thread. */
static void run(const char *const *prefix, const char *program, const char *nodes, unsigned in_flight, unsigned locks,
                struct entrant_state *before, struct entrant_state *after)
{
    struct process process;
    struct measurement measurement;
    struct entrant entrant = {.process = &process, .in_flight = in_flight};
    contender_start(&process, prefix, program, nodes);
    entrant_state(&entrant, before);
    entrant_block(&entrant, BLOCK_US, locks, &measurement);
    entrant_state(&entrant, after);
    if (measurement.operations < locks || measurement.failed > 0)
        die("%s took %d of %u locks", program, (int)measurement.operations, locks);
    if (process_finish(&process) != 0)
        die("%s did not end well", program);
}

/* Replaces the format in one word of a tool's prefix. */
static const char *fill(const char *word, const char *output, char *text, size_t size)
{
    char library[PATH_MAX];
    const char *mark = strchr(word, '%'), *value = output;
    if (!mark)
        return word;
    if (mark[1] == 'l')
        value = process_sibling("libbench-count-malloc.so", library, sizeof library);
    snprintf(text, size, "%.*s%s", (int)(mark - word), word, value);
    return text;
}

static void count_run(const struct tool *tool, const char *program, const char *nodes, unsigned in_flight,
                      unsigned locks, struct counts *counts)
{
    static char texts[PREFIX_MAX][PATH_MAX + 64];
    char path[64];
    const char *prefix[PREFIX_MAX + 1] = {NULL};
    struct entrant_state before, after;
    counts->count = 0;
    make_temporary(path);
    for (unsigned i = 0; i < PREFIX_MAX && tool->prefix[i]; i++)
        prefix[i] = fill(tool->prefix[i], path, texts[i], sizeof texts[i]);
    run(prefix, program, nodes, in_flight, locks, &before, &after);
    FILE *output = fopen(path, "r");
    if (output) {
        tool->read(output, counts);
        fclose(output);
    }
    unlink(path);
    if (counts->count == 0)
        die("%s counted nothing; is it installed, and may it trace?", tool->prefix[0]);
    counts->own_allocations = (double)after.allocations;
}

static void count_once(const struct tool *tool, const char *program, const char *nodes, unsigned in_flight,
                       struct counts *each)
{
    static struct counts few, many;
    double locks = tool->long_run - tool->short_run;
    each->count = 0;
    count_run(tool, program, nodes, in_flight, tool->short_run, &few);
    count_run(tool, program, nodes, in_flight, tool->long_run, &many);
    for (unsigned i = 0; i < many.count; i++)
        add(each, many.of[i].name, (many.of[i].number - number_of(&few, many.of[i].name)) / locks);
    each->own_allocations = (many.own_allocations - few.own_allocations) / locks;
}

/* Per lock; the least of several times. Other load on the machine only adds: replies arrive one by one, and slow nodes
 * fall behind. */
static void count(const struct tool *tool, const char *program, const char *nodes, unsigned in_flight,
                  struct counts *least)
{
    static struct counts each;
    count_once(tool, program, nodes, in_flight, least);
    for (unsigned i = 1; i < REPEATS; i++) {
        count_once(tool, program, nodes, in_flight, &each);
        for (unsigned n = 0; n < least->count; n++)
            least->of[n].number = fmin(least->of[n].number, number_of(&each, least->of[n].name));
        least->own_allocations = fmin(least->own_allocations, each.own_allocations);
    }
}

/* ---------------------------------------------------------------------------------------------------------- figures */

static void report(const char *label, const struct counts *each, const char *unit)
{
    for (unsigned i = 0; i < each->count; i++)
        if (each->of[i].number > 0.005)
            report_figure(label, each->of[i].name, estimate_exact(each->of[i].number), unit);
}

static void at_most(const char *what, const char *api, const char *base, double value, double limit)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s%s", what, api, base);
    target_at_most(name, estimate_exact(value), limit);
}

/* One lock at a time. */
static void count_calls(const char *label, const char *program, const char *nodes, const struct api *api)
{
    static struct counts calls, allocations;
    count(&strace, program, nodes, 1, &calls);
    report(label, &calls, "calls per lock");
    count(&malloc_count, program, nodes, 1, &allocations);
    report(label, &allocations, "per lock");
    report_figure(label, "allocations, its own", estimate_exact(allocations.own_allocations), "per lock");
    if (!api)
        return;
    if (api->limits.system_calls > 0)
        at_most("system-calls-per-lock", api->name, "", number_of(&calls, "total"), api->limits.system_calls);
    at_most("epoll-ctl-per-lock", api->name, "", number_of(&calls, "epoll_ctl"), 0.01);
    at_most("own-allocations-per-lock", api->name, "", allocations.own_allocations,
            api->limits.own_allocations + 0.005);
}

/* The library's memory in use with many operations in flight, less that of an idle client. */
static void count_bytes(const struct api *api, const char *nodes)
{
    struct entrant_state before, after;
    double least = HUGE_VAL;
    unsigned in_flight = api->threaded ? IN_FLIGHT_THREADS : IN_FLIGHT;
    unsigned locks = api->threaded ? 100 : IN_FLIGHT; /* of a thread. Without threads all begin at once. */
    for (unsigned i = 0; i < REPEATS; i++) {
        run(NULL, api->program, nodes, in_flight, locks, &before, &after);
        least = fmin(least, (double)(after.most_bytes - before.bytes) / in_flight);
    }
    report_figure(api->label, "bytes per operation in flight", estimate_exact(least), "");
    at_most("bytes-per-operation", api->name, "", least, BYTES_LIMIT);
}

static void count_misses(const struct api *api, const char *nodes, const struct counts *floor)
{
    static const struct {
        const char *name;
        double limit; /* to floor C */
    } figures[] = {{"instructions", 1.0}, {"first-level-data-misses", 1.1}, {"last-level-misses", 1.1}};
    static struct counts each;
    char program[64];
    snprintf(program, sizeof program, "%s patient", api->program);
    count(&cachegrind, program, nodes, IN_FLIGHT, &each);
    report(api->label, &each, "per lock, 1000 in flight");
    for (unsigned i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        double number = number_of(&each, figures[i].name);
        at_most(figures[i].name, api->name, "/floor-c", number / number_of(floor, figures[i].name), figures[i].limit);
    }
}

void group_counts(struct stage *stage)
{
    static const char *const floors[][2] = {
        {"raw sockets", "bench-floor-raw"}, {"floor A", "bench-floor-a"}, {"floor C", "bench-floor-c"}};
    static struct counts floor;
    stage_open(stage, NODES);
    for (unsigned i = 0; i < sizeof floors / sizeof floors[0]; i++)
        count_calls(floors[i][0], floors[i][1], stage->nodes, NULL);
    for (unsigned i = 0; i < APIS; i++)
        count_calls(apis[i].label, apis[i].program, stage->nodes, &apis[i]);
    for (unsigned i = 0; i < APIS; i++)
        count_bytes(&apis[i], stage->nodes);
    count(&cachegrind, "bench-floor-c", stage->nodes, IN_FLIGHT, &floor);
    report("floor C", &floor, "per lock, 1000 in flight");
    for (unsigned i = 0; i < APIS; i++)
        if (apis[i].limits.rate_to_floor_c > 0)
            count_misses(&apis[i], stage->nodes, &floor);
}
