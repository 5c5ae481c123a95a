/*
 * The faults of a world, one row of a table each. Each kind has its own random stream, so that leaving one out does not change
 * the others. A handler returns false if the fault cannot happen now; the fault ends by itself, or when the row's time is over.
 */
#include <stdio.h>

#include "quorum/attest.h"
#include "src/client/client.h"
#include "world.h"

const char *const sim_fault_names[SIM_FAULTS] = {
    "break",  "partition", "hang",  "restart", "promote", "refuse",   "unscript", "pause", "lag",     "crash", "close",
    "cancel", "slow",      "drift", "partial", "flush",   "failover", "swap",     "evict", "foreign", "jump",  "elect"};
const char *const sim_beyond_names[SIM_BEYONDS] = {"within", "rate", "jump", "stop", "unguarded", "max-ttl"};

const char *sim_identity;

static uint64_t *stream(enum sim_fault fault)
{
    return &sim_world->fault_streams[fault];
}

static quorum_duration max_ttl(void)
{
    return sim_world->config.max_ttl_ms * QUORUM_MILLISECOND;
}

static void draw_id(char id[41])
{
    for (size_t i = 0; i < 40; i++)
        id[i] = "0123456789abcdef"[random_below(&sim_world->identity, 16)];
    id[40] = '\0';
}

static void name_run(struct sim_node *node)
{
    draw_id(node->server.run_id);
    draw_id(node->server.replid);
    if (!sim_identity || node->index)
        return;
    memcpy(node->server.run_id, sim_identity, 40);
    memcpy(node->server.replid, sim_identity + 40, 40);
}

/* ------------------------------------------------------------------------------------------------------ connections */

static bool break_link(struct sim_occasion *at)
{
    struct sim_link *link = sim_world->links;
    unsigned count = 0;
    for (struct sim_link *each = link; each; each = each->next)
        count++;
    for (unsigned skip = count ? random_below(at->random, count) : 0; skip > 0; skip--)
        link = link->next;
    bool client_told = random_chance(at->random, 700), server_told = random_chance(at->random, 500);
    if (!link || !link->client_open)
        return false;
    SIM_TRACE(sim_client_name(link->process), "loses a connection to node %u%s%s", link->node->index + 1,
              client_told ? ", and sees it" : "", server_told ? ", which sees it" : "");
    if (!server_told && random_chance(at->random, 500))
        link->held_up_until = sim_world->now + at->time;
    sim_link_cut(link, client_told, server_told);
    return true;
}

void sim_path_block(unsigned process, unsigned host, bool up, bool down, quorum_time until)
{
    struct sim_path *path = &sim_world->paths[process][host];
    if (up && path->up_blocked_until < until)
        path->up_blocked_until = until;
    if (down && path->down_blocked_until < until)
        path->down_blocked_until = until;
}

