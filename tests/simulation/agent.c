/* The simulated processes' use of the library: they acquire, hold, extend, release, wait, cancel and lose locks. */
#include <assert.h>
#include <stdlib.h>

#include "src/client/client.h"
#include "support/fixture.h"
#include "world.h"

/* A lock is sometimes extended deliberately this long before its renewal. */
#define RENEWAL_NEAR (2 * QUORUM_MILLISECOND)

const char *sim_resource_name(unsigned resource)
{
    static const char *const names[SIM_NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h", "s"};
    return names[resource];
}

const char *sim_holding_name(const struct sim_holding *holding)
{
    static char text[32];
    size_t used = 0;
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (sim_is_on(holding, i))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "+" : "", sim_resource_name(i));
    snprintf(text + used, sizeof text - used, "%s", holding->shared ? ", shared" : "");
    return text;
}

/* Draws a duration around an average; a few are far longer. */
static quorum_duration draw_duration(quorum_duration average)
{
    uint64_t *random = &sim_world->workload;
    quorum_duration most = random_chance(random, 50) ? 20 * average : 2 * average;
    return random_between(random, 0, most);
}

static quorum_duration draw_thought(const struct sim_process *process)
{
    bool busy = sim_world->config.idle && !sim_config_is_idle(&sim_world->config, process->index);
    return draw_duration(busy ? sim_world->config.think / 16 : sim_world->config.think);
}

/* ------------------------------------------------------------------------------------------------------- operations */

/* A call of the library follows. slot: NULL: a call for the process itself; within: its time limit; 0: none. */
static struct sim_operation *begin(struct sim_process *process, struct sim_slot *slot, const char *name,
                                   quorum_duration within)
{
    struct sim_world *world = sim_world;
    struct sim_operation *operation = fixture_allocate(sizeof *operation);
    *operation = (struct sim_operation){.process = process,
                                        .next = world->all_operations,
                                        .slot = slot,
                                        .name = name,
                                        .number = ++world->operations,
                                        .started = sim_world->now,
                                        .within = within,
                                        .latest = within ? sim_process_clock(process) + within : QUORUM_NEVER};
    SIM_TRACE(sim_client_name(process), "%s %llu %s", operation->name, (unsigned long long)operation->number,
              slot ? sim_holding_name(&slot->holding) : "");
    world->all_operations = operation;
    world->operations_under_way++;
    process->under_way++;
    process->in_call = true;
    return operation;
}

static void called(struct sim_operation *operation, int status)
{
    assert(status == REDLOCK_OK);
    (void)status;
    operation->process->in_call = false;
}

static void ended(struct sim_operation *operation, const redlock_result *result)
{
    SIM_TRACE(sim_client_name(operation->process), "%s %llu -> %s: %s", operation->name,
              (unsigned long long)operation->number, redlock_status_name(result->status), result->text);
    sim_check_answer(operation);
}

/* Time for one node to reply, doubled in case it no longer knows the script. The reply timeout follows the measured
 * round trips, up to the silence limit. */
static quorum_duration one_answer(const struct sim_process *process)
{
    uint32_t timeout_ms = process->options.node_timeout_ms, silence_ms = process->options.silence_limit_ms;
    return 2 * (timeout_ms > silence_ms ? timeout_ms : silence_ms) * QUORUM_MILLISECOND;
}

/* The same, after a new connection. */
static quorum_duration one_round(const struct sim_process *process)
{
    return process->options.connect_timeout_ms * QUORUM_MILLISECOND + one_answer(process);
}

/* ---------------------------------------------------------------------------------------------------------- holding */

static void rest(struct sim_slot *slot)
{
    slot->state = SIM_IDLE;
    slot->wake = sim_process_clock(slot->process) + draw_thought(slot->process);
}

static void let_go(struct sim_slot *slot)
{
    sim_check_released(slot);
    slot->holding.lock = NULL;
}

static void released(redlock_client *client, const redlock_result *result, void *arg)
{
    struct sim_operation *operation = arg;
    struct sim_slot *slot = operation->slot;
    (void)client;
    if (result->status == REDLOCK_OK)
        sim_check_kept(operation);
    ended(operation, result);
    if (slot->state == SIM_RELEASING && !slot->process->closing)
        rest(slot);
}

static void release(struct sim_slot *slot)
{
    struct sim_process *process = slot->process;
    redlock_lock *lock = slot->holding.lock;
    /* late nodes are awaited until the key expires */
    quorum_duration within = one_answer(process) + sim_world->config.max_ttl_ms * QUORUM_MILLISECOND;
    struct sim_operation *operation = begin(process, slot, "release", within);
    sim_check_releasing(operation);
    let_go(slot);
    slot->state = SIM_RELEASING;
    slot->wake = QUORUM_NEVER;
    called(operation, redlock_release_async(&lock, NULL, released, operation));
}

