#include "stage.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP_US = 200000 };

double acquire_p50(const struct measurement *measurement)
{
    return (double)measurement->acquire_p50 / 1e3;
}

double acquire_p99(const struct measurement *measurement)
{
    return (double)measurement->acquire_p99 / 1e3;
}

double acquire_worst(const struct measurement *measurement)
{
    return (double)measurement->acquire_worst / 1e3;
}

double both_p50(const struct measurement *measurement)
{
    return (double)measurement->both_p50 / 1e3;
}

double both_p99(const struct measurement *measurement)
{
    return (double)measurement->both_p99 / 1e3;
}

double lock_rate(const struct measurement *measurement)
{
    return (double)measurement->operations * 1e9 / (double)measurement->wall;
}

double cpu_per_lock(const struct measurement *measurement)
{
    return (double)measurement->cpu / 1e3 / (double)measurement->operations;
}

void entrant_block(const struct entrant *entrant, uint64_t microseconds, uint64_t operations,
                   struct measurement *measurement)
{
    char line[512];
    *measurement = (struct measurement){0};
    fprintf(entrant->process->to, "block %u %" PRIu64 " %" PRIu64 "\n", entrant->in_flight, microseconds, operations);
    fflush(entrant->process->to);
    process_read_line(entrant->process, line, sizeof line);
    int fields = sscanf(
        line,
        "block operations=%" SCNu64 " failed=%" SCNu64 " wall=%" SCNu64 " cpu=%" SCNu64 " acquire=%" SCNu64 ",%" SCNu64
        ",%" SCNu64 " both=%" SCNu64 ",%" SCNu64 ",%" SCNu64 " first=%" SCNu64 " again=%" SCNu64,
        &measurement->operations, &measurement->failed, &measurement->wall, &measurement->cpu,
        &measurement->acquire_p50, &measurement->acquire_p99, &measurement->acquire_worst, &measurement->both_p50,
        &measurement->both_p99, &measurement->both_worst, &measurement->first, &measurement->again);
    if (fields != 12)
        die("%s answered '%s'", entrant->label, line);
}

static struct entrant *add(struct stage *stage, const char *label, struct process *process, unsigned in_flight)
{
    if (stage->entrant_count == ENTRANTS_MAX)
        die("group %s: more than %d entrants", stage->name, ENTRANTS_MAX);
    struct entrant *entrant = &stage->entrants[stage->entrant_count++];
    *entrant = (struct entrant){.in_flight = in_flight, .process = process};
    snprintf(entrant->label, sizeof entrant->label, "%s", label);
    return entrant;
}

static void warm_up(const struct entrant *entrant)
{
    struct measurement discarded;
    entrant_block(entrant, WARM_UP_US, 0, &discarded);
}

struct entrant *stage_enter(struct stage *stage, const char *label, const char *program, const char *nodes,
                            unsigned in_flight)
{
    char path[PATH_MAX], line[64];
    process_sibling(program, path, sizeof path);
    const char *arguments[] = {path, nodes, NULL};
    struct process *process = &stage->processes[stage->process_count++];
    process_start(process, arguments, PROCESS_PIPED);
    process_read_line(process, line, sizeof line);
    if (strcmp(line, "ready") != 0)
        die("%s does not become ready: %s", label, line);
    struct entrant *entrant = add(stage, label, process, in_flight);
    warm_up(entrant);
    return entrant;
}

struct entrant *stage_enter_again(struct stage *stage, const char *label, const struct entrant *entrant,
                                  unsigned in_flight)
{
    struct entrant *again = add(stage, label, entrant->process, in_flight);
    warm_up(again);
    return again;
}

void stage_warm_up(struct stage *stage)
{
    for (unsigned i = 0; i < stage->entrant_count; i++)
        warm_up(&stage->entrants[i]);
}

/* The order of the entrants: each is first equally often, and runs before each other one as often as after it. */
static unsigned turn(const struct stage *stage, unsigned round, unsigned position)
{
    unsigned count = stage->entrant_count, place = (position + round / 2) % count;
    return round % 2 ? count - 1 - place : place;
}

static void show_progress(const struct stage *stage, unsigned round, unsigned rounds)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s: round %u of %u ", stage->name, round, rounds);
    if (round == rounds)
        fprintf(stderr, "\r%60s\r", "");
}

void stage_play(struct stage *stage, unsigned rounds, unsigned block_ms)
{
    if (stage->quick)
        rounds = rounds / 4 < 8 ? 8 : rounds / 4;
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    stage->round_count = rounds;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned position = 0; position < stage->entrant_count; position++) {
            struct entrant *entrant = &stage->entrants[turn(stage, round, position)];
            entrant_block(entrant, block_ms * UINT64_C(1000), 0, &entrant->rounds[round]);
        }
        show_progress(stage, round + 1, rounds);
    }
}

void stage_close(struct stage *stage)
{
    for (unsigned i = 0; i < stage->process_count; i++)
        if (process_finish(&stage->processes[i]) != 0)
            die("a contender of group %s did not end well", stage->name);
    stage->process_count = 0;
}

struct estimate entrant_estimate(const struct stage *stage, const struct entrant *entrant, metric_function *metric)
{
    double values[ROUNDS_MAX];
    unsigned count = 0;
    for (unsigned round = 0; round < stage->round_count; round++)
        if (entrant->rounds[round].operations > 0)
            values[count++] = metric(&entrant->rounds[round]);
    return estimate_median(values, count);
}

struct estimate entrant_ratio(const struct stage *stage, const struct entrant *entrant, const struct entrant *base,
                              metric_function *metric)
{
    double values[ROUNDS_MAX];
    unsigned count = 0;
    for (unsigned round = 0; round < stage->round_count; round++)
        if (entrant->rounds[round].operations > 0 && base->rounds[round].operations > 0)
            values[count++] = metric(&entrant->rounds[round]) / metric(&base->rounds[round]);
    return estimate_median(values, count);
}

uint64_t entrant_failures(const struct stage *stage, const struct entrant *entrant)
{
    uint64_t failures = 0;
    for (unsigned round = 0; round < stage->round_count; round++)
        failures += entrant->rounds[round].failed;
    return failures;
}
