/* One client that holds and renews very many locks: the cost, and the effect on one more lock. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "groups.h"
#include "report.h"

enum { NODES = 5, LOCKS = 100000, TTL_MS = 30000 };

struct phase {
    uint64_t p50, p99, failures, cpu, wall; /* ns */
};

struct outcome {
    uint64_t locks, taken, lost, failing, not_released, bytes, leaked;
    struct phase idle, holding;
};

static bool scan_phase(const char *line, const char *name, struct phase *phase)
{
    char format[128];
    snprintf(format, sizeof format, " %s=", name);
    const char *at = strstr(line, format);
    return at && sscanf(strchr(at, '=') + 1, "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64, &phase->p50,
                        &phase->p99, &phase->failures, &phase->cpu, &phase->wall) == 5;
}

static bool scan(const char *line, struct outcome *outcome)
{
    return sscanf(line,
                  "hold locks=%" SCNu64 " taken=%" SCNu64 " lost=%" SCNu64 " failing=%" SCNu64 " not_released=%" SCNu64
                  " bytes=%" SCNu64 " leaked=%" SCNu64,
                  &outcome->locks, &outcome->taken, &outcome->lost, &outcome->failing, &outcome->not_released,
                  &outcome->bytes, &outcome->leaked) == 7 &&
           scan_phase(line, "idle", &outcome->idle) && scan_phase(line, "holding", &outcome->holding);
}

static void play(const char *nodes, double seconds, struct outcome *outcome)
{
    char path[PATH_MAX], locks[16], duration[16], ttl[16], line[512];
    struct process process;
    process_sibling("bench-hold", path, sizeof path);
    snprintf(locks, sizeof locks, "%d", LOCKS);
    snprintf(duration, sizeof duration, "%g", seconds);
    snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    const char *arguments[] = {path, nodes, locks, duration, ttl, NULL};
    process_start(&process, arguments, PROCESS_PIPED);
    do
        process_read_line(&process, line, sizeof line);
    while (strcmp(line, "holding") == 0);
    if (process_finish(&process) != 0 || !scan(line, outcome))
        die("bench-hold answered '%s'", line);
}

static double cpu_percent(const struct phase *phase)
{
    return 100.0 * (double)phase->cpu / (double)phase->wall;
}

/* What holding the locks adds to the probe, which costs the idle client as much. */
static double renewal_percent(const struct outcome *outcome)
{
    return cpu_percent(&outcome->holding) - cpu_percent(&outcome->idle);
}

static void report_phase(const char *label, const struct phase *phase)
{
    report_figure(label, "client CPU, of one core", estimate_exact(cpu_percent(phase)), "%");
    report_figure(label, "acquire p50", estimate_exact((double)phase->p50 / 1e3), "us");
    report_figure(label, "acquire p99", estimate_exact((double)phase->p99 / 1e3), "us");
}

static void report(const struct outcome *outcome)
{
    static const char label[] = "all held";
    report_phase("no lock held", &outcome->idle);
    report_phase(label, &outcome->holding);
    report_figure(label, "client CPU of the renewals", estimate_exact(renewal_percent(outcome)), "%");
    report_figure(label, "locks", estimate_exact((double)outcome->locks), "");
    report_figure(label, "taken at", estimate_exact((double)outcome->locks * 1e9 / (double)outcome->taken), "/s");
    report_figure(label, "renewals that failed", estimate_exact((double)outcome->failing), "");
}

static void judge(const struct outcome *outcome)
{
    double bytes = (double)outcome->bytes / (double)outcome->locks;
    double p99 = (double)outcome->holding.p99 / (double)outcome->idle.p99;
    uint64_t failures = outcome->idle.failures + outcome->holding.failures;
    target_at_most("hold/client-cpu-percent", estimate_exact(cpu_percent(&outcome->holding)), 10);
    target_at_most("hold/renewals-cpu-percent", estimate_exact(renewal_percent(outcome)), 8);
    target_at_most("hold/bytes-per-lock", estimate_exact(bytes), 1024);
    target_at_most("hold/lost", estimate_exact((double)(outcome->lost + outcome->not_released + failures)), 0);
    target_at_most("hold/leaked-bytes", estimate_exact((double)outcome->leaked), 0);
    target_at_most("hold/acquire-p99-to-idle", estimate_exact(p99), 2);
}

void group_hold(struct stage *stage)
{
    struct outcome outcome;
    stage_open(stage, NODES);
    play(stage->nodes, stage->minutes > 0 ? 60 * stage->minutes : stage->quick ? 30 : 60, &outcome);
    report(&outcome);
    judge(&outcome);
}
