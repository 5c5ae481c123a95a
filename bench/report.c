#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "histogram.h"
#include "json.h"

enum { TARGETS_MAX = 512 };

struct target {
    char name[64];
    struct estimate value;
    double limit;
    bool at_least; /* otherwise at most */
};

static const char *directory;
static struct json json;
static bool in_group;
static struct target targets[TARGETS_MAX];
static unsigned target_count;

static FILE *create(const char *name, const char *ending)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, ending);
    FILE *file = fopen(path, "w");
    if (!file)
        die("cannot write %s: %s", path, strerror(errno));
    return file;
}

static void describe_processor(char *model, size_t size)
{
    char line[256];
    snprintf(model, size, "unknown");
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "model name : %[^\n]", model) == 1)
            break;
    if (info)
        fclose(info);
}

static void describe_machine(void)
{
    char model[256], text[64];
    struct utsname system;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    time_t now = time(NULL);
    uname(&system);
    describe_processor(model, sizeof model);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_open(&json, "machine", '{');
    json_text(&json, "date", text);
    json_text(&json, "kernel", system.release);
    json_text(&json, "processor", model);
    json_number(&json, "processors", (double)processors);
    snprintf(text, sizeof text, "%d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    json_text(&json, "hiredis", text);
    json_close(&json, '}');
    printf("%s, %ld processors, kernel %s, hiredis %s\n", model, processors, system.release, text);
}

void report_open(const char *where)
{
    directory = where;
    json.file = create("bench", ".json");
    fputc('{', json.file);
    describe_machine();
    json_open(&json, "groups", '[');
}

static void close_group(void)
{
    if (in_group) {
        json_close(&json, ']');
        json_close(&json, '}');
    }
    in_group = false;
}

void report_group(const struct stage *stage)
{
    close_group();
    in_group = true;
    printf("\n== %s: %s\n", stage->name, stage->title);
    json_open(&json, NULL, '{');
    json_text(&json, "name", stage->name);
    json_text(&json, "title", stage->title);
    json_open(&json, "rows", '[');
}

static void json_estimate(const char *key, struct estimate estimate)
{
    json_open(&json, key, '[');
    json_number(&json, NULL, estimate.value);
    json_number(&json, NULL, estimate.low);
    json_number(&json, NULL, estimate.high);
    json_close(&json, ']');
}

static void json_entrant(const struct stage *stage, const struct entrant *entrant)
{
    uint64_t failures = entrant_failures(stage, entrant);
    static const struct {
        const char *name;
        metric_function *metric;
    } metrics[] = {{"acquire_p50_us", acquire_p50},         {"acquire_p99_us", acquire_p99},
                   {"acquire_worst_us", acquire_worst},     {"acquire_release_p50_us", both_p50},
                   {"acquire_release_p99_us", both_p99},    {"locks_per_second", lock_rate},
                   {"client_cpu_us_per_lock", cpu_per_lock}};
    json_open(&json, NULL, '{');
    json_text(&json, "label", entrant->label);
    json_number(&json, "in_flight", entrant->in_flight);
    json_number(&json, "rounds", stage->round_count);
    json_number(&json, "failed", (double)failures);
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        json_estimate(metrics[i].name, entrant_estimate(stage, entrant, metrics[i].metric));
}

static void print_row(const struct stage *stage, const struct entrant *entrant)
{
    printf("%-40s %9.1f %9.1f %10.1f %9.1f %9.0f %8.1f", entrant->label,
           entrant_estimate(stage, entrant, acquire_p50).value, entrant_estimate(stage, entrant, acquire_p99).value,
           entrant_estimate(stage, entrant, both_p50).value, entrant_estimate(stage, entrant, both_p99).value,
           entrant_estimate(stage, entrant, lock_rate).value, entrant_estimate(stage, entrant, cpu_per_lock).value);
}

static void add_row(const struct stage *stage, const struct entrant *entrant, const struct entrant *base)
{
    print_row(stage, entrant);
    json_entrant(stage, entrant);
    if (base) {
        struct estimate ratio = entrant_ratio(stage, entrant, base, acquire_p50);
        printf("   %6.3f [%.3f, %.3f]", ratio.value, ratio.low, ratio.high);
        json_text(&json, "base", base->label);
        json_estimate("acquire_p50_ratio", ratio);
    }
    json_close(&json, '}');
    uint64_t failures = entrant_failures(stage, entrant);
    if (failures)
        printf("   %" PRIu64 " FAILED", failures);
    printf("\n");
}

void report_table(const struct stage *stage, const struct entrant *base)
{
    printf("medians of %u rounds; us = microseconds\n", stage->round_count);
    printf("%-40s %9s %9s %10s %9s %9s %8s", "", "acquire", "", "+ release", "", "", "CPU us");
    printf("%s%s\n", base ? "   acquire p50 to that of " : "", base ? base->label : "");
    printf("%-40s %9s %9s %10s %9s %9s %8s%s\n", "", "p50 us", "p99 us", "p50 us", "p99 us", "locks/s", "/lock",
           base ? "   ratio [95 % interval]" : "");
    for (unsigned i = 0; i < stage->entrant_count; i++)
        add_row(stage, &stage->entrants[i], base);
    fflush(stdout);
}

void report_figure(const char *label, const char *name, struct estimate figure, const char *unit)
{
    printf("%-40s %-34s %12.3f %s", label, name, figure.value, unit);
    if (figure.low < figure.high)
        printf("   [%.3f, %.3f]", figure.low, figure.high);
    printf("\n");
    fflush(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "label", label);
    json_text(&json, "figure", name);
    json_text(&json, "unit", unit);
    json_estimate("value", figure);
    json_close(&json, '}');
}

struct distribution {
    size_t used;
    uint64_t total;
    struct {
        uint64_t duration, count;
    } buckets[HISTOGRAM_BUCKETS];
};

static void ask_distribution(const struct entrant *entrant, struct distribution *distribution)
{
    char line[128], kind[16];
    uint64_t duration, count;
    distribution->used = 0;
    distribution->total = 0;
    fprintf(entrant->process->to, "distribution\n");
    fflush(entrant->process->to);
    for (;;) {
        process_read_line(entrant->process, line, sizeof line);
        if (line[0] == '.')
            break;
        if (sscanf(line, "%15s %" SCNu64 " %" SCNu64, kind, &duration, &count) != 3)
            die("%s answered '%s'", entrant->label, line);
        if (strcmp(kind, "acquire") != 0 || distribution->used == HISTOGRAM_BUCKETS)
            continue;
        distribution->buckets[distribution->used].duration = duration;
        distribution->buckets[distribution->used++].count = count;
        distribution->total += count;
    }
}

/* One block of the file per entrant: its label, then "us share" lines, limited to the number that a plot can show. */
static void write_distribution(FILE *file, const struct entrant *entrant)
{
    static struct distribution distribution;
    uint64_t seen = 0, shown = 0;
    ask_distribution(entrant, &distribution);
    fprintf(file, "%s\"%s\"\n", ftell(file) > 0 ? "\n\n" : "", entrant->label);
    for (size_t i = 0; i < distribution.used; i++) {
        seen += distribution.buckets[i].count;
        if ((seen - shown) * 2000 < distribution.total && i + 1 < distribution.used)
            continue;
        shown = seen;
        fprintf(file, "%.3f %.6f\n", (double)distribution.buckets[i].duration / 1e3,
                (double)seen / (double)distribution.total);
    }
}

void report_distributions(const struct stage *stage, const char *prefix)
{
    FILE *file = create(stage->name, ".dat");
    for (unsigned i = 0; i < stage->entrant_count; i++)
        if (strncmp(stage->entrants[i].label, prefix, strlen(prefix)) == 0)
            write_distribution(file, &stage->entrants[i]);
    fclose(file);
}

static void add_target(const char *name, struct estimate value, double limit, bool at_least)
{
    if (target_count == TARGETS_MAX)
        die("more than %d targets", TARGETS_MAX);
    struct target *target = &targets[target_count++];
    *target = (struct target){.value = value, .limit = limit, .at_least = at_least};
    snprintf(target->name, sizeof target->name, "%s", name);
}

void target_at_most(const char *name, struct estimate value, double limit)
{
    add_target(name, value, limit, false);
}

void target_at_least(const char *name, struct estimate value, double limit)
{
    add_target(name, value, limit, true);
}

void report_conduct(const struct stage *stage)
{
    char name[64];
    uint64_t failures = 0;
    for (unsigned i = 0; i < stage->entrant_count; i++)
        failures += entrant_failures(stage, &stage->entrants[i]);
    if (stage->entrant_count > 0 && stage->round_count > 0) {
        snprintf(name, sizeof name, "failed-locks/%s", stage->name);
        target_at_most(name, estimate_exact((double)failures), 0);
    }
    snprintf(name, sizeof name, "left-over-keys/%s", stage->name);
    target_at_most(name, estimate_exact((double)stage->left_over_keys), 0);
}

/* NaN means that the value was not measured, which is a miss too. */
static const char *verdict(const struct target *target)
{
    const struct estimate *value = &target->value;
    if (target->at_least ? value->value >= target->limit : value->value <= target->limit)
        return "ok";
    return (target->at_least ? value->high >= target->limit : value->low <= target->limit) ? "noisy" : "MISS";
}

static bool missed(const struct target *target)
{
    return strcmp(verdict(target), "MISS") == 0;
}

static void json_target(const struct target *target)
{
    json_open(&json, NULL, '{');
    json_text(&json, "name", target->name);
    json_estimate("value", target->value);
    json_text(&json, "limit_is", target->at_least ? "least" : "most");
    json_number(&json, "limit", target->limit);
    json_text(&json, "verdict", verdict(target));
    json_close(&json, '}');
}

unsigned report_close(bool print_targets)
{
    unsigned misses = 0;
    close_group();
    json_close(&json, ']');
    json_open(&json, "targets", '[');
    for (unsigned i = 0; i < target_count; i++) {
        json_target(&targets[i]);
        misses += missed(&targets[i]);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    fputc('\n', json.file);
    if (fclose(json.file) != 0)
        die("cannot write bench.json: %s", strerror(errno));
    if (print_targets)
        printf("\n");
    for (unsigned i = 0; print_targets && i < target_count; i++)
        printf("target %s %.3f %.3f %s\n", targets[i].name, targets[i].value.value, targets[i].limit,
               verdict(&targets[i]));
    return misses;
}