static void extended(redlock_client *client, const redlock_result *result, void *arg)
{
    struct sim_operation *operation = arg;
    struct sim_slot *slot = operation->slot;
    (void)client;
    ended(operation, result);
    if (slot->state != SIM_EXTENDING || slot->process->closing)
        return;
    slot->state = SIM_HOLDING;
    slot->wake = sim_process_clock(slot->process) + draw_duration(sim_world->config.hold);
}

/* From the call of a downgrade on the lock is a reader's, whatever the nodes reply. Of an owner's several handles none may
 * become one. */
static bool may_downgrade(const struct sim_slot *slot)
{
    return !slot->holding.shared && !sim_is_on(&slot->holding, SIM_SEMAPHORE) &&
           slot->holding.lock->lease->handles.count == 1;
}

static uint32_t draw_ttl_ms(const struct sim_process *process)
{
    unsigned drawn = random_below(&sim_world->workload, 3);
    return sim_world->config.ttl_ms[sim_config_is_short(&sim_world->config, process->index) ? 0 : drawn];
}

static void extend(struct sim_slot *slot, bool downgrades)
{
    struct sim_process *process = slot->process;
    uint64_t *random = &sim_world->workload;
    struct sim_operation *operation = begin(process, slot, "extend", one_round(process));
    slot->extensions++;
    slot->state = SIM_EXTENDING;
    slot->wake = QUORUM_NEVER;
    if (downgrades && !slot->holding.lost_told) {
        sim_check_record(slot, HISTORY_RELEASE);
        slot->holding.shared = true;
        sim_check_record_hold(slot, sim_world->now);
    }
    if (downgrades) {
        sim_world->totals->met[SIM_MET_DOWNGRADE]++;
        called(operation, redlock_downgrade_async(slot->holding.lock, NULL, extended, operation));
    } else {
        uint32_t ttl_ms = random_chance(random, 300) ? 0 : draw_ttl_ms(process);
        called(operation, redlock_extend_async(slot->holding.lock, ttl_ms, NULL, extended, operation));
    }
    if (random_chance(random, 100))
        release(slot); /* while its extension is in progress */
}

/* Releases the lost lock a little later. Meanwhile other threads of the owner may try to re-enter it. */
static void wait_lost(struct sim_slot *slot)
{
    struct sim_process *process = slot->process;
    slot->wake = sim_process_clock(process) + random_below(&sim_world->workload, 5 * QUORUM_MILLISECOND);
    for (unsigned i = 0; i < sim_world->config.slots; i++)
        if (process->slots[i].state == SIM_IDLE && !sim_world->calm)
            process->slots[i].wake =
                sim_process_clock(process) + random_below(&sim_world->workload, 2 * QUORUM_MILLISECOND);
}

static void event(redlock_lock *lock, int what, int loss, int64_t validity_ms, void *arg)
{
    struct sim_slot *slot = arg;
    struct sim_process *process = slot->process;
    static const char *const names[] = {"?", "renewal is failing", "is ending", "is lost"};
    (void)lock;
    if (process->in_call)
        sim_violate(SIM_ONCE, "client %u was told of its lock inside a call", process->index + 1);
    SIM_TRACE(sim_client_name(process), "its lock on %s: %s (loss %d), %lld ms left", sim_holding_name(&slot->holding),
              names[what], loss, (long long)validity_ms);
    if (what != REDLOCK_EVENT_LOST)
        return;
    if (slot->holding.lost_told)
        sim_violate(SIM_ONCE, "client %u was told twice that its lock is lost", process->index + 1);
    slot->holding.lost_told = true;
    sim_check_record(slot, HISTORY_LOST);
    if (process->closing)
        let_go(slot);
    else if (slot->state == SIM_HOLDING && random_chance(&sim_world->workload, 500))
        release(slot);
    else if (slot->state == SIM_HOLDING)
        wait_lost(slot);
}

/* True if its renewal is about to be sent. An extension just before would be in progress together with it. */
static bool is_due(const struct sim_slot *slot)
{
    quorum_time renewal = slot->holding.lock->lease->rules.renew_at, now = sim_process_clock(slot->process);
    return renewal != QUORUM_NEVER && renewal > now && renewal - now <= RENEWAL_NEAR;
}

