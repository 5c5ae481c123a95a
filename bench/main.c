/* The benchmark's driver: starts servers and contenders, runs them in turn, and reports. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "groups.h"
#include "machine.h"
#include "report.h"

static const struct {
    const char *name, *title;
    void (*run)(struct stage *stage);
    bool by_name_only; /* not part of "all" */
} groups[] = {
    {"latency", "five nodes up, one lock at a time", group_latency, false},
    {"sizes", "other numbers of nodes, one lock at a time", group_sizes, false},
    {"faults", "five nodes, of which one or two were killed or stopped, one lock at a time", group_faults, false},
    {"spread", "round trips of 1, 1, 1, 5 and 20 ms, one lock at a time", group_spread, false},
    {"throughput", "five nodes up, independent locks", group_throughput, false},
    {"memory", "one of five nodes stopped for the whole run, 100 locks in flight", group_memory, false},
    {"counts", "system calls, memory, instructions and cache misses per lock, five nodes", group_counts, false},
    {"overload", "up to 10,000 locks in flight with default options, five nodes", group_overload, false},
    {"start", "from the start of a process to its first lock, five nodes", group_start, false},
    {"fence", "fencing tokens, beside a floor with the same scripts, and by clients in turn, five nodes", group_fence,
     false},
    {"several", "eight resources in one lock, beside one lock and eight in sequence, five nodes", group_several, false},
    {"attest", "attested grants: the guard on and off, five nodes", group_attest, false},
    {"contend", "32 processes, one lock held for 1 ms, beside a lone client, five nodes", group_contend, false},
    {"handover", "one lock passed on: nodes 1 ms away, and past a waiter that was killed, five nodes", group_handover,
     false},
    {"fleet", "hundreds of idle clients, and 2,000 that reconnect to a restarted node, five nodes", group_fleet, true},
    {"hold", "100,000 locks held and renewed by one client, five nodes", group_hold, true},
    {"peers", "other lock clients beside this one, on five nodes each", group_peers, true},
};

enum { GROUPS = sizeof groups / sizeof groups[0] };

struct request {
    bool quick, check;
    double minutes;
    const char *directory;
    bool chosen[GROUPS];
};

static void usage(FILE *stream)
{
    fputs(
        "usage: bench [--quick] [--check] [--output DIRECTORY] [GROUP...]\n"
        "  --quick    a quarter of the rounds\n"
        "  --check    ends with one line per target, 'target NAME VALUE LIMIT ok|MISS|noisy'; fails when one is missed\n"
        "  --minutes  how long hold lasts; default: one, --quick half of one\n"
        "  --output   where bench.json and the distributions go; default: the current directory\n"
        "groups; without a name all of them, except those that say otherwise:\n",
        stream);
    for (size_t i = 0; i < GROUPS; i++)
        fprintf(stream, "  %-10s %s%s\n", groups[i].name, groups[i].title,
                groups[i].by_name_only ? " (only when named)" : "");
}

static void choose(struct request *request, const char *name)
{
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0) {
            request->chosen[i] = true;
            return;
        }
    fprintf(stderr, "bench: '%s' is neither an option nor a group\n", name);
    usage(stderr);
    exit(2);
}

static struct request parse(int count, char **arguments)
{
    struct request request = {.directory = "."};
    bool named = false;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        if (strcmp(argument, "--help") == 0) {
            usage(stdout);
            exit(0);
        }
        if (strcmp(argument, "--quick") == 0) {
            request.quick = true;
        } else if (strcmp(argument, "--check") == 0) {
            request.check = true;
        } else if (strcmp(argument, "--output") == 0 && i + 1 < count) {
            request.directory = arguments[++i];
        } else if (strcmp(argument, "--minutes") == 0 && i + 1 < count && atof(arguments[i + 1]) > 0) {
            request.minutes = atof(arguments[++i]);
        } else {
            choose(&request, argument);
            named = true;
        }
    }
    for (size_t i = 0; !named && i < GROUPS; i++)
        request.chosen[i] = !groups[i].by_name_only;
    return request;
}

static void run_group(size_t number, const struct request *request)
{
    static struct stage stage;
    struct machine_use before = machine_use_now();
    memset(&stage, 0, sizeof stage);
    stage.name = groups[number].name;
    stage.title = groups[number].title;
    stage.quick = request->quick;
    stage.minutes = request->minutes;
    report_group(&stage);
    groups[number].run(&stage);
    stage_close(&stage);
    report_figure("this machine", "processors used by other programs", estimate_exact(machine_others_percent(&before)),
                  "%");
    report_conduct(&stage);
}

int main(int count, char **arguments)
{
    struct request request = parse(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    if (mkdir(request.directory, 0777) != 0 && errno != EEXIST)
        die("cannot make %s: %s", request.directory, strerror(errno));
    report_open(request.directory);
    for (size_t i = 0; i < GROUPS; i++)
        if (request.chosen[i])
            run_group(i, &request);
    unsigned missed = report_close(request.check);
    return request.check && missed ? 1 : 0;
}
