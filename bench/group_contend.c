/* Several processes, one lock, held for 1 ms. A lone client runs in turn with them. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "groups.h"
#include "report.h"
#include "servers.h"

enum { NODES = 5, CONTESTS = 4, ROUNDS = 5, QUICK_ROUNDS = 2, HOLD_US = 1000 };

static const struct contest {
    unsigned processes;
    const char *fair; /* the last argument */
    const char *name; /* in targets */
} contests[CONTESTS] = {{1, NULL, "1"}, {8, NULL, "8"}, {32, NULL, "32"}, {32, "fair", "32-fair"}};

struct outcome {
    uint64_t acquired, hand_offs, lost_attempts, failures, overlaps, cpu;
    uint64_t wait_p50, wait_p99, wait_worst; /* ns */
    uint64_t running_p99, stood_still;       /* ns: minus the time in which the machine stopped; that time */
    double jain;
};

static void play(const char *nodes, const struct contest *contest, const char *seconds, struct outcome *outcome)
{
    char path[PATH_MAX], count[16], hold[16], line[512];
    struct process process;
    process_sibling("bench-contend", path, sizeof path);
    snprintf(count, sizeof count, "%u", contest->processes);
    snprintf(hold, sizeof hold, "%d", HOLD_US);
    const char *arguments[] = {path, nodes, count, seconds, hold, contest->fair, NULL};
    process_start(&process, arguments, PROCESS_PIPED);
    process_read_line(&process, line, sizeof line);
    int fields = sscanf(line,
                        "contend acquired=%" SCNu64 " hand_offs=%" SCNu64 " lost_attempts=%" SCNu64 " failures=%" SCNu64
                        " overlaps=%" SCNu64 " cpu=%" SCNu64 " wait=%" SCNu64 ",%" SCNu64 ",%" SCNu64 " jain=%lf"
                        " running_p99=%" SCNu64 " stood_still=%" SCNu64,
                        &outcome->acquired, &outcome->hand_offs, &outcome->lost_attempts, &outcome->failures,
                        &outcome->overlaps, &outcome->cpu, &outcome->wait_p50, &outcome->wait_p99, &outcome->wait_worst,
                        &outcome->jain, &outcome->running_p99, &outcome->stood_still);
    if (fields != 12 || process_finish(&process) != 0)
        die("bench-contend answered '%s'", line);
}

typedef double outcome_function(const struct outcome *outcome);

static double acquired(const struct outcome *outcome)
{
    return (double)outcome->acquired;
}

static double hand_off_percent(const struct outcome *outcome)
{
    return 100.0 * (double)outcome->hand_offs / (double)outcome->acquired;
}

static double lost_attempts(const struct outcome *outcome)
{
    return (double)outcome->lost_attempts / (double)outcome->acquired;
}

static double cpu_ms(const struct outcome *outcome)
{
    return (double)outcome->cpu / 1e6 / (double)outcome->acquired;
}

static double wait_p50_ms(const struct outcome *outcome)
{
    return (double)outcome->wait_p50 / 1e6;
}

static double wait_p99_ms(const struct outcome *outcome)
{
    return (double)outcome->wait_p99 / 1e6;
}

static double running_p99_ms(const struct outcome *outcome)
{
    return (double)outcome->running_p99 / 1e6;
}

static double stood_still_ms(const struct outcome *outcome)
{
    return (double)outcome->stood_still / 1e6;
}

static double wait_worst_ms(const struct outcome *outcome)
{
    return (double)outcome->wait_worst / 1e6;
}

static double jain_index(const struct outcome *outcome)
{
    return outcome->jain;
}

static struct estimate over_rounds(const struct outcome *outcomes, unsigned rounds, outcome_function *function)
{
    double values[ROUNDS];
    for (unsigned round = 0; round < rounds; round++)
        values[round] = function(&outcomes[round]);
    return estimate_median(values, rounds);
}

static struct estimate rate_to_lone(const struct outcome *outcomes, const struct outcome *lone, unsigned rounds)
{
    double values[ROUNDS];
    for (unsigned round = 0; round < rounds; round++)
        values[round] = acquired(&outcomes[round]) / acquired(&lone[round]);
    return estimate_median(values, rounds);
}