/* Releases of one turn may leave as one command. */
static void release_all(struct sim_process *process)
{
    for (unsigned i = 0; i < sim_world->config.slots; i++)
        if (process->slots[i].state == SIM_HOLDING)
            release(&process->slots[i]);
}

static void hold_on(struct sim_slot *slot)
{
    uint64_t *random = &sim_world->workload;
    if (!sim_world->calm && slot->extensions < 5 && (is_due(slot) || random_chance(random, 150)))
        extend(slot, false);
    else if (!sim_world->calm && sim_world->config.shared && may_downgrade(slot) && random_chance(random, 300))
        extend(slot, true);
    else if (random_chance(random, 400))
        release_all(slot->process);
    else
        release(slot);
}

/* -------------------------------------------------------------------------------------------------------- acquiring */

static void drop_cancellation(struct sim_slot *slot)
{
    if (slot->cancellation)
        redlock_cancellation_destroy(&slot->cancellation);
    slot->cancel_at = QUORUM_NEVER;
}

/* The resources of the lock. If an owner acquires a part of the resources that it holds, it gets another handle of
 * the whole lock. */
static uint32_t resources_of(const redlock_lock *lock)
{
    uint32_t resources = 0;
    for (uint32_t i = 0; i < redlock_lock_resources(lock); i++)
        for (unsigned name = 0; name < SIM_NAMES; name++)
            if (strcmp(redlock_lock_resource_at(lock, i, NULL), sim_resource_name(name)) == 0)
                resources |= 1u << name;
    return resources;
}

static void acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    struct sim_operation *operation = arg;
    struct sim_slot *slot = operation->slot;
    struct sim_process *process = operation->process;
    struct sim_holding *holding = &slot->holding;
    (void)client;
    drop_cancellation(slot);
    ended(operation, result);
    if (slot->probing && (!lock || result->attempts != 1))
        sim_violate(SIM_LIVE, "client %u did not get the free lock '%s' in one round: %s", process->index + 1,
                    sim_holding_name(holding), result->text);
    slot->probing = false;
    if (!lock) {
        rest(slot);
        return;
    }
    sim_world->totals->acquired++;
    sim_check_hand_over(process);
    uint32_t resources = resources_of(lock);
    if (holding->resources & ~resources)
        sim_violate(SIM_EXCLUSION, "client %u asked for %s, and was given less", process->index + 1,
                    sim_holding_name(holding));
    *holding = (struct sim_holding){.lock = lock,
                                    .resources = resources,
                                    .permits = holding->permits,
                                    .shared = holding->shared,
                                    .since = sim_world->now + process->lag,
                                    .fence = redlock_lock_fence(lock),
                                    .at_least_ms = holding->at_least_ms,
                                    .least = holding->least};
    slot->state = SIM_HOLDING;
    slot->extensions = 0;
    sim_check_granted(operation);
    slot->wake =
        sim_process_clock(process) + (sim_world->calm ? QUORUM_MILLISECOND : draw_duration(sim_world->config.hold));
    if (sim_world->calm)
        return;
    quorum_time renewal = lock->lease->rules.renew_at;
    if (renewal != QUORUM_NEVER && random_chance(&sim_world->workload, 50))
        slot->wake = renewal - random_below(&sim_world->workload, RENEWAL_NEAR);
    if (random_chance(&sim_world->workload, 30))
        release(slot); /* from inside the callback */
}

static void plan_cancellation(struct sim_slot *slot, redlock_acquire_options *options, quorum_duration within)
{
    struct sim_world *world = sim_world;
    bool possible = world->config.faults & 1u << SIM_FAULT_CANCEL;
    slot->cancel_at = QUORUM_NEVER;
    if (!possible || !random_chance(&world->workload, 200))
        return;
    if (redlock_cancellation_create(slot->process->client, &slot->cancellation) != REDLOCK_OK)
        return;
    options->cancellation = slot->cancellation;
    slot->cancel_at = sim_process_clock(slot->process) + random_between(&world->workload, 0, within - 1);
}

static int64_t draw_wait(uint64_t *random)
{
    unsigned draw = random_below(random, 100);
    if (draw < 35)
        return 0;
    if (draw < 75)
        return (int64_t)random_log(random, 1, 500);
    return draw < 92 ? (int64_t)random_log(random, 500, 5000) : REDLOCK_FOREVER;
}

static quorum_duration bound(const struct sim_process *process, int64_t wait_ms)
{
    if (wait_ms == REDLOCK_FOREVER)
        return 0;
    return wait_ms ? (quorum_duration)wait_ms * QUORUM_MILLISECOND : one_round(process);
}