/* Between a client and a node, or all that is the client's or the node's; both ways, to the node, or to the client. */
static bool partition(struct sim_occasion *at)
{
    const struct sim_config *config = &sim_world->config;
    unsigned host = random_below(at->random, sim_hosts()), extent = random_below(at->random, 3),
             way = random_below(at->random, 3);
    SIM_TRACE("network", "holds up packets between client %u and node %u, extent %u, way %u", at->process->index + 1,
              host + 1, extent, way);
    for (unsigned p = 0; p < config->processes; p++)
        for (unsigned n = 0; n < sim_hosts(); n++)
            if ((p == at->process->index || extent == 1) && (n == host || extent == 2))
                sim_path_block(p, n, way != 2, way != 1, sim_world->now + at->time);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void resume(void *subject, uint64_t incarnation)
{
    struct sim_node *node = subject;
    if (node->hung && node->incarnation == incarnation)
        sim_node_resume(node);
}

void sim_node_restart(struct sim_node *node)
{
    node->up = true;
    node->restarted = sim_world->now;
    name_run(node);
    node->server.last_id = 0; /* it assigns the same connection IDs again */
    node->server.replica = false;
    node->server.history[0] = '\0';
    node->server.evicted = node->server.swaps = 0;
    node->server.scripts = 0;
    SIM_TRACE(sim_node_name(node), "is up, run id %.8s", node->server.run_id);
}

static void come_back(void *subject, uint64_t incarnation)
{
    struct sim_node *node = subject;
    if (!node->up && node->incarnation == incarnation)
        sim_node_restart(node);
}

static bool die(struct sim_node *node, quorum_duration away)
{
    if (!node->up)
        return false;
    sim_node_die(node);
    sim_at(sim_world->now + away, come_back, node, node->incarnation);
    return true;
}

static void recover(void *subject, uint64_t unused)
{
    struct sim_node *node = subject;
    (void)unused;
    node->server.refusal = NULL;
    node->slow = 0;
}

static void save(void *subject, uint64_t unused)
{
    uint64_t *random = &sim_world->nemesis;
    struct sim_node *node = subject;
    (void)unused;
    if (sim_world->calm)
        return;
    if (node->up)
        sim_keyspace_copy(&node->snapshot, &node->server.keys, false);
    sim_at(sim_world->now + random_log(random, 20 * QUORUM_MILLISECOND, 10 * QUORUM_SECOND), save, node, 0);
}

static void name_history(struct sim_node *node)
{
    memcpy(node->server.history, node->server.replid, sizeof node->server.history);
    draw_id(node->server.replid);
}

void sim_node_promote(struct sim_node *node)
{
    node->server.replica = false;
    name_history(node);
}

static void be_promoted(void *subject, uint64_t incarnation)
{
    struct sim_node *node = subject;
    if (node->server.replica && node->incarnation == incarnation)
        sim_node_promote(node);
}

/* Assumed: a synchronization of a replica takes longer than a look at the evidence vouches; the
 * copied data is available when it ends. Evicted is half of the keys, possibly with the marker. */
static bool happen_to_server(struct sim_occasion *at)
{
    static const char *const refusals[] = {
        "LOADING Redis is loading the dataset in memory", "OOM command not allowed when used memory > 'maxmemory'.",
        "BUSY Redis is busy running a script.", "MISCONF Redis is configured to save RDB snapshots"};
    struct sim_node *node = at->node;
    struct sim_server *server = &node->server;
    struct sim_keyspace mine = server->keys;
    unsigned memory = 1, evicted;
    switch (at->fault) {
    case SIM_FAULT_REFUSE:
        server->refusal = refusals[random_below(at->random, 4)];
        return true;
    case SIM_FAULT_SLOW:
        node->slow = random_log(at->random, QUORUM_MILLISECOND, 100 * QUORUM_MILLISECOND);
        return true;
    case SIM_FAULT_UNSCRIPT: /* all of them, or a random part */
        server->scripts &= random_chance(at->random, 500) ? 0 : (uint32_t)next_random(at->random);
        return true;
    case SIM_FAULT_HANG:
        if (!node->up || node->hung)
            return false;
        node->hung = true;
        return true;
    case SIM_FAULT_FLUSH:
        if (node->index == 0)
            sim_commands_add(0, 0, NULL);
        sim_keyspace_clear(&server->keys);
        break;
    case SIM_FAULT_EVICT:
        evicted = sim_keyspace_evict(&server->keys, next_random(at->random));
        server->evicted += evicted;
        memory = evicted;
        break;
    case SIM_FAULT_RESTART: /* with its data, without it, or with an old copy */
        memory = random_below(at->random, 3);
        if (!die(node, at->time))
            return false;
        if (memory == 1)
            sim_keyspace_clear(&server->keys);
        else if (memory == 2)
            sim_keyspace_copy(&server->keys, &node->snapshot, true);
        break;
    case SIM_FAULT_PROMOTE: /* a replica that missed the last writes, on a machine with another clock */
        if (!die(node, at->time))
            return false;
        sim_keyspace_copy(&server->keys, &node->snapshot, true);
        sim_clock_jump(&node->clock, sim_world->now,
                       random_below(at->random, QUORUM_SECOND) - (int64_t)(QUORUM_SECOND / 2));
        break;
    case SIM_FAULT_FAILOVER:
    case SIM_FAULT_SWAP:
        if (!node->up || server->replica)
            return false;
        server->replica = at->fault == SIM_FAULT_FAILOVER;
        if (at->fault == SIM_FAULT_SWAP) {
            server->keys = node->other;
            node->other = mine;
            server->swaps++;
        }
        sim_keyspace_copy(&server->keys, server->replica ? &node->snapshot : &server->keys, true);
        break;
    default:
        return false;
    }
    if (memory)
        sim_node_forgets(node);
    return true;
}

/* The client has a sample of the server's clock, and has dealt with its last jump. */
static bool knows_clock(const struct sim_process *process, const struct sim_node *node)
{
    const struct rl_nodes *nodes = process->client ? process->client->nodes : NULL;
    if (!nodes || strcmp(nodes->node[node->index].server.run_id, node->server.run_id) != 0)
        return false;
    const struct quorum_clock_node *known = &nodes->clock_watch->node[node->index];
    int64_t off = (int64_t)sim_clock_read(&node->clock, sim_world->now) - (int64_t)sim_process_clock(process);
    int64_t most = 3 * (int64_t)QUORUM_SECOND; /* less than a jump */
    return known->known && !known->direction && off > known->offset.low - most && off < known->offset.high + most;
}

/* By more than clocks can drift in a minute. No client has looked for so long that a request from before, whose grant
 * relies on that sample, has timed out. One clock at a time: if a majority jumped, each client would blame its own. */
static bool jump_unseen(struct sim_occasion *at)
{
    const struct sim_config *config = &sim_world->config;
    if (!at->node->up || at->node->hung || sim_world->now - at->node->looked < 4 * QUORUM_SECOND)
        return false;
    for (unsigned i = 0; i < config->processes * config->nodes; i++)
        if (!knows_clock(&sim_world->processes[i / config->nodes], &sim_world->nodes[i % config->nodes]))
            return false;
    sim_world->totals->met[SIM_MET_CLOCK_JUMP]++;
    sim_clock_jump(&at->node->clock, sim_world->now,
                   (int64_t)random_log(at->random, 5 * QUORUM_SECOND, 5 * QUORUM_SECOND + 2 * max_ttl()));
    return true;
}

/* -------------------------------------------------------------------------------------------------- foreign clients */

static void execute(struct sim_node *node, size_t count, const struct resp_argument *words)
{
    struct bytes reply = {0};
    sim_keyspace_execute(&node->server.keys, count, words, sim_node_clock(node), &reply);
    bytes_free(&reply);
}

/* The published pattern's compare-and-delete, on every node that is up. */
static void release_as_foreigner(void *subject, uint64_t number)
{
    const char *name = sim_resource_name(*(unsigned *)subject);
    char token[32];
    snprintf(token, sizeof token, "foreign %llu", (unsigned long long)number);
    for (unsigned i = 0; i < sim_servers(); i++) {
        struct sim_node *node = &sim_world->nodes[i];
        struct resp_argument value;
        if (!node->up || !sim_keyspace_get(&node->server.keys, name, sim_node_clock(node), &value) ||
            !resp_argument_is(&value, token))
            continue;
        execute(node, 2, (const struct resp_argument[]){resp_argument_of("DEL"), resp_argument_of(name)});
    }
}

/* SET NX PX on every node that is up and not a replica, at once. */
static bool hold_as_foreigner(struct sim_occasion *at)
{
    static unsigned names[SIM_RESOURCES_MAX];
    unsigned *name = &names[random_below(at->random, sim_world->config.resources)];
    uint64_t number = next_random(at->random);
    char token[32], ttl[24];
    *name = (unsigned)(name - names);
    snprintf(token, sizeof token, "foreign %llu", (unsigned long long)number);
    snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)random_log(at->random, 50, 3000));
    SIM_TRACE("foreigner", "takes '%s' for %s ms", sim_resource_name(*name), ttl);
    const struct resp_argument words[] = {resp_argument_of("SET"), resp_argument_of(sim_resource_name(*name)),
                                          resp_argument_of(token), resp_argument_of("NX"),
                                          resp_argument_of("PX"),  resp_argument_of(ttl)};
    for (unsigned i = 0; i < sim_servers(); i++)
        if (sim_world->nodes[i].up && !sim_world->nodes[i].server.replica)
            execute(&sim_world->nodes[i], 6, words);
    sim_at(sim_world->now + at->time, release_as_foreigner, name, number);
    return true;
}

