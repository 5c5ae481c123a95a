/* The phases of a world: a storm of faults, a calm in which all activity must settle, and the end. */
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/fixture.h"

struct sim_world *sim_world;

/* ----------------------------------------------------------------------------------------------------------- events */

static bool is_sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_at(quorum_time at, void (*happen)(void *subject, uint64_t datum), void *subject, uint64_t datum)
{
    struct sim_events *events = &sim_world->events;
    if (events->count == events->capacity) {
        events->capacity = events->capacity ? 2 * events->capacity : 256;
        events->heap = fixture_reallocate(events->heap, events->capacity * sizeof *events->heap);
    }
    const struct sim_event event = {at < sim_world->now ? sim_world->now : at, ++events->order, happen, subject, datum};
    size_t i = events->count++;
    for (; i > 0 && is_sooner(&event, &events->heap[(i - 1) / 2]); i = (i - 1) / 2)
        events->heap[i] = events->heap[(i - 1) / 2];
    events->heap[i] = event;
}

static struct sim_event take_first(struct sim_events *events)
{
    struct sim_event first = events->heap[0], last = events->heap[--events->count];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < events->count; i = child) {
        if (child + 1 < events->count && is_sooner(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (is_sooner(&last, &events->heap[child]))
            break;
        events->heap[i] = events->heap[child];
    }
    events->heap[i] = last;
    return first;
}

/* ------------------------------------------------------------------------------------------------------------ plans */

static unsigned draw_nodes(uint64_t *random)
{
    static const unsigned char likely[] = {1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 7};
    return likely[random_below(random, sizeof likely)];
}

static void draw_times(struct sim_config *config, uint64_t *random)
{
    static const uint32_t max_ttls[] = {500, 2000, 5000, 30000};
    config->max_ttl_ms = max_ttls[random_below(random, 4)];
    for (unsigned i = 0; i < 3; i++)
        config->ttl_ms[i] = (uint32_t)random_log(random, 100, config->max_ttl_ms);
    config->think = random_log(random, 500 * QUORUM_MICROSECOND, 100 * QUORUM_MILLISECOND);
    config->hold = random_log(random, 100 * QUORUM_MICROSECOND, config->ttl_ms[0] * QUORUM_MILLISECOND / 4);
    config->delay = random_log(random, 20 * QUORUM_MICROSECOND, 2 * QUORUM_MILLISECOND);
    config->jitter = random_log(random, 10 * QUORUM_MICROSECOND, 5 * QUORUM_MILLISECOND);
    config->tail = random_chance(random, 500) ? 0 : (unsigned)random_log(random, 1, 30);
}

/* A node that may have lost keys grants nothing for max_ttl. If this happened more often, the clients would acquire
 * nothing. */
static quorum_duration quarantine_of(const struct sim_config *config)
{
    return config->max_ttl_ms * QUORUM_MILLISECOND * 11 / 10 + (config->groups ? 9 : 3) * QUORUM_SECOND;
}

static void draw_faults(struct sim_config *config, uint64_t *random)
{
    const quorum_duration forgetting = quarantine_of(config) / config->nodes;
    for (unsigned fault = 0; fault < SIM_FAULT_FOREIGN; fault++) {
        config->faults |= random_chance(random, 350) ? 1u << fault : 0;
        config->fault_every[fault] = random_log(random, 100 * QUORUM_MILLISECOND, 10 * QUORUM_SECOND);
    }
    config->fault_every[SIM_FAULT_RESTART] = random_log(random, forgetting, 8 * forgetting);
    config->fault_every[SIM_FAULT_PROMOTE] = random_log(random, forgetting, 8 * forgetting);
    for (unsigned fault = SIM_FAULT_FLUSH; fault <= SIM_FAULT_EVICT; fault++)
        config->fault_every[fault] = random_log(random, forgetting, 8 * forgetting);
}

static void draw_kinds(struct sim_config *config, uint64_t *random)
{
    config->shared = random_chance(random, 500) ? 0 : random_below(random, 1001);
    config->several = random_chance(random, 500) || config->resources < 2 ? 0 : random_below(random, 601);
    config->permits = random_chance(random, 700) ? 0 : (unsigned)random_between(random, 2, 4);
}

/* The fault that shows a boundary must be frequent enough. */
static void go_beyond(struct sim_config *config)
{
    const uint32_t forgetting = 1u << SIM_FAULT_RESTART;
    config->faults |= 1u << (SIM_FAULTS + config->beyond);
    config->fault_every[SIM_FAULTS + config->beyond] = 400 * QUORUM_MILLISECOND;
    if (config->beyond == SIM_BEYOND_UNGUARDED || config->beyond == SIM_BEYOND_MAX_TTL) {
        config->faults |= forgetting;
        config->fault_every[SIM_FAULT_RESTART] = 300 * QUORUM_MILLISECOND;
    }
    if (config->beyond == SIM_BEYOND_RATE || config->beyond == SIM_BEYOND_JUMP)
        config->hold = config->ttl_ms[0] * QUORUM_MILLISECOND; /* until the nodes' clocks are ahead */
    if (config->beyond == SIM_BEYOND_MAX_TTL) {
        config->max_ttl_ms = 20000;
        config->ttl_ms[0] = 500;
        config->ttl_ms[1] = config->ttl_ms[2] = 20000;
    }
}

/* Short locks, and long ones that outlive the quarantine of a client that knows only the short ones. A new client that
 * reaches only nodes that forgot cannot know another client's max_ttl, so no client is new. */
static void let_differ(struct sim_config *config)
{
    config->differ = true;
    config->max_ttl_ms = config->ttl_ms[1] = config->ttl_ms[2] = 5000;
    config->ttl_ms[0] = 200;
    config->hold = 2 * QUORUM_SECOND;
    config->faults &= ~(1u << SIM_FAULT_CRASH | 1u << SIM_FAULT_CLOSE);
    config->faults |= 1u << SIM_FAULT_RESTART;
    config->fault_every[SIM_FAULT_RESTART] = QUORUM_SECOND;
}

/*
 * Locks that are held for long, by clients that come back after up to minutes. What the nodes lose meanwhile no client
 * sees. A clock may jump if all clients have a sample of it from before; a new client has none, so no client is new.
 */
static void be_idle(struct sim_config *config, uint64_t *random)
{
    static const enum sim_fault losses[] = {SIM_FAULT_FLUSH, SIM_FAULT_FAILOVER, SIM_FAULT_SWAP, SIM_FAULT_EVICT,
                                            SIM_FAULT_RESTART};
    bool jump = random_chance(random, 400);
    config->idle = true;
    config->max_ttl_ms = jump ? 30000 : random_chance(random, 500) ? 2000 : 5000;
    config->ttl_ms[0] = config->ttl_ms[1] = config->ttl_ms[2] = config->max_ttl_ms;
    config->think = random_log(random, 2 * QUORUM_SECOND, 30 * QUORUM_SECOND);
    config->hold = config->max_ttl_ms * QUORUM_MILLISECOND / 2;
    config->resources = (unsigned)random_between(random, 1, 2);
    config->operations = (unsigned)random_between(random, 100, 400);
    for (unsigned i = 0; i < sizeof losses / sizeof *losses; i++) {
        config->faults |= random_chance(random, 500) ? 1u << losses[i] : 0;
        config->fault_every[losses[i]] = random_log(random, 1, 8) * quarantine_of(config) / config->nodes;
    }
    config->faults |= 1u << SIM_FAULT_PAUSE;
    config->fault_every[SIM_FAULT_PAUSE] = 10 * QUORUM_SECOND;
    if (!jump)
        return;
    config->processes = config->processes < 3 ? config->processes : 3;
    config->think = random_between(random, 5, 30) * QUORUM_SECOND;
    config->slots = 1;
    config->faults |= 1u << SIM_FAULT_JUMP;
    config->faults &= ~(1u << SIM_FAULT_CRASH | 1u << SIM_FAULT_CLOSE);
    config->fault_every[SIM_FAULT_JUMP] = QUORUM_SECOND;
}

/* Locks that are held for several ttls, by clients that rarely wait, on nodes that are healthy for long enough to be heard,
 * and sent the renewals, in turn. A client that pauses loses its lock to one that waits for it. */
static void hold_long(struct sim_config *config, uint64_t *random)
{
    const quorum_duration rarely = random_log(random, 20 * QUORUM_SECOND, 200 * QUORUM_SECOND);
    const uint32_t ttls_ms[] = {3000, 5000, 10000};
    config->max_ttl_ms = ttls_ms[random_below(random, 3)];
    config->ttl_ms[0] = config->ttl_ms[1] = config->ttl_ms[2] = config->max_ttl_ms;
    config->think = config->max_ttl_ms * QUORUM_MILLISECOND;
    config->hold = 2 * config->think;
    config->processes = config->processes < 4 ? config->processes : 4;
    config->slots = 1;
    config->resources = 2;
    config->operations = (unsigned)random_between(random, 60, 120);
    config->faults &= random_below(random, UINT32_MAX) | 1u << SIM_FAULT_PAUSE;
    for (unsigned fault = 0; fault < SIM_FAULTS; fault++)
        if (config->fault_every[fault] < rarely)
            config->fault_every[fault] = rarely;
}

bool sim_config_is_idle(const struct sim_config *config, unsigned process)
{
    return config->idle && (process % 3 || config->faults & 1u << SIM_FAULT_JUMP);
}

/* While a client that is cut off still counts an old master, a key there ends whose lock the new one prolongs. */
static void be_brisk(struct sim_config *config, uint64_t *random)
{
    config->brisk = true;
    config->max_ttl_ms = random_chance(random, 500) ? 1000 : 2000;
    for (unsigned i = 0; i < 3; i++)
        config->ttl_ms[i] = (uint32_t)random_log(random, 300, 1000);
    config->resources = 1;
    config->think = 5 * QUORUM_MILLISECOND;
    config->hold = random_log(random, QUORUM_SECOND, 4 * QUORUM_SECOND);
    config->fault_every[SIM_FAULT_ELECT] = QUORUM_SECOND / config->nodes;
}

/* Faults of single servers, and without failovers, are those of the other worlds. */
static void put_behind_sentinels(struct sim_config *config, uint64_t *random)
{
    const uint32_t others = 1u << SIM_FAULT_RESTART | 1u << SIM_FAULT_PROMOTE | 1u << SIM_FAULT_FLUSH |
                            1u << SIM_FAULT_FAILOVER | 1u << SIM_FAULT_SWAP | 1u << SIM_FAULT_EVICT;
    const unsigned most = SIM_NODES_MAX / (2 + SIM_SENTINELS);
    if (!random_chance(random, 200) || config->beyond || config->differ || config->idle)
        return;
    config->groups = true;
    /* With one node its old master is enough for a lock. */
    config->nodes = random_chance(random, 500) ? 1 : config->nodes < most ? config->nodes : most;
    config->faults = (config->faults & ~others) | 1u << SIM_FAULT_ELECT;
    /* A lock may be renewed on an old master for longer than the new one's quarantine. */
    if (random_chance(random, 400))
        config->hold = random_log(random, QUORUM_SECOND, 2 * quarantine_of(config));
    config->fault_every[SIM_FAULT_ELECT] =
        random_log(random, 2 * QUORUM_SECOND, 2 * quarantine_of(config)) / config->nodes;
    if (random_chance(random, 500))
        be_brisk(config, random);
}

void sim_config_draw(struct sim_config *config, uint64_t seed, enum sim_beyond beyond, uint32_t without)
{
    uint64_t groups = random_stream(seed, 6), least = random_stream(seed, 7);
    uint64_t holders = random_stream(seed, 8);
    uint64_t random = random_stream(seed, 1);
    memset(config, 0, sizeof *config);
    config->beyond = beyond;
    config->nodes = draw_nodes(&random);
    config->processes = (unsigned)random_between(&random, 2, SIM_PROCESSES_MAX);
    bool contended = random_chance(&random, 700);
    config->resources = (unsigned)random_between(&random, 1, contended ? SIM_CONTENDED : SIM_RESOURCES_MAX);
    config->slots = (unsigned)random_between(&random, 1, SIM_SLOTS_MAX);
    config->operations = (unsigned)random_between(&random, 300, 1500);
    config->fence = random_chance(&random, 400) ? 0 : random_below(&random, 1001);
    config->exact_walls = random_chance(&random, 500);
    draw_times(config, &random);
    draw_faults(config, &random);
    draw_kinds(config, &random);
    config->faults |= random_chance(&random, 350) ? 1u << SIM_FAULT_FOREIGN : 0;
    config->fault_every[SIM_FAULT_FOREIGN] = random_log(&random, 20 * QUORUM_MILLISECOND, 5 * QUORUM_SECOND);
    go_beyond(config);
    if (beyond == SIM_WITHIN && random_chance(&random, 200))
        let_differ(config);
    else if (beyond == SIM_WITHIN && random_chance(&random, 250))
        be_idle(config, &random);
    if (config->idle && !(config->faults & 1u << SIM_FAULT_JUMP) && random_chance(&holders, 500))
        hold_long(config, &holders);
    put_behind_sentinels(config, &groups);
    config->least = random_chance(&least, 700) ? 0 : random_below(&least, 501);
    config->faults &= ~without;
}

bool sim_config_is_short(const struct sim_config *config, unsigned process)
{
    return (config->differ || config->beyond == SIM_BEYOND_MAX_TTL) && process % 2;
}

/* ----------------------------------------------------------------------------------------------------------- phases */

enum phase { STORM, CALM, SETTLE, PROBE, CLOSING, OVER };

#define TICK       (20 * QUORUM_MILLISECOND)
#define STORM_MOST (60 * QUORUM_SECOND)
#define IDLE_MOST  (20 * STORM_MOST)

/* By then the heartbeat of an idle client has found the links that broke without notice, and every lock of a client that died
 * has expired. A jump that it finds so is on the node's marker, and the heartbeat of another idle client finds it there within the
 * same time again. */
#define LINKS_SEEN (65 * QUORUM_SECOND)
#define JUMPS_SEEN (2 * LINKS_SEEN)

static struct {
    enum phase phase;
    quorum_time since;
    quorum_time calm_since;
    unsigned probed; /* number of resources probed, then the two readers together */
} course;

static void enter(enum phase phase)
{
    course.phase = phase;
    course.since = sim_world->now;
}

static bool is_at_rest(void)
{
    for (unsigned i = 0; i < sim_world->config.processes; i++)
        if (!sim_agent_is_at_rest(&sim_world->processes[i]) || !sim_world->processes[i].alive)
            return false;
    return true;
}

static bool is_within(void)
{
    return sim_world->config.beyond == SIM_WITHIN;
}

static void calm(void)
{
    if (is_at_rest())
        enter(SETTLE);
    else if (sim_world->now - course.since > quarantine_of(&sim_world->config) + 60 * QUORUM_SECOND && is_within())
        sim_violate(SIM_LIVE, "%llu operations still wait, long after everything was repaired",
                    (unsigned long long)sim_world->operations_under_way);
    else if (!is_within() && sim_world->now - course.since > quarantine_of(&sim_world->config) + 300 * QUORUM_SECOND)
        enter(OVER);
}

/* at_least_ms begins when the node executes the release, later than the client's by at most the silence limit and a connection. */
#define RELEASE_LATE (4 * QUORUM_SECOND)

/* Waits until links that broke without notice are detected, after the silence limit, and the undos kept for them are
 * sent and executed. */
static void settle(void)
{
    if (sim_world->now - course.calm_since < 6 * QUORUM_SECOND || sim_world->now - course.since < 2 * QUORUM_SECOND)
        return;
    if (sim_world->now < sim_world->kept_until + RELEASE_LATE)
        return;
    if (is_within())
        sim_check_nothing_left();
    enter(is_within() ? PROBE : CLOSING);
}

static bool can_lock(struct sim_process *process)
{
    unsigned usable = 0;
    redlock_node_status status;
    sim_current = process;
    for (unsigned i = 0; i < sim_world->config.nodes; i++)
        usable += redlock_node_status_get(process->client, i, &status) == REDLOCK_OK && status.usable;
    sim_current = NULL;
    return usable > sim_world->config.nodes / 2;
}

static bool is_used(unsigned resource)
{
    const struct sim_config *config = &sim_world->config;
    return resource == SIM_SEMAPHORE ? config->permits > 0 : resource < config->resources;
}

static void probe(void)
{
    struct sim_process *process = &sim_world->processes[0], *other = &sim_world->processes[1];
    if (!is_at_rest() || sim_world->now - course.calm_since < (sim_world->config.idle ? JUMPS_SEEN : LINKS_SEEN))
        return;
    while (course.probed < SIM_NAMES && !is_used(course.probed))
        course.probed++;
    if (course.probed > SIM_NAMES) {
        enter(CLOSING);
    } else if (can_lock(process) && can_lock(other)) {
        bool together = course.probed++ == SIM_NAMES;
        sim_agent_probe(process, together ? 0 : course.probed - 1, together);
        if (together)
            sim_agent_probe(other, 0, true);
    } else if (sim_world->now - course.since > quarantine_of(&sim_world->config) + JUMPS_SEEN + 10 * QUORUM_SECOND) {
        sim_violate(SIM_LIVE, "clients 1 and 2 find no quorum, long after everything was repaired");
    }
}

static void close_all(void)
{
    bool closed = true;
    for (unsigned i = 0; i < sim_world->config.processes; i++) {
        struct sim_process *process = &sim_world->processes[i];
        closed = closed && !process->alive;
        if (process->alive && !process->closing && process->wanted != SIM_CLOSE) {
            process->wanted = SIM_CLOSE;
            sim_process_wake(process, sim_world->now);
        }
    }
    if (closed)
        enter(OVER);
    else if (sim_world->now - course.since > 30 * QUORUM_SECOND)
        sim_violate(SIM_BOUNDED, "a client that is closed has not been for 30 s");
}

static void storm(void)
{
    quorum_duration most = sim_world->config.idle ? IDLE_MOST : STORM_MOST;
    if (sim_world->operations < sim_world->config.operations && sim_world->now <= most)
        return;
    sim_nemesis_rest();
    enter(CALM);
    course.calm_since = sim_world->now;
}

static void tick(void *subject, uint64_t unused)
{
    static void (*const phases[OVER])(void) = {storm, calm, settle, probe, close_all};
    (void)subject;
    (void)unused;
    if (course.phase < OVER)
        phases[course.phase]();
    sim_at(sim_world->now + TICK, tick, NULL, 0);
}

bool sim_is_closing(void)
{
    return course.phase >= CLOSING;
}

/* ----------------------------------------------------------------------------------------------------------- course */

static void begin(uint64_t seed, const struct sim_config *config, bool tracing, struct sim_totals *totals)
{
    struct sim_world *world = fixture_allocate(sizeof *world);
    world->seed = seed;
    world->config = *config;
    world->tracing = tracing;
    world->totals = totals;
    world->check = check_new(SIM_PROMPT / QUORUM_MILLISECOND, 0);
    world->now = QUORUM_SECOND;
    world->network = random_stream(seed, 2);
    world->workload = random_stream(seed, 3);
    world->nemesis = random_stream(seed, 4);
    world->identity = random_stream(seed, 5);
    for (unsigned i = 0; i < SIM_ALL_FAULTS; i++)
        world->fault_streams[i] = random_stream(seed, 100 + i);
    sim_world = world;
    memset(&course, 0, sizeof course);
    sim_script_errors = 0;
    sim_nemesis_start();
    sim_commands_add(0, 0, NULL);
    for (unsigned i = 0; i < config->processes; i++) {
        world->processes[i].index = i;
        world->processes[i].entropy = random_stream(seed, 1000 + i);
        sim_process_start(&world->processes[i]);
    }
    if (world->processes[0].options.guard)
        world->processes[0].wanted = SIM_TRUST; /* a new deployment: its operator trusts it */
    sim_at(world->now, tick, NULL, 0);
}

static void end(void)
{
    struct sim_world *world = sim_world;
    for (unsigned i = 0; i < world->config.processes; i++)
        if (world->processes[i].alive)
            sim_process_end(&world->processes[i]);
    while (world->events.count) {
        struct sim_event event = take_first(&world->events);
        sim_packet_drop(&event);
    }
    for (struct sim_link *link = world->links, *next; link; link = next) {
        next = link->next;
        while (link->references > 1)
            link->references--;
        sim_link_release(link);
    }
    for (unsigned i = 0; i < sim_hosts(); i++) {
        sim_keyspace_clear(&world->nodes[i].server.keys);
        sim_keyspace_clear(&world->nodes[i].snapshot);
        sim_keyspace_clear(&world->nodes[i].other);
        bytes_free(&world->nodes[i].reply);
    }
    for (struct sim_operation *operation = world->all_operations, *next; operation; operation = next) {
        next = operation->next;
        free(operation);
    }
    check_free(world->check);
    free(world->events.heap);
    free(world);
    sim_world = NULL;
}

struct sim_violation sim_run(uint64_t seed, const struct sim_config *config, bool tracing, struct sim_totals *totals)
{
    begin(seed, config, tracing, totals);
    struct sim_world *world = sim_world;
    while (course.phase != OVER && world->violation.invariant == SIM_SOUND) {
        struct sim_event event = take_first(&world->events);
        assert(event.at >= world->now);
        world->now = event.at;
        event.happen(event.subject, event.datum);
    }
    sim_check_history();
    struct sim_violation violation = world->violation;
    totals->worlds++;
    totals->operations += world->operations;
    end();
    return violation;
}

const char *sim_client_name(const struct sim_process *process)
{
    static char name[24];
    snprintf(name, sizeof name, "client %u", process->index + 1);
    return name;
}

const char *sim_node_name(const struct sim_node *node)
{
    static char name[24];
    snprintf(name, sizeof name, "node %u", node->index + 1);
    return name;
}

void sim_trace(const char *who, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    quorum_duration lag = sim_current ? sim_current->lag : 0;
    printf("%12.6f  %-9s ", (double)(sim_world->now + lag - QUORUM_SECOND) / 1e9, who);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}