static void start(struct sim_slot *slot, redlock_acquire_options *options)
{
    struct sim_process *process = slot->process;
    redlock_name names[SIM_NAMES];
    unsigned count = 0;
    for (unsigned i = 0; i < SIM_NAMES; i++)
        if (sim_is_on(&slot->holding, i))
            names[count++] = (redlock_name){sim_resource_name(i), 0};
    options->also = names + 1;
    options->also_count = count - 1;
    options->permits = slot->holding.permits ? sim_world->config.permits : 0;
    options->permits_wanted = slot->holding.permits;
    options->shared = slot->holding.shared;
    options->event = event;
    options->event_arg = slot;
    sim_check_waits(process);
    struct sim_operation *operation = begin(process, slot, "acquire", bound(process, options->wait_ms));
    slot->state = SIM_ACQUIRING;
    slot->wake = QUORUM_NEVER;
    called(operation, redlock_acquire_async(process->client, names[0].bytes, options, acquired, operation));
}

/* Chooses the resources: the semaphore, one resource or several, exclusive or shared. */
static void choose(struct sim_holding *holding)
{
    const struct sim_config *config = &sim_world->config;
    uint64_t *random = &sim_world->workload;
    holding->shared = false;
    holding->resources = 1u << SIM_SEMAPHORE;
    holding->permits = 1;
    if (config->permits && random_chance(random, 300)) {
        if (random_chance(random, 400))
            holding->permits = (unsigned)random_between(random, 1, config->permits);
        return;
    }
    holding->permits = 0;
    holding->resources = 1u << random_below(random, config->resources);
    if (config->several && random_chance(random, config->several)) /* large sets would leave little else to lock */
        holding->resources |=
            random_below(random, 1u << (config->resources < SIM_CONTENDED ? config->resources : SIM_CONTENDED));
    holding->shared = config->shared && random_chance(random, config->shared);
}

static void acquire(struct sim_slot *slot)
{
    struct sim_process *process = slot->process;
    const struct sim_config *config = &sim_world->config;
    uint64_t *random = &sim_world->workload;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = draw_wait(random);
    options.ttl_ms = draw_ttl_ms(process);
    options.no_renewal = random_chance(random, 250);
    options.cap_ms = random_chance(random, 100) ? 2 * options.ttl_ms : 0;
    options.notify_before_ms = random_chance(random, 200) ? options.ttl_ms / 4 : 0;
    options.fence = config->fence && random_chance(random, config->fence);
    options.owner = random_chance(random, 300) ? process : NULL;
    slot->ttl_ms = options.ttl_ms;
    slot->holding.least = slot->holding.at_least_ms = 0;
    if (config->least && random_chance(random, config->least)) {
        options.at_least_ms = (uint32_t)random_log(random, 1, process->options.max_ttl_ms * 9 / 10);
        slot->holding.at_least_ms = options.at_least_ms;
        slot->holding.least = sim_process_clock(process) + options.at_least_ms * QUORUM_MILLISECOND;
    }
    choose(&slot->holding);
    options.fence = options.fence && !slot->holding.permits;
    plan_cancellation(slot, &options,
                      options.wait_ms > 0 ? (quorum_duration)options.wait_ms * QUORUM_MILLISECOND
                                          : 5 * QUORUM_MILLISECOND);
    SIM_TRACE(sim_client_name(process), "wants a lock for %u ms (at least %u), and waits up to %lld ms%s",
              options.ttl_ms, options.at_least_ms, (long long)options.wait_ms,
              options.no_renewal ? ", without renewal" : "");
    start(slot, &options);
}

void sim_agent_probe(struct sim_process *process, unsigned resource, bool shared)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    struct sim_slot *slot = &process->slots[0];
    slot->probing = true;
    slot->holding.least = slot->holding.at_least_ms = 0;
    slot->holding.resources = 1u << resource;
    slot->holding.shared = shared;
    slot->holding.permits = resource == SIM_SEMAPHORE ? sim_world->config.permits : 0;
    sim_current = process;
    start(slot, &options);
    sim_current = NULL;
    sim_process_wake(process, sim_world->now);
}

/* ------------------------------------------------------------------------------------------------- other operations */

static void answered(redlock_client *client, const redlock_result *result, void *arg)
{
    (void)client;
    ended(arg, result);
}

static void queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *arg)
{
    (void)state;
    answered(client, result, arg);
}

static void trust(struct sim_process *process)
{
    struct sim_operation *operation = begin(process, NULL, "trust", one_round(process));
    called(operation, redlock_trust_async(process->client, NULL, answered, operation));
}