/* -------------------------------------------------------------------------------------------------------- processes */

static bool pause_process(struct sim_occasion *at)
{
    if (!at->process->alive || at->process->paused_until > sim_world->now)
        return false;
    bool idle = sim_world->config.idle; /* then a lock is held for long, and only a long pause matters */
    at->time = random_log(at->random, idle ? max_ttl() / 4 : QUORUM_MILLISECOND, max_ttl() + QUORUM_SECOND);
    at->process->paused_until = sim_world->now + at->time;
    sim_check_stalled(at->process, at->process->paused_until);
    return true;
}

static void be_reborn(void *subject, uint64_t life)
{
    struct sim_process *process = subject;
    if (!process->alive && process->life == life)
        sim_process_start(process);
}

void sim_process_replace(struct sim_process *process)
{
    sim_at(sim_world->now + random_log(stream(SIM_FAULT_CRASH), QUORUM_MILLISECOND, QUORUM_SECOND), be_reborn, process,
           process->life);
}

static bool crash(struct sim_occasion *at)
{
    if (!at->process->alive)
        return false;
    if (!at->process->closing)
        sim_check_count(at->process);
    sim_check_excuse(at->process);
    sim_process_end(at->process);
    sim_process_replace(at->process);
    return true;
}

static bool close_client(struct sim_occasion *at)
{
    if (!at->process->alive || at->process->closing)
        return false;
    at->process->wanted = SIM_CLOSE;
    sim_process_wake(at->process, sim_world->now);
    return true;
}

