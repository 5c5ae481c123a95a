/* Figures without noise: system calls and allocations of one acquire and release on five nodes in the steady state.
 * Two runs of different length are counted; their difference excludes start, connecting and end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "groups.h"
#include "report.h"
#include "servers.h"

enum {
    NODES = 5,
    CALLS_MAX = 64,
    SHORT_RUN = 1000,
    LONG_RUN = 3000,
    SYSTEM_CALLS_LIMIT = 30,
    HAND_OVER_CALLS = 8, /* blocking API: two calls, each with an eventfd write, a drain, a wait and a wake-up */
    OWN_ALLOCATIONS_LIMIT = 4
};

struct calls {
    unsigned count;
    struct {
        char name[32];
        double number;
    } call[CALLS_MAX];
};

struct client {
    const char *label, *program, *short_name;
};

static const struct client clients[] = {
    {"floor A", "bench-floor-a", NULL},
    {"floor B", "bench-floor-b", NULL},
    {"redlock, asynchronous", "bench-redlock-async", "async"},
    {"redlock, blocking", "bench-redlock-blocking", "blocking"},
};

enum { CLIENTS = sizeof clients / sizeof clients[0] };

static void make_temporary(char *path)
{
    strcpy(path, "/tmp/redlock-bench-XXXXXX");
    int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor < 0)
        die("no temporary file: %s", strerror(errno));
    close(descriptor);
}

/* Runs a contender's command for this number of locks. Returns the number of its own allocations. */
static double run(const char *const *arguments, unsigned locks)
{
    char line[256];
    unsigned long long allocations;
    struct process process;
    struct measurement measurement;
    struct entrant entrant = {.process = &process, .in_flight = 1};
    process_start(&process, arguments, PROCESS_PIPED);
    process_read_line(&process, line, sizeof line);
    entrant_block(&entrant, 60000000, locks, &measurement);
    if (measurement.operations != locks)
        die("%s took %d of %u locks", arguments[0], (int)measurement.operations, locks);
    fprintf(process.to, "memory\n");
    fflush(process.to);
    process_read_line(&process, line, sizeof line);
    if (sscanf(line, "memory resident_kib=%*d allocations=%llu", &allocations) != 1)
        die("%s answered '%s'", arguments[0], line);
    if (process_finish(&process) != 0)
        die("%s did not end well", arguments[0]);
    return (double)allocations;
}

/* A line of strace -c: percent, seconds, microseconds per call, calls, errors if any, name. */
static void read_calls(const char *path, struct calls *calls)
{
    char line[256], name[32], errors[32];
    double number;
    FILE *file = fopen(path, "r");
    calls->count = 0;
    while (file && fgets(line, sizeof line, file) && calls->count < CALLS_MAX) {
        int fields = sscanf(line, "%*f %*f %*f %lf %31s %31s", &number, errors, name);
        if (fields < 2)
            continue;
        snprintf(calls->call[calls->count].name, sizeof name, "%s", fields == 3 ? name : errors);
        calls->call[calls->count++].number = number;
    }
    if (file)
        fclose(file);
    if (calls->count == 0)
        die("strace counted nothing; is it installed, and may it trace?");
}

static double number_of(const struct calls *calls, const char *name)
{
    for (unsigned i = 0; i < calls->count; i++)
        if (strcmp(calls->call[i].name, name) == 0)
            return calls->call[i].number;
    return 0;
}

static void trace(const char *program, const char *nodes, unsigned locks, struct calls *calls)
{
    char path[PATH_MAX], output[64];
    process_sibling(program, path, sizeof path);
    make_temporary(output);
    const char *arguments[] = {"strace", "-f", "-q", "-c", "-o", output, path, nodes, NULL};
    run(arguments, locks);
    read_calls(output, calls);
    unlink(output);
}

static void count_system_calls(const struct client *client, const char *nodes)
{
    static struct calls few, many;
    char name[64];
    trace(client->program, nodes, SHORT_RUN, &few);
    trace(client->program, nodes, LONG_RUN, &many);
    for (unsigned i = 0; i < many.count; i++) {
        double each = (many.call[i].number - number_of(&few, many.call[i].name)) / (LONG_RUN - SHORT_RUN);
        if (each > 0.005 || each < -0.005)
            report_figure(client->label, many.call[i].name, estimate_exact(each), "calls per lock");
    }
    double epoll_ctl = (number_of(&many, "epoll_ctl") - number_of(&few, "epoll_ctl")) / (LONG_RUN - SHORT_RUN);
    double total = (number_of(&many, "total") - number_of(&few, "total")) / (LONG_RUN - SHORT_RUN);
    if (!client->short_name)
        return;
    snprintf(name, sizeof name, "system-calls-per-lock/%s", client->short_name);
    bool blocking = strcmp(client->short_name, "blocking") == 0;
    target_at_most(name, estimate_exact(total), SYSTEM_CALLS_LIMIT + (blocking ? HAND_OVER_CALLS : 0));
    snprintf(name, sizeof name, "epoll-ctl-per-lock/%s", client->short_name);
    target_at_most(name, estimate_exact(epoll_ctl), 0.01);
}

/* Allocations of the whole process; own: of the contender alone. */
static double count_mallocs(const char *program, const char *nodes, unsigned locks, double *own)
{
    char path[PATH_MAX], output[64], library[PATH_MAX], preload[PATH_MAX + 16], name[96];
    double number = 0;
    process_sibling(program, path, sizeof path);
    process_sibling("libbench-count-malloc.so", library, sizeof library);
    make_temporary(output);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(name, sizeof name, "BENCH_MALLOC_COUNT=%s", output);
    const char *arguments[] = {"env", preload, name, path, nodes, NULL};
    *own = run(arguments, locks);
    FILE *file = fopen(output, "r");
    if (!file || fscanf(file, "%lf", &number) != 1)
        die("%s was not preloaded", library);
    fclose(file);
    unlink(output);
    return number;
}

static void count_allocations(const struct client *client, const char *nodes)
{
    char name[64];
    double own_few, own_many;
    double few = count_mallocs(client->program, nodes, SHORT_RUN, &own_few);
    double many = count_mallocs(client->program, nodes, LONG_RUN, &own_many);
    double own = (own_many - own_few) / (LONG_RUN - SHORT_RUN);
    report_figure(client->label, "allocations, its own", estimate_exact(own), "per lock");
    report_figure(client->label, "allocations, with hiredis", estimate_exact((many - few) / (LONG_RUN - SHORT_RUN)),
                  "per lock");
    if (!client->short_name)
        return;
    snprintf(name, sizeof name, "own-allocations-per-lock/%s", client->short_name);
    target_at_most(name, estimate_exact(own), OWN_ALLOCATIONS_LIMIT);
}

void group_counts(struct stage *stage)
{
    struct servers servers;
    char nodes[NODE_LIST_SIZE];
    servers_start(&servers, NODES);
    servers_list(&servers, NODES, nodes);
    report_group(stage);
    for (unsigned i = 0; i < CLIENTS; i++) {
        count_system_calls(&clients[i], nodes);
        count_allocations(&clients[i], nodes);
    }
    stage->left_over_keys += servers_left_over(&servers, NODES);
    servers_end(&servers);
}
