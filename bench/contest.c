#include "contest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* In the order of enum contest_figure, and in that of bench-contend's output. */
static const struct {
    const char *label, *unit;
} labels[CONTEST_FIGURES] = {{"acquisitions", "per second"},
                             {"hand-offs to another process", "%"},
                             {"hand-over p50", "ms"},
                             {"wait p50", "ms"},
                             {"wait p99", "ms"},
                             {"wait p99 less standstills", "ms"},
                             {"wait worst", "ms"},
                             {"the machine stood still", "ms"},
                             {"Jain index", ""},
                             {"lost attempts per acquisition", ""},
                             {"client CPU per acquisition", "ms"},
                             {"failed acquires and releases", ""},
                             {"simultaneous holders", ""}};

void contest_read(struct contest *contest, struct process *process)
{
    char line[512], *rest = line, *end;
    process_read_line(process, line, sizeof line);
    for (unsigned i = 0; i < CONTEST_FIGURES; i++) {
        contest->figures[i][contest->rounds] = strtod(rest, &end);
        if (end == rest)
            die("a contest ended with '%s'", line);
        rest = end;
    }
    contest->rounds++;
}

void contest_play(struct contest *contest, const char *nodes, double seconds)
{
    char path[PATH_MAX], count[16], hold[16], duration[16];
    struct process process;
    process_sibling("bench-contend", path, sizeof path);
    snprintf(count, sizeof count, "%u", contest->processes);
    snprintf(hold, sizeof hold, "%u", contest->hold_us);
    snprintf(duration, sizeof duration, "%g", seconds);
    const char *arguments[] = {path, nodes, count, duration, hold, contest->api, NULL};
    process_start(&process, arguments, PROCESS_PIPED);
    contest_read(contest, &process);
    if (process_finish(&process) != 0)
        die("bench-contend did not end well");
}

struct estimate contest_estimate(const struct contest *contest, enum contest_figure figure)
{
    double values[CONTEST_ROUNDS_MAX];
    memcpy(values, contest->figures[figure], sizeof values);
    return estimate_median(values, contest->rounds);
}

struct estimate contest_ratio(const struct contest *contest, const struct contest *base)
{
    double values[CONTEST_ROUNDS_MAX];
    for (unsigned i = 0; i < contest->rounds; i++)
        values[i] = contest->figures[CONTEST_RATE][i] / base->figures[CONTEST_RATE][i];
    return estimate_median(values, contest->rounds);
}

double contest_sum(const struct contest *contest, enum contest_figure figure)
{
    double sum = 0;
    for (unsigned i = 0; i < contest->rounds; i++)
        sum += contest->figures[figure][i];
    return sum;
}

void contest_report(const struct contest *contest)
{
    char label[64];
    snprintf(label, sizeof label, "%s, %u contender%s", contest->api, contest->processes,
             contest->processes == 1 ? "" : "s");
    for (unsigned i = 0; i < CONTEST_FIGURES; i++)
        if (contest_sum(contest, i) > 0)
            report_figure(label, labels[i].label, contest_estimate(contest, i), labels[i].unit);
}