static int64_t draw_rate(uint64_t *random)
{
    return (int64_t)random_below(random, 9000001) - 4500000; /* the rates of two clocks differ by less than 1 % */
}

static bool change_rates(struct sim_occasion *at)
{
    struct sim_clock *clock = &sim_world->nodes[random_below(at->random, sim_world->config.nodes)].clock;
    if (clock->rate == clock->rate_by_itself && sim_world->config.beyond != SIM_BEYOND_RATE) {
        clock->rate_by_itself = draw_rate(at->random);
        sim_clock_turn(clock, sim_world->now, clock->rate_by_itself);
    }
    /* A process' last action may be ahead of the world's time. If its clock slowed down before that action, it would
     * run backwards. */
    if (at->process->clock.rate == SIM_STOPPED || at->process->busy_until > sim_world->now)
        return false;
    at->process->clock.rate_by_itself = draw_rate(at->random);
    sim_clock_turn(&at->process->clock, sim_world->now, at->process->clock.rate_by_itself);
    sim_check_clock(at->process);
    sim_process_alarm_moved(at->process);
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- beyond */

static bool jump(struct sim_occasion *at)
{
    int64_t by = (int64_t)random_log(at->random, 10 * QUORUM_MILLISECOND, 2 * max_ttl());
    sim_clock_jump(&at->node->clock, sim_world->now, random_chance(at->random, 700) ? by : -by);
    return true;
}

static void start_clock(void *subject, uint64_t unused)
{
    struct sim_process *process = subject;
    (void)unused;
    if (process->clock.rate != SIM_STOPPED)
        return;
    sim_clock_turn(&process->clock, sim_world->now, process->clock.rate_by_itself);
    sim_check_clock(process);
    sim_process_alarm_moved(process);
}

static bool stop_clock(struct sim_occasion *at)
{
    if (at->process->clock.rate == SIM_STOPPED || !at->process->alive || at->process->busy_until > sim_world->now)
        return false;
    at->time = random_log(at->random, 10 * QUORUM_MILLISECOND, 2 * max_ttl());
    sim_clock_turn(&at->process->clock, sim_world->now, SIM_STOPPED);
    if (at->process->paused_until < sim_world->now + at->time)
        at->process->paused_until = sim_world->now + at->time;
    sim_check_stalled(at->process, at->process->paused_until);
    sim_at(sim_world->now + at->time, start_clock, at->process, 0);
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- course */

#define MS(number) ((number)*QUORUM_MILLISECOND)

static const struct {
    bool (*happen)(struct sim_occasion *at);
    quorum_duration least, most;                      /* how long; 0: at once */
    void (*end)(void *subject, uint64_t incarnation); /* then */
} faults[SIM_ALL_FAULTS] = {
    [SIM_FAULT_BREAK] = {break_link, MS(1), MS(2000), NULL},
    [SIM_FAULT_PARTITION] = {partition, MS(5), MS(3000), NULL},
    [SIM_FAULT_HANG] = {happen_to_server, MS(10), MS(4000), resume},
    [SIM_FAULT_RESTART] = {happen_to_server, MS(1), MS(2000), NULL},
    [SIM_FAULT_PROMOTE] = {happen_to_server, MS(1), MS(500), NULL},
    [SIM_FAULT_REFUSE] = {happen_to_server, MS(1), MS(2000), recover},
    [SIM_FAULT_UNSCRIPT] = {happen_to_server, 0, 0, NULL},
    [SIM_FAULT_PAUSE] = {pause_process, 0, 0, NULL},
    [SIM_FAULT_CRASH] = {crash, 0, 0, NULL},
    [SIM_FAULT_CLOSE] = {close_client, 0, 0, NULL},
    [SIM_FAULT_SLOW] = {happen_to_server, MS(10), MS(1000), recover},
    [SIM_FAULT_DRIFT] = {change_rates, 0, 0, NULL},
    [SIM_FAULT_FLUSH] = {happen_to_server, 0, 0, NULL},
    [SIM_FAULT_FAILOVER] = {happen_to_server, QUORUM_LOOK_LASTS + MS(1), QUORUM_LOOK_LASTS + MS(1000), be_promoted},
    [SIM_FAULT_SWAP] = {happen_to_server, 0, 0, NULL},
    [SIM_FAULT_EVICT] = {happen_to_server, 0, 0, NULL},
    [SIM_FAULT_FOREIGN] = {hold_as_foreigner, MS(1), MS(2000), NULL},
    [SIM_FAULT_JUMP] = {jump_unseen, 0, 0, NULL},
    [SIM_FAULT_ELECT] = {sim_group_elect, 0, 0, NULL},
    [SIM_FAULTS + SIM_BEYOND_JUMP] = {jump, 0, 0, NULL},
    [SIM_FAULTS + SIM_BEYOND_STOP] = {stop_clock, 0, 0, NULL},
};

static void happen(unsigned fault, uint64_t *random)
{
    struct sim_occasion at = {.fault = fault,
                              .node = &sim_world->nodes[random_below(random, sim_world->config.nodes)],
                              .process = &sim_world->processes[random_below(random, sim_world->config.processes)],
                              .random = random,
                              .time =
                                  faults[fault].most ? random_log(random, faults[fault].least, faults[fault].most) : 0};
    if (!faults[fault].happen(&at))
        return;
    SIM_TRACE("nemesis", "%s (node %u or client %u), %.0f ms",
              fault < SIM_FAULTS ? sim_fault_names[fault] : sim_beyond_names[fault - SIM_FAULTS], at.node->index + 1,
              at.process->index + 1, (double)at.time / 1e6);
    if (faults[fault].end)
        sim_at(sim_world->now + at.time, faults[fault].end, at.node, at.node->incarnation);
}

static void befall(void *subject, uint64_t fault)
{
    uint64_t *random = &sim_world->fault_streams[fault];
    quorum_duration every = sim_world->config.fault_every[fault];
    /* First every client reads the largest max_ttl of all. */
    quorum_duration peace = sim_world->config.differ && !subject ? 3 * QUORUM_SECOND : 0;
    if (sim_world->calm)
        return;
    if (subject)
        happen((unsigned)fault, random);
    sim_at(sim_world->now + peace + random_between(random, 1, 2 * every), befall, sim_world, fault);
}

static void set_clock(struct sim_clock *clock, quorum_time shown)
{
    uint64_t *random = stream(SIM_FAULT_DRIFT);
    clock->since = sim_world->now;
    clock->shown = shown;
    clock->rate = clock->rate_by_itself = sim_world->config.faults & 1u << SIM_FAULT_DRIFT ? draw_rate(random) : 0;
}

static void set_clocks(void)
{
    struct sim_world *world = sim_world;
    uint64_t *random = stream(SIM_FAULT_DRIFT);
    for (unsigned i = 0; i < sim_hosts(); i++) {
        struct sim_clock *clock = &world->nodes[i].clock;
        set_clock(clock, UINT64_C(1700000000) * QUORUM_SECOND + random_below(random, QUORUM_SECOND));
        if (world->config.beyond == SIM_BEYOND_RATE && i <= world->config.nodes / 2)
            clock->rate = clock->rate_by_itself = (int64_t)random_between(&world->nemesis, 20000000, 500000000);
    }
    for (unsigned i = 0; i < world->config.processes; i++) {
        struct sim_process *process = &world->processes[i];
        set_clock(&process->clock, QUORUM_SECOND + random_between(random, 0, 1000 * QUORUM_SECOND));
        process->wall_offset = world->config.exact_walls ? 0 : random_below(random, QUORUM_SECOND);
    }
}

void sim_nemesis_start(void)
{
    struct sim_world *world = sim_world;
    set_clocks();
    for (unsigned i = 0; i < sim_hosts(); i++) {
        struct sim_node *node = &world->nodes[i];
        node->index = i;
        node->up = true;
        node->server.hooks = &sim_node_hooks;
        node->server.evicts = world->config.faults & 1u << SIM_FAULT_EVICT;
        name_run(node);
        if (i < sim_servers())
            save(node, 0);
    }
    sim_groups_start();
    for (unsigned fault = 0; fault < SIM_ALL_FAULTS; fault++)
        if (world->config.faults & 1u << fault && faults[fault].happen)
            befall(NULL, fault);
}

void sim_nemesis_rest(void)
{
    struct sim_world *world = sim_world;
    SIM_TRACE("world", "is calm from now on");
    world->calm = true;
    for (unsigned i = 0; i < world->config.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        recover(node, 0);
        if (!world->config.groups) {
            be_promoted(node, node->incarnation);
            come_back(node, node->incarnation);
        }
        if (node->hung)
            sim_node_resume(node);
    }
    sim_groups_rest();
    memset(world->paths, 0, sizeof world->paths);
    for (unsigned i = 0; i < world->config.processes; i++) {
        struct sim_process *process = &world->processes[i];
        quorum_time paused = process->paused_until < world->now ? process->paused_until : world->now;
        process->lagged_until = paused > process->lagged_until ? paused : process->lagged_until;
        process->paused_until = 0;
        start_clock(process, 0);
        if (process->alive)
            sim_agent_calm(process);
        sim_process_alarm_moved(process);
        if (!process->alive)
            be_reborn(process, process->life);
    }
}
