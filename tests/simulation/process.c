/* A process: a loop with one client of the library, and the code that uses it. */
#include <assert.h>
#include <stdlib.h>

#include "src/client/client.h"
#include "world.h"

/*
 * A process is most likely to be preempted where it reads the clock, because its next action depends on the reading.
 * The rest of the turn then happens later than the world's time, and its requests leave only then.
 */
quorum_time sim_process_clock(const struct sim_process *process)
{
    return sim_clock_read(&process->clock, sim_world->now + process->lag);
}

quorum_time sim_process_wall(const struct sim_process *process)
{
    return UINT64_C(1700000000) * QUORUM_SECOND + sim_world->now + process->lag + (quorum_time)process->wall_offset;
}

void sim_process_preempt(struct sim_process *process)
{
    struct sim_world *world = sim_world;
    uint64_t *random = &world->fault_streams[SIM_FAULT_LAG];
    if (!(world->config.faults & 1u << SIM_FAULT_LAG) || world->calm || random_below(random, 4096))
        return;
    process->lag += random_log(random, 10 * QUORUM_MICROSECOND, 300 * QUORUM_MILLISECOND);
}

static void log_line(int level, const char *line, void *arg)
{
    (void)level;
    SIM_TRACE(sim_client_name(arg), "says: %s", line);
}

static void node_list(char *text, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < sim_world->config.nodes; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s", i ? "," : "");
        used += sim_world->config.groups ? sim_group_list(i, text + used, size - used)
                                         : (size_t)snprintf(text + used, size - used, "10.0.0.%u:6379", i + 1);
    }
}

static void set_options(struct sim_process *process)
{
    const struct sim_config *config = &sim_world->config;
    uint64_t *random = &sim_world->workload;
    process->options = (redlock_options)REDLOCK_OPTIONS_INIT;
    process->options.max_ttl_ms = config->max_ttl_ms;
    process->options.ttl_ms = config->ttl_ms[0];
    process->options.guard = config->beyond != SIM_BEYOND_UNGUARDED;
    process->options.node_timeout_ms = random_chance(random, 500) ? 50 : 20;
    process->options.silence_limit_ms = random_chance(random, 500) ? 2000 : 300;
    process->options.connect_timeout_ms = random_chance(random, 500) ? 1000 : 200;
    process->options.backoff_max_ms = 500;
    process->options.label = random_chance(random, 800) ? "sim" : ""; /* tokens of both forms meet */
    process->options.log = sim_world->tracing ? log_line : NULL;
    process->options.log_arg = process;
    process->options.log_level = REDLOCK_LOG_DEBUG;
    if (sim_config_is_short(config, process->index))
        process->options.max_ttl_ms = config->ttl_ms[0];
    else if (config->beyond == SIM_BEYOND_MAX_TTL) /* no marker says how long their locks last */
        process->options.guard = 0;
}

static void plan(struct sim_process *process);

/* One turn: dispatches the ready events, then does the work that comes before sleeping. */
static void turn(struct sim_process *process)
{
    unsigned again = 0;
    sim_current = process;
    process->in_turn = true;
    do {
        sim_watch_dispatch(process);
        sim_agent_run(process);
        sim_watch_prepare(process);
    } while (!process->closed && sim_watch_is_ready(process) && ++again < 64);
    process->in_turn = false;
    process->busy_until = sim_world->now + process->lag;
    if (process->lag) {
        process->lagged_until = process->busy_until;
        sim_check_stalled(process, process->busy_until);
    }
    if (!process->closed)
        sim_check_turn(process);
    process->lag = 0;
    sim_current = NULL;
}

static quorum_time ready_at(const struct sim_process *process)
{
    return process->paused_until > process->busy_until ? process->paused_until : process->busy_until;
}

static void turn_due(void *subject, uint64_t number)
{
    struct sim_process *process = subject;
    quorum_time ready = ready_at(process);
    if (number != process->turn_number || !process->alive)
        return;
    process->turn_at = QUORUM_NEVER;
    if (ready > sim_world->now) {
        sim_process_wake(process, ready);
        return;
    }
    turn(process);
    if (!process->closed) {
        plan(process);
        return;
    }
    sim_process_end(process);
    if (!sim_is_closing())
        sim_process_replace(process);
}

void sim_process_wake(struct sim_process *process, quorum_time at)
{
    quorum_time ready = ready_at(process);
    at = at > ready ? at : ready;
    if (!process->alive || process->in_turn || at >= process->turn_at)
        return;
    process->turn_at = at;
    sim_at(at, turn_due, process, ++process->turn_number);
}

/* Plans the next time at which the process wakes by itself. */
static void plan(struct sim_process *process)
{
    quorum_time alarm = sim_watch_alarm(process), work = sim_agent_wake(process);
    quorum_time earliest = alarm < work ? alarm : work;
    sim_current = process;
    bool ready = sim_watch_is_ready(process);
    sim_current = NULL;
    if (ready)
        sim_process_wake(process, sim_world->now);
    else if (earliest != QUORUM_NEVER)
        sim_process_wake(process, sim_clock_when(&process->clock, earliest, sim_world->now));
}

void sim_process_alarm_moved(struct sim_process *process)
{
    if (!process->alive)
        return;
    process->turn_at = QUORUM_NEVER;
    process->turn_number++;
    plan(process);
}

void sim_process_start(struct sim_process *process)
{
    char nodes[64 * SIM_NODES_MAX];
    process->alive = true;
    process->closing = process->closed = false;
    process->wanted = SIM_NOTHING;
    process->under_way = process->holds = 0;
    process->life++;
    process->turn_at = QUORUM_NEVER;
    process->turn_number++;
    process->paused_until = process->busy_until = process->lagged_until = 0;
    process->watch = sim_watch_create();
    node_list(nodes, sizeof nodes);
    set_options(process);
    sim_current = process;
    redlock_result result;
    int status = redlock_attach((struct ev_loop *)(void *)process, nodes, &process->options, &process->client, &result);
    if (status != REDLOCK_OK) {
        fprintf(stderr, "redlock_attach(): %s\n", result.text);
        abort();
    }
    sim_current = NULL;
    sim_agent_start(process);
    sim_process_wake(process, sim_world->now);
}

/* Frees its memory and closes its descriptors. No callback is called. */
void sim_process_end(struct sim_process *process)
{
    process->alive = false;
    sim_current = process;
    redlock_client *client = process->client ? process->client : process->ending;
    if (client)
        rl_client_destroy(client);
    process->client = process->ending = NULL;
    sim_agent_end(process);
    sim_world->operations_under_way -= process->under_way; /* no process waits for them any more */
    process->under_way = 0;
    sim_watch_destroy(process->watch);
    process->watch = NULL;
    sim_current = NULL;
}
