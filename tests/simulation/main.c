/* sim: runs worlds until the given number of operations has been simulated. See scripts/sim.sh and docs/testing.md. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

/* A run of this many operations meets each situation. */
#define ALL_MET 40000

struct choice {
    unsigned long long seed;
    unsigned long long operations;
    bool one_world; /* the seed is that of one world */
    bool tracing;
    bool boundary; /* also run each class beyond the assumptions */
    enum sim_beyond beyond;
    uint32_t without;
};

static uint32_t left_out; /* faults; of all worlds of this run */

static void print_replay(unsigned long long seed, enum sim_beyond beyond)
{
    const char *between = " --without ";
    printf("again: scripts/sim.sh --world %llu --trace%s%s", seed, beyond ? " --beyond " : "",
           beyond ? sim_beyond_names[beyond] : "");
    for (unsigned fault = 0; fault < SIM_FAULTS; fault++)
        if (left_out & 1u << fault) {
            printf("%s%s", between, sim_fault_names[fault]);
            between = ",";
        }
    printf("\n");
}

static void report_failure(unsigned long long seed, const struct choice *choice, const struct sim_violation *violation)
{
    printf("\nBROKEN: %s, in world %llu after %llu operations, at %.6f s:\n  %s\n",
           sim_invariant_names[violation->invariant], seed, violation->operations,
           (double)(violation->at - QUORUM_SECOND) / 1e9, violation->text);
    print_replay(seed, choice->beyond);
}

/* ---------------------------------------------------------------------------------------------------------- reports */

static bool draws_kinds(const struct choice *choice)
{
    return !choice->one_world && !choice->beyond && !choice->without;
}

/* Returns false if a long run of all kinds of worlds has not met each situation, unless a violation has ended it. */
static bool print_summary(const struct choice *choice, const struct sim_totals *totals, bool sound)
{
    bool met = true;
    printf("seed %llu: %llu operations in %llu worlds, %llu locks\n ", choice->seed, totals->operations, totals->worlds,
           totals->acquired);
    for (unsigned i = 0; i < SIM_SITUATIONS; i++) {
        printf("%s %s %llu", i ? ";" : "", sim_situation_names[i], totals->met[i]);
        met = met && totals->met[i];
    }
    met = met || !sound || !draws_kinds(choice) || totals->operations < ALL_MET;
    printf("\n%s", met ? "" : "BROKEN: this run shows none of a situation\n");
    return met;
}

/* ---------------------------------------------------------------------------------------------------------- running */

/* A boundary that few worlds show is looked for in more of them. */
static bool is_enough(const struct choice *choice, const struct sim_totals *totals)
{
    bool is_shown = !choice->boundary || !choice->beyond || totals->violations[SIM_EXCLUSION];
    return totals->operations >= (is_shown ? 1 : 8) * choice->operations;
}

static bool has_faults(const struct sim_config *config, enum sim_fault one, enum sim_fault other)
{
    return config->faults & 1u << one && config->faults & 1u << other;
}

/* Worlds of these kinds take turns, because what rules are made for is rare in others. */
static bool is_of_kind(const struct sim_config *config, unsigned long long kind)
{
    switch (kind % 8) {
    case 0: /* renewals on a master that was promoted a moment ago */
        return config->brisk && config->faults & 1u << SIM_FAULT_ELECT;
    case 1: /* readers with different ttls */
        return config->shared > 300 && config->slots > 1 && !config->idle && !config->differ;
    case 2: /* clocks that jump while no client looks */
        return config->idle && config->faults & 1u << SIM_FAULT_JUMP;
    case 3: /* releases before the end of at_least_ms, permits */
        return config->permits && config->least > 250;
    case 4: /* heals whose connection breaks */
    case 6:
        return has_faults(config, SIM_FAULT_BREAK, SIM_FAULT_RESTART) && config->hold > 20 * QUORUM_MILLISECOND;
    case 5: /* hand-overs after a node forgot, undos after its restart */
        return config->resources == 1 && config->processes > 4 &&
               has_faults(config, SIM_FAULT_RESTART, SIM_FAULT_FLUSH);
    default:
        return true;
    }
}