static struct estimate rate(const struct outcome *outcomes, unsigned rounds, double seconds)
{
    struct estimate estimate = over_rounds(outcomes, rounds, acquired);
    return (struct estimate){estimate.value / seconds, estimate.low / seconds, estimate.high / seconds};
}

static uint64_t overlaps_of(const struct outcome *outcomes, unsigned rounds)
{
    uint64_t overlaps = 0;
    for (unsigned round = 0; round < rounds; round++)
        overlaps += outcomes[round].overlaps;
    return overlaps;
}

static void report_contest(const struct contest *contest, const struct outcome *outcomes, unsigned rounds,
                           double seconds)
{
    static const struct {
        const char *name, *unit;
        outcome_function *function;
    } figures[] = {{"hand-offs to another process", "%", hand_off_percent},
                   {"wait p50", "ms", wait_p50_ms},
                   {"wait p99", "ms", wait_p99_ms},
                   {"wait p99 less standstills", "ms", running_p99_ms},
                   {"wait worst", "ms", wait_worst_ms},
                   {"the machine stood still", "ms", stood_still_ms},
                   {"Jain index", "", jain_index},
                   {"lost attempts per acquisition", "", lost_attempts},
                   {"client CPU per acquisition", "ms", cpu_ms}};
    char label[LABEL_SIZE];
    snprintf(label, sizeof label, "%u process%s%s", contest->processes, contest->processes == 1 ? "" : "es",
             contest->fair ? ", fair" : "");
    report_figure(label, "acquisitions", rate(outcomes, rounds, seconds), "per second");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        report_figure(label, figures[i].name, over_rounds(outcomes, rounds, figures[i].function), figures[i].unit);
}

static const char *target_name(const char *what, const struct contest *contest)
{
    static char name[64];
    snprintf(name, sizeof name, "contend-%s/%s", contest->name, what);
    return name;
}

static void judge(const struct contest *contest, const struct outcome *outcomes, const struct outcome *lone,
                  unsigned rounds)
{
    uint64_t overlaps = overlaps_of(outcomes, rounds);
    target_at_most(target_name("overlaps", contest), estimate_exact((double)overlaps), 0);
    target_at_least(target_name("rate-to-lone-client", contest), rate_to_lone(outcomes, lone, rounds), 0.75);
    target_at_least(target_name("hand-off-percent", contest), over_rounds(outcomes, rounds, hand_off_percent), 90);
    target_at_least(target_name("jain-index", contest), over_rounds(outcomes, rounds, jain_index),
                    contest->fair ? 0.995 : 0.98);
    target_at_most(target_name("client-cpu-ms", contest), over_rounds(outcomes, rounds, cpu_ms), 0.5);
    if (contest->processes == 32)
        target_at_most(target_name("wait-p99-ms", contest), over_rounds(outcomes, rounds, running_p99_ms),
                       contest->fair ? 60 : 100);
}

void group_contend(struct stage *stage)
{
    static struct outcome outcomes[CONTESTS][ROUNDS];
    unsigned rounds = stage->quick ? QUICK_ROUNDS : ROUNDS;
    double seconds = stage->quick ? 3 : 10;
    char nodes[NODE_LIST_SIZE], seconds_text[16];
    struct servers servers;
    servers_start(&servers, NODES);
    servers_list(&servers, NODES, nodes);
    snprintf(seconds_text, sizeof seconds_text, "%g", seconds);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < CONTESTS; i++)
            play(nodes, &contests[i], seconds_text, &outcomes[i][round]);
    report_group(stage);
    for (unsigned i = 0; i < CONTESTS; i++)
        report_contest(&contests[i], outcomes[i], rounds, seconds);
    for (unsigned i = 1; i < CONTESTS; i++)
        judge(&contests[i], outcomes[i], outcomes[0], rounds);
    stage->left_over_keys += servers_left_over(&servers, NODES);
    servers_end(&servers);
}
