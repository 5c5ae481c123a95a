/* The faults of a world. Each kind has its own random stream, so that leaving one out does not change the others. */
#include <stdio.h>

#include "quorum/attest.h"
#include "src/client/client.h"
#include "world.h"

const char *const sim_fault_names[SIM_FAULTS] = {
    "break",  "partition", "hang",  "restart", "promote", "refuse",   "unscript", "pause", "lag",     "crash", "close",
    "cancel", "slow",      "drift", "partial", "flush",   "failover", "swap",     "evict", "foreign", "jump",  "elect"};
const char *const sim_beyond_names[SIM_BEYONDS] = {"within", "rate", "jump", "stop", "unguarded", "max-ttl"};

const char *sim_identity;

static struct sim_random *stream(enum sim_fault fault)
{
    return &sim_world->fault_streams[fault];
}

static struct sim_node *any_node(struct sim_random *random)
{
    return &sim_world->nodes[sim_random_below(random, sim_world->config.nodes)];
}

static struct sim_process *any_process(struct sim_random *random)
{
    return &sim_world->processes[sim_random_below(random, sim_world->config.processes)];
}

static quorum_duration draw(struct sim_random *random, quorum_duration least, quorum_duration most)
{
    return sim_random_log(random, least, most);
}

static quorum_duration max_ttl(void)
{
    return sim_world->config.max_ttl_ms * QUORUM_MILLISECOND;
}