/* Returns false if a guarantee was broken. */
static bool run_worlds(const struct choice *choice, struct sim_totals *totals)
{
    uint64_t seeds = random_stream(choice->seed, 0);
    while (!is_enough(choice, totals)) {
        struct sim_config config;
        unsigned long long seed = choice->one_world ? choice->seed : next_random(&seeds);
        sim_config_draw(&config, seed, choice->beyond, choice->without);
        if (draws_kinds(choice) && !is_of_kind(&config, totals->worlds))
            continue;
        struct sim_violation violation = sim_run(seed, &config, choice->tracing, totals);
        if (violation.invariant) {
            report_failure(seed, choice, &violation);
            return false;
        }
        if (choice->one_world)
            break;
    }
    return true;
}

/* Measures how far the guarantees hold beyond their assumptions. Returns false if one was broken that must hold. */
static bool run_boundary(const struct choice *given)
{
    bool sound = true;
    printf("\nbeyond the assumptions, each by itself: operations, locks taken, times that two had one lock, tokens out "
           "of order\n");
    for (unsigned beyond = SIM_WITHIN; beyond < SIM_BEYONDS; beyond++) {
        struct choice choice = *given;
        struct sim_totals totals = {0};
        choice.beyond = (enum sim_beyond)beyond;
        sound = run_worlds(&choice, &totals) && sound;
        printf("  %-10s %9llu %9llu %9llu %9llu\n", sim_beyond_names[beyond], totals.operations, totals.acquired,
               totals.violations[SIM_EXCLUSION], totals.violations[SIM_FENCING]);
        fflush(stdout);
        if (beyond && !totals.violations[SIM_EXCLUSION]) {
            printf("  nothing broke: this does not show the boundary; more operations may\n");
            sound = false;
        }
    }
    return sound;
}

/* An assertion of the library failed. The library asserts its own assumptions. */
static void on_abort(int signal)
{
    (void)signal;
    printf("\nBROKEN: an assertion, in world %llu\n", sim_world->seed);
    print_replay(sim_world->seed, sim_world->config.beyond);
    fflush(stdout);
}

/* -------------------------------------------------------------------------------------------------------- arguments */

static int fail(const char *what, const char *value)
{
    fprintf(stderr, "sim: '%s' is no %s; scripts/sim.sh lists the options\n", value, what);
    exit(2);
}

static unsigned long long number(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || !*text)
        fail("number", text);
    return value;
}

static unsigned index_of(const char *const *names, unsigned count, const char *name, const char *what)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return (unsigned)fail(what, name);
}

static void read_option(struct choice *choice, int option)
{
    switch (option) {
    case 'w':
    case 's':
        choice->one_world = option == 'w';
        choice->seed = number(optarg);
        return;
    case 'o':
        choice->operations = number(optarg);
        return;
    case 't':
        choice->tracing = true;
        return;
    case 'B':
        choice->boundary = true;
        return;
    case 'b':
        choice->beyond = index_of(sim_beyond_names, SIM_BEYONDS, optarg, "class");
        return;
    case 'x':
        for (char *name = strtok(optarg, ","); name; name = strtok(NULL, ","))
            choice->without |= 1u << index_of(sim_fault_names, SIM_FAULTS, name, "fault");
        return;
    case 'H':
        sim_history = history_open(optarg);
        if (sim_history < 0)
            fail("file that can be written", optarg);
        return;
    case 'C':
        sim_commands = fopen(optarg, "we");
        if (!sim_commands)
            fail("file that can be written", optarg);
        return;
    case 'I':
        sim_identity = strlen(optarg) == 80 ? optarg : (fail("run_id and master_replid", optarg), NULL);
        return;
    default:
        exit(2);
    }
}

static void read_arguments(struct choice *choice, int count, char **arguments)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"operations", required_argument, NULL, 'o'},
                                            {"world", required_argument, NULL, 'w'},
                                            {"trace", no_argument, NULL, 't'},
                                            {"beyond", required_argument, NULL, 'b'},
                                            {"boundary", no_argument, NULL, 'B'},
                                            {"without", required_argument, NULL, 'x'},
                                            {"history", required_argument, NULL, 'H'},
                                            {"commands", required_argument, NULL, 'C'},
                                            {"identity", required_argument, NULL, 'I'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;)
        read_option(choice, option);
}

int main(int count, char **arguments)
{
    struct choice choice = {.seed = 1, .operations = 100000};
    read_arguments(&choice, count, arguments);
    left_out = choice.without;
    signal(SIGABRT, on_abort);
    struct sim_totals totals = {0};
    bool sound = choice.boundary ? run_boundary(&choice) : run_worlds(&choice, &totals);
    if (!choice.boundary)
        sound = print_summary(&choice, &totals, sound) && sound;
    sim_scripts_close();
    return sound ? 0 : 1;
}