static void query(struct sim_process *process)
{
    struct sim_operation *operation = begin(process, NULL, "query", one_round(process));
    unsigned resource = random_below(&sim_world->workload, sim_world->config.resources);
    if (sim_world->config.permits && random_chance(&sim_world->workload, 200))
        resource = SIM_SEMAPHORE;
    called(operation, redlock_query_async(process->client, sim_resource_name(resource), 0, NULL, queried, operation));
}

static void closed(redlock_client *client, const redlock_result *result, void *arg)
{
    struct sim_operation *operation = arg;
    struct sim_process *process = operation->process;
    (void)client;
    if (result->pending_undos)
        sim_check_excuse(process);
    ended(operation, result);
    process->closed = true;
    process->ending = NULL;
    for (unsigned i = 0; i < SIM_SLOTS_MAX; i++)
        if (process->slots[i].holding.lock)
            let_go(&process->slots[i]);
    if (process->under_way)
        sim_violate(SIM_ONCE, "client %u is closed, and %u of its operations have not been answered",
                    process->index + 1, process->under_way);
}

static void close_client(struct sim_process *process)
{
    if (process->closing)
        return;
    sim_check_count(process); /* its statistics end with the client */
    struct sim_operation *operation = begin(process, NULL, "close", 20 * QUORUM_SECOND);
    for (unsigned i = 0; i < sim_world->config.slots; i++)
        if (process->slots[i].holding.lock)
            sim_check_record(&process->slots[i], HISTORY_RELEASE);
    process->closing = true;
    process->ending = process->client;
    called(operation, redlock_close_async(&process->client, NULL, closed, operation));
}

/* -------------------------------------------------------------------------------------------------------- the agent */

void sim_agent_start(struct sim_process *process)
{
    process->handed_over = 0;
    for (unsigned i = 0; i < SIM_SLOTS_MAX; i++) {
        struct sim_slot *slot = &process->slots[i];
        *slot = (struct sim_slot){.process = process, .cancel_at = QUORUM_NEVER, .wake = QUORUM_NEVER};
        if (i < sim_world->config.slots)
            slot->wake = sim_process_clock(process) + draw_thought(process);
    }
}

void sim_agent_calm(struct sim_process *process)
{
    for (unsigned i = 0; i < SIM_SLOTS_MAX; i++) {
        struct sim_slot *slot = &process->slots[i];
        quorum_time soon = sim_process_clock(process) + random_below(&sim_world->workload, QUORUM_SECOND);
        if (slot->state == SIM_HOLDING && slot->wake > soon)
            slot->wake = soon;
    }
}

void sim_agent_end(struct sim_process *process)
{
    for (unsigned i = 0; i < SIM_SLOTS_MAX; i++) {
        struct sim_slot *slot = &process->slots[i];
        drop_cancellation(slot);
        if (slot->holding.lock)
            let_go(slot);
        slot->state = SIM_IDLE;
        slot->wake = QUORUM_NEVER;
    }
}

static void act(struct sim_slot *slot)
{
    slot->wake = QUORUM_NEVER;
    if (slot->state == SIM_HOLDING)
        hold_on(slot);
    else if (slot->state == SIM_IDLE && !sim_world->calm)
        acquire(slot);
    if (random_chance(&sim_world->workload, 20) && !sim_world->calm)
        query(slot->process);
}

void sim_agent_run(struct sim_process *process)
{
    if (process->wanted == SIM_CLOSE)
        close_client(process);
    else if (process->wanted == SIM_TRUST && !process->closing)
        trust(process);
    process->wanted = SIM_NOTHING;
    for (unsigned i = 0; i < sim_world->config.slots && !process->closing; i++) {
        struct sim_slot *slot = &process->slots[i];
        if (slot->cancel_at <= sim_process_clock(process)) {
            slot->cancel_at = QUORUM_NEVER;
            SIM_TRACE(sim_client_name(process), "cancels what it waits for");
            redlock_cancel(slot->cancellation);
        }
        if (slot->wake <= sim_process_clock(process))
            act(slot);
    }
}

quorum_time sim_agent_wake(const struct sim_process *process)
{
    quorum_time earliest = process->wanted == SIM_NOTHING ? QUORUM_NEVER : 0;
    for (unsigned i = 0; i < sim_world->config.slots && !process->closing; i++) {
        const struct sim_slot *slot = &process->slots[i];
        earliest = slot->wake < earliest ? slot->wake : earliest;
        earliest = slot->cancel_at < earliest ? slot->cancel_at : earliest;
    }
    return earliest;
}

bool sim_agent_is_at_rest(const struct sim_process *process)
{
    return process->under_way == 0 && process->holds == 0;
}
