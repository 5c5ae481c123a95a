#include "stage.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP_US = 200000, WORDS_MAX = 24 };

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

void entrant_state(const struct entrant *entrant, struct entrant_state *state)
{
    char line[256];
    fprintf(entrant->process->to, "state\n");
    fflush(entrant->process->to);
    process_read_line(entrant->process, line, sizeof line);
    if (sscanf(line, "state resident_kib=%ld allocations=%llu bytes=%llu most_bytes=%llu late_grants=%llu",
               &state->resident_kib, &state->allocations, &state->bytes, &state->most_bytes, &state->late_grants) != 5)
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

void stage_open(struct stage *stage, unsigned count)
{
    servers_start(&stage->servers, count);
    servers_list(&stage->servers, count, stage->nodes);
}

const struct proxy *stage_place(struct stage *stage, const unsigned *round_trips, char *nodes)
{
    struct proxy *proxy = &stage->proxies[stage->proxy_count++];
    proxy_start(proxy, &stage->servers, round_trips, stage->servers.count);
    proxy_list(proxy, 0, stage->servers.count, nodes);
    return proxy;
}

void stage_place_at(struct stage *stage, unsigned round_trip_us, char *nodes)
{
    unsigned round_trips[SERVERS_MAX];
    for (unsigned i = 0; i < stage->servers.count; i++)
        round_trips[i] = round_trip_us;
    stage_place(stage, round_trips, nodes);
}

void contender_start(struct process *process, const char *const *prefix, const char *program, const char *nodes)
{
    char path[PATH_MAX], line[64], name[64];
    const char *words[WORDS_MAX], *space = strchr(program, ' ');
    unsigned count = 0;
    while (prefix && prefix[count]) {
        words[count] = prefix[count];
        count++;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(program, " "), program);
    words[count++] = process_sibling(name, path, sizeof path);
    words[count++] = nodes;
    if (space)
        words[count++] = space + 1;
    words[count] = NULL;
    process_start(process, words, PROCESS_PIPED);
    process_read_line(process, line, sizeof line);
    if (strcmp(line, "ready") != 0)
        die("%s does not become ready: %s", program, line);
}

struct entrant *stage_enter(struct stage *stage, const char *label, const char *program, const char *nodes,
                            unsigned in_flight)
{
    struct contender *contender = &stage->contenders[stage->process_count];
    struct process *process = &stage->processes[stage->process_count++];
    snprintf(contender->program, sizeof contender->program, "%s", program);
    contender->nodes = nodes;
    contender_start(process, NULL, program, nodes);
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

/* The order of the entrants: a Williams design (Experimental designs balanced for the estimation of residual effects of
 * treatments, 1949). Each is at each position, and right behind each other one, equally often, because an entrant that
 * leaves the processors idle slows the next one. */
static unsigned turn(const struct stage *stage, unsigned round, unsigned position)
{
    unsigned count = stage->entrant_count, half = (position + 1) / 2;
    unsigned zigzag = position % 2 ? count - half : half;
    unsigned place = (zigzag + round) % count;
    return round / count % 2 ? count - 1 - place : place;
}

static void show_progress(const struct stage *stage, unsigned round, unsigned rounds)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s: round %u of %u ", stage->name, round, rounds);
    if (round == rounds)
        fprintf(stderr, "\r%60s\r", "");
}

static void end_contenders(struct stage *stage)
{
    for (unsigned i = 0; i < stage->process_count; i++)
        if (process_finish(&stage->processes[i]) != 0)
            die("a contender of group %s did not end well", stage->name);
}

static void start_again(struct stage *stage)
{
    end_contenders(stage);
    for (unsigned i = 0; i < stage->process_count; i++)
        contender_start(&stage->processes[i], NULL, stage->contenders[i].program, stage->contenders[i].nodes);
    stage_warm_up(stage);
}

void stage_play(struct stage *stage, unsigned rounds, unsigned block_ms)
{
    if (stage->quick)
        rounds = rounds / 4 < 8 ? 8 : rounds / 4;
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    stage->round_count = rounds;
    for (unsigned round = 0; round < rounds; round++) {
        if (stage->fresh_every && round && round % stage->fresh_every == 0)
            start_again(stage);
        for (unsigned position = 0; position < stage->entrant_count; position++) {
            struct entrant *entrant = &stage->entrants[turn(stage, round, position)];
            entrant_block(entrant, block_ms * UINT64_C(1000), 0, &entrant->rounds[round]);
        }
        show_progress(stage, round + 1, rounds);
    }
}

void stage_close(struct stage *stage)
{
    end_contenders(stage);
    stage->process_count = 0;
    for (unsigned i = 0; i < stage->proxy_count; i++)
        proxy_end(&stage->proxies[i]);
    stage->proxy_count = 0;
    if (stage->servers.count == 0)
        return;
    stage->left_over_keys += servers_left_over(&stage->servers);
    servers_end(&stage->servers);
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