static void draw_id(char id[41])
{
    for (size_t i = 0; i < 40; i++)
        id[i] = "0123456789abcdef"[sim_random_below(&sim_world->identity, 16)];
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

static void break_link(struct sim_random *random)
{
    struct sim_link *link = sim_world->links;
    unsigned count = 0;
    for (struct sim_link *each = link; each; each = each->next)
        count++;
    for (uint64_t skip = sim_random_below(random, count); skip > 0 && link; skip--)
        link = link->next;
    bool client_told = sim_random_chance(random, 700), server_told = sim_random_chance(random, 500);
    if (!link || !link->client_open)
        return;
    SIM_TRACE(sim_client_name(link->process), "loses a connection to node %u; %s is told", link->node->index + 1,
              client_told   ? server_told ? "everybody" : "it alone"
              : server_told ? "the node alone"
                            : "nobody");
    if (!server_told && sim_random_chance(random, 500))
        link->held_up_until = sim_world->now + draw(random, QUORUM_MILLISECOND, 2 * QUORUM_SECOND);
    sim_link_cut(link, client_told, server_told);
}

static void hold_up(unsigned process, unsigned node, bool up, bool down, quorum_time until)
{
    struct sim_path *path = &sim_world->paths[process][node];
    if (up && path->up_blocked_until < until)
        path->up_blocked_until = until;
    if (down && path->down_blocked_until < until)
        path->down_blocked_until = until;
}

static void partition(struct sim_random *random)
{
    static const char *const extents[] = {"what is between", "all of this node's, not only between",
                                          "all of this client's, not only between"};
    static const char *const ways[] = {"both ways", "to the node", "to the client"};
    const struct sim_config *config = &sim_world->config;
    unsigned process = any_process(random)->index, node = (unsigned)sim_random_below(random, sim_hosts());
    unsigned extent = (unsigned)sim_random_below(random, 3), way = (unsigned)sim_random_below(random, 3);
    quorum_time until = sim_world->now + draw(random, 5 * QUORUM_MILLISECOND, 3 * QUORUM_SECOND);
    SIM_TRACE("network", "holds up %s client %u and node %u, %s, for %.0f ms", extents[extent], process + 1, node + 1,
              ways[way], (double)(until - sim_world->now) / 1e6);
    for (unsigned p = 0; p < config->processes; p++)
        for (unsigned n = 0; n < sim_hosts(); n++)
            if ((p == process || extent == 1) && (n == node || extent == 2))
                hold_up(p, n, way != 2, way != 1, until);
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void resume(void *subject, uint64_t incarnation)
{
    struct sim_node *node = subject;
    if (!node->hung || node->incarnation != incarnation)
        return;
    SIM_TRACE(sim_node_name(node), "goes on");
    sim_node_resume(node);
}

static void hang(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    quorum_duration time = draw(random, 10 * QUORUM_MILLISECOND, 4 * QUORUM_SECOND);
    if (!node->up || node->hung)
        return;
    SIM_TRACE(sim_node_name(node), "hangs for %.0f ms", (double)time / 1e6);
    node->hung = true;
    sim_at(sim_world->now + time, resume, node, node->incarnation);
}

void sim_path_block(unsigned process, unsigned host, quorum_time until)
{
    hold_up(process, host, true, true, until);
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

static void restart(struct sim_random *random)
{
    static const char *const memories[] = {"remembering all", "empty", "with an old snapshot"};
    struct sim_node *node = any_node(random);
    unsigned memory = (unsigned)sim_random_below(random, 3);
    quorum_duration away = draw(random, QUORUM_MILLISECOND, 2 * QUORUM_SECOND);
    if (!die(node, away))
        return;
    SIM_TRACE(sim_node_name(node), "dies; it is back after %.0f ms, %s", (double)away / 1e6, memories[memory]);
    if (memory == 1)
        sim_keyspace_clear(&node->server.keys);
    else if (memory == 2)
        sim_keyspace_copy(&node->server.keys, &node->snapshot, true);
    if (memory)
        sim_node_forgets(node);
}

static void take_over(struct sim_node *node, struct sim_random *random)
{
    sim_keyspace_copy(&node->server.keys, &node->snapshot, true);
    /* A different machine, with a different clock. */
    sim_clock_jump(&node->clock, sim_world->now,
                   (int64_t)sim_random_below(random, QUORUM_SECOND) - (int64_t)(QUORUM_SECOND / 2));
    sim_node_forgets(node);
}

static void promote(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    if (!die(node, draw(random, QUORUM_MILLISECOND, 500 * QUORUM_MILLISECOND)))
        return;
    SIM_TRACE(sim_node_name(node), "dies; a replica that missed the last writes takes over");
    take_over(node, random);
}

static void recover(void *subject, uint64_t unused)
{
    struct sim_node *node = subject;
    (void)unused;
    node->server.refusal = NULL;
    node->slow = 0;
}

static void refuse(struct sim_random *random)
{
    static const char *const refusals[] = {
        "LOADING Redis is loading the dataset in memory", "OOM command not allowed when used memory > 'maxmemory'.",
        "BUSY Redis is busy running a script.", "MISCONF Redis is configured to save RDB snapshots"};
    struct sim_node *node = any_node(random);
    quorum_duration time = draw(random, QUORUM_MILLISECOND, 2 * QUORUM_SECOND);
    node->server.refusal = refusals[sim_random_below(random, 4)];
    SIM_TRACE(sim_node_name(node), "answers '%s' for %.0f ms", node->server.refusal, (double)time / 1e6);
    sim_at(sim_world->now + time, recover, node, 0);
}

static void slow_down(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    node->slow = draw(random, QUORUM_MILLISECOND, 100 * QUORUM_MILLISECOND);
    SIM_TRACE(sim_node_name(node), "is slow, by %.1f ms a packet", (double)node->slow / 1e6);
    sim_at(sim_world->now + draw(random, 10 * QUORUM_MILLISECOND, QUORUM_SECOND), recover, node, 0);
}

static void forget_scripts(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    /* All of them, or a random part. */
    bool all = sim_random_chance(random, 500);
    node->server.scripts &= all ? 0 : (uint32_t)sim_random_next(random);
    SIM_TRACE(sim_node_name(node), "forgets %s of its scripts", all ? "all" : "some");
}

static void save(void *subject, uint64_t unused)
{
    struct sim_random *random = &sim_world->nemesis;
    struct sim_node *node = subject;
    (void)unused;
    if (sim_world->calm)
        return;
    if (node->up)
        sim_keyspace_copy(&node->snapshot, &node->server.keys, false);
    sim_at(sim_world->now + draw(random, 20 * QUORUM_MILLISECOND, 10 * QUORUM_SECOND), save, node, 0);
}

static void flush(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    SIM_TRACE(sim_node_name(node), "is flushed");
    if (node->index == 0)
        sim_commands_add(0, 0, NULL);
    sim_keyspace_clear(&node->server.keys);
    sim_node_forgets(node);
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
    if (!node->server.replica || node->incarnation != incarnation)
        return;
    SIM_TRACE(sim_node_name(node), "is a master again");
    sim_node_promote(node);
}

/* Assumed: a synchronization takes longer than a look at the evidence vouches. The copied data is available when it ends. */
static void fail_over(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    quorum_duration time = QUORUM_LOOK_LASTS + draw(random, QUORUM_MILLISECOND, QUORUM_SECOND);
    if (!node->up || node->server.replica)
        return;
    SIM_TRACE(sim_node_name(node), "becomes a replica of an old copy for %.0f ms", (double)time / 1e6);
    sim_keyspace_copy(&node->server.keys, &node->snapshot, true);
    node->server.replica = true;
    sim_node_forgets(node);
    sim_at(sim_world->now + time, be_promoted, node, node->incarnation);
}

static void swap_databases(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    struct sim_keyspace mine = node->server.keys;
    if (!node->up || node->server.replica)
        return;
    SIM_TRACE(sim_node_name(node), "its databases are exchanged");
    node->server.keys = node->other;
    node->other = mine;
    sim_keyspace_copy(&node->server.keys, &node->server.keys, true);
    node->server.swaps++;
    sim_node_forgets(node);
}

/* Evicts half of the keys, possibly with the marker. */
static void evict(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    unsigned evicted = sim_keyspace_evict(&node->server.keys, sim_random_next(random));
    SIM_TRACE(sim_node_name(node), "evicts %u keys", evicted);
    node->server.evicted += evicted;
    if (evicted)
        sim_node_forgets(node);
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
static void jump_unseen(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    quorum_duration by = draw(random, 5 * QUORUM_SECOND, 5 * QUORUM_SECOND + 2 * max_ttl());
    if (!node->up || node->hung || sim_world->now - node->looked < 4 * QUORUM_SECOND)
        return;
    for (unsigned i = 0; i < sim_world->config.processes * sim_world->config.nodes; i++)
        if (!knows_clock(&sim_world->processes[i / sim_world->config.nodes],
                         &sim_world->nodes[i % sim_world->config.nodes]))
            return;
    SIM_TRACE(sim_node_name(node), "its clock jumps by %.0f ms, and no client looks", (double)by / 1e6);
    sim_world->totals->met[SIM_MET_CLOCK_JUMP]++;
    sim_clock_jump(&node->clock, sim_world->now, (int64_t)by);
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
static void hold_as_foreigner(struct sim_random *random)
{
    static unsigned names[SIM_RESOURCES_MAX];
    unsigned *name = &names[sim_random_below(random, sim_world->config.resources)];
    uint64_t number = sim_random_next(random);
    char token[32], ttl[24];
    *name = (unsigned)(name - names);
    snprintf(token, sizeof token, "foreign %llu", (unsigned long long)number);
    snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)sim_random_log(random, 50, 3000));
    SIM_TRACE("foreigner", "takes '%s' for %s ms", sim_resource_name(*name), ttl);
    const struct resp_argument words[] = {resp_argument_of("SET"), resp_argument_of(sim_resource_name(*name)),
                                          resp_argument_of(token), resp_argument_of("NX"),
                                          resp_argument_of("PX"),  resp_argument_of(ttl)};
    for (unsigned i = 0; i < sim_servers(); i++)
        if (sim_world->nodes[i].up && !sim_world->nodes[i].server.replica)
            execute(&sim_world->nodes[i], 6, words);
    sim_at(sim_world->now + draw(random, QUORUM_MILLISECOND, 2 * QUORUM_SECOND), release_as_foreigner, name, number);
}

/* -------------------------------------------------------------------------------------------------------- processes */

static void pause_process(struct sim_random *random)
{
    struct sim_process *process = any_process(random);
    bool idle = sim_world->config.idle; /* then a lock is held for long, and only a long pause matters */
    quorum_duration time = draw(random, idle ? max_ttl() / 4 : QUORUM_MILLISECOND, max_ttl() + QUORUM_SECOND);
    if (!process->alive || process->paused_until > sim_world->now)
        return;
    SIM_TRACE(sim_client_name(process), "stands still for %.0f ms", (double)time / 1e6);
    process->paused_until = sim_world->now + time;
    sim_check_stalled(process, process->paused_until);
}

static void be_reborn(void *subject, uint64_t life)
{
    struct sim_process *process = subject;
    if (process->alive || process->life != life)
        return;
    SIM_TRACE(sim_client_name(process), "starts again");
    sim_process_start(process);
}

void sim_process_replace(struct sim_process *process)
{
    sim_at(sim_world->now + draw(stream(SIM_FAULT_CRASH), QUORUM_MILLISECOND, QUORUM_SECOND), be_reborn, process,
           process->life);
}

static void crash(struct sim_random *random)
{
    struct sim_process *process = any_process(random);
    if (!process->alive)
        return;
    SIM_TRACE(sim_client_name(process), "dies");
    if (!process->closing)
        sim_check_count(process);
    sim_check_excuse(process);
    sim_process_end(process);
    sim_process_replace(process);
}

static void close_client(struct sim_random *random)
{
    struct sim_process *process = any_process(random);
    if (!process->alive || process->closing)
        return;
    process->wanted = SIM_CLOSE;
    sim_process_wake(process, sim_world->now);
}

static int64_t draw_rate(struct sim_random *random)
{
    return (int64_t)sim_random_below(random, 9000001) - 4500000; /* the rates of two clocks differ by less than 1 % */
}

static void change_rates(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    struct sim_process *process = any_process(random);
    if (node->clock.rate == node->clock.rate_by_itself && sim_world->config.beyond != SIM_BEYOND_RATE) {
        node->clock.rate_by_itself = draw_rate(random);
        sim_clock_turn(&node->clock, sim_world->now, node->clock.rate_by_itself);
    }
    /* A process' last action may be ahead of the world's time. If its clock slowed down before that action, it would
     * run backwards. */
    if (process->clock.rate == SIM_STOPPED || process->busy_until > sim_world->now)
        return;
    process->clock.rate_by_itself = draw_rate(random);
    sim_clock_turn(&process->clock, sim_world->now, process->clock.rate_by_itself);
    sim_check_clock(process);
    sim_process_alarm_moved(process);
}

/* ----------------------------------------------------------------------------------------------------------- beyond */

static void jump(struct sim_random *random)
{
    struct sim_node *node = any_node(random);
    int64_t by = (int64_t)draw(random, 10 * QUORUM_MILLISECOND, 2 * max_ttl());
    by = sim_random_chance(random, 700) ? by : -by;
    SIM_TRACE(sim_node_name(node), "its clock jumps by %.0f ms", (double)by / 1e6);
    sim_clock_jump(&node->clock, sim_world->now, by);
}

static void start_clock(void *subject, uint64_t unused)
{
    struct sim_process *process = subject;
    (void)unused;
    if (process->clock.rate != SIM_STOPPED)
        return;
    SIM_TRACE(sim_client_name(process), "goes on, and its clock does");
    sim_clock_turn(&process->clock, sim_world->now, process->clock.rate_by_itself);
    sim_process_alarm_moved(process);
}

static void stop_clock(struct sim_random *random)
{
    struct sim_process *process = any_process(random);
    quorum_duration time = draw(random, 10 * QUORUM_MILLISECOND, 2 * max_ttl());
    if (process->clock.rate == SIM_STOPPED || !process->alive || process->busy_until > sim_world->now)
        return;
    SIM_TRACE(sim_client_name(process), "stands still for %.0f ms, and its clock does", (double)time / 1e6);
    sim_clock_turn(&process->clock, sim_world->now, SIM_STOPPED);
    if (process->paused_until < sim_world->now + time)
        process->paused_until = sim_world->now + time;
    sim_check_stalled(process, process->paused_until);
    sim_at(sim_world->now + time, start_clock, process, 0);
}

static void go_beyond(void *subject, uint64_t unused)
{
    struct sim_random *random = &sim_world->nemesis;
    (void)subject;
    (void)unused;
    if (sim_world->calm)
        return;
    sim_world->totals->beyond++;
    if (sim_world->config.beyond == SIM_BEYOND_JUMP)
        jump(random);
    else if (sim_world->config.beyond == SIM_BEYOND_STOP)
        stop_clock(random);
    else
        return;
    sim_at(sim_world->now + draw(random, 20 * QUORUM_MILLISECOND, 2 * QUORUM_SECOND), go_beyond, NULL, 0);
}

/* ----------------------------------------------------------------------------------------------------------- course */

static void (*const handlers[SIM_FAULTS])(struct sim_random *) = {
    [SIM_FAULT_BREAK] = break_link,
    [SIM_FAULT_PARTITION] = partition,
    [SIM_FAULT_HANG] = hang,
    [SIM_FAULT_RESTART] = restart,
    [SIM_FAULT_PROMOTE] = promote,
    [SIM_FAULT_REFUSE] = refuse,
    [SIM_FAULT_UNSCRIPT] = forget_scripts,
    [SIM_FAULT_PAUSE] = pause_process,
    [SIM_FAULT_CRASH] = crash,
    [SIM_FAULT_CLOSE] = close_client,
    [SIM_FAULT_SLOW] = slow_down,
    [SIM_FAULT_DRIFT] = change_rates,
    [SIM_FAULT_FLUSH] = flush,
    [SIM_FAULT_FAILOVER] = fail_over,
    [SIM_FAULT_SWAP] = swap_databases,
    [SIM_FAULT_EVICT] = evict,
    [SIM_FAULT_FOREIGN] = hold_as_foreigner,
    [SIM_FAULT_JUMP] = jump_unseen,
    [SIM_FAULT_ELECT] = sim_group_elect,
};

static void befall(void *subject, uint64_t fault)
{
    struct sim_random *random = stream((enum sim_fault)fault);
    quorum_duration every = sim_world->config.fault_every[fault];
    /* First every client reads the largest max_ttl of all. */
    quorum_duration peace = sim_world->config.differ && !subject ? 3 * QUORUM_SECOND : 0;
    if (sim_world->calm)
        return;
    if (subject) {
        sim_world->totals->faults[fault]++;
        handlers[fault](random);
    }
    sim_at(sim_world->now + peace + sim_random_between(random, 1, 2 * every), befall, sim_world, fault);
}

static void set_clocks(void)
{
    struct sim_world *world = sim_world;
    struct sim_random *random = stream(SIM_FAULT_DRIFT);
    bool drift = world->config.faults & 1u << SIM_FAULT_DRIFT;
    for (unsigned i = 0; i < sim_hosts(); i++) {
        struct sim_clock *clock = &world->nodes[i].clock;
        clock->since = world->now;
        clock->shown = UINT64_C(1700000000) * QUORUM_SECOND + sim_random_below(random, QUORUM_SECOND);
        clock->rate = drift ? draw_rate(random) : 0;
        if (world->config.beyond == SIM_BEYOND_RATE && i <= world->config.nodes / 2)
            clock->rate = (int64_t)sim_random_between(&world->nemesis, 20000000, 500000000);
        clock->rate_by_itself = clock->rate;
    }
    for (unsigned i = 0; i < world->config.processes; i++) {
        struct sim_process *process = &world->processes[i];
        struct sim_clock *clock = &process->clock;
        clock->since = world->now;
        clock->shown = QUORUM_SECOND + sim_random_below(random, 1000 * QUORUM_SECOND);
        clock->rate = clock->rate_by_itself = drift ? draw_rate(random) : 0;
        process->wall_offset = (int64_t)sim_random_below(random, QUORUM_SECOND);
        if (world->config.exact_walls)
            process->wall_offset = 0;
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
    for (unsigned fault = 0; fault < SIM_FAULTS; fault++)
        if (world->config.faults & 1u << fault && handlers[fault])
            befall(NULL, fault);
    if (world->config.beyond)
        sim_at(world->now + draw(&world->nemesis, 20 * QUORUM_MILLISECOND, 2 * QUORUM_SECOND), go_beyond, NULL, 0);
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
