/* The promises, by name: looked at after every step. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/client.h"
#include "world.h"

const char *const sim_invariant_names[SIM_INVARIANTS] = {
    "none",    "G1 exclusion",    "G2 fencing", "G3 told in time", "G4 bounded", "G5 leaves nothing",
    "G6 live", "G7 exactly once", "scripts"};

/* How long after a moment a process on an idle machine must have acted. */
#define PROMPT (10 * QUORUM_MILLISECOND)

void sim_violate(enum sim_invariant invariant, const char *format, ...)
{
    struct sim_violation *violation = &sim_world->violation;
    char text[sizeof violation->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_world->totals->violations[invariant]++;
    SIM_TRACE("broken", "%s: %s", sim_invariant_names[invariant], text);
    /* Beyond the assumptions two may have one lock: it is counted, and the world goes on. */
    bool allowed = invariant == SIM_EXCLUSION && sim_world->config.beyond;
    if (violation->invariant != SIM_SOUND || allowed)
        return;
    violation->invariant = invariant;
    violation->at = sim_world->now;
    violation->operations = sim_world->operations;
    memcpy(violation->text, text, sizeof text);
}

static void look(enum sim_invariant invariant)
{
    sim_world->totals->checks[invariant]++;
}

/* ------------------------------------------------------------------------------------------------------ G1 exclusion */

quorum_time sim_holding_end(const struct sim_holding *holding)
{
    return atomic_load(&holding->lock->lease->validity_end);
}

/* Would its validity query answer that it has the lock, at this true time? */
static bool is_held(const struct sim_slot *slot, quorum_time at)
{
    return slot->holding.since <= at && sim_holding_end(&slot->holding) > sim_clock_read(&slot->process->clock, at);
}

static void check_exclusion(const struct sim_slot *slot, quorum_time at)
{
    const struct sim_holders *holders = &sim_world->holders[slot->holding.resource];
    for (unsigned i = 0; i < holders->count; i++) {
        const struct sim_slot *other = holders->slot[i];
        if (other == slot || other->holding.lock->lease == slot->holding.lock->lease || !is_held(other, at))
            continue;
        sim_violate(SIM_EXCLUSION, "clients %u and %u both have '%s', for another %.3f ms and %.3f ms",
                    slot->process->index + 1, other->process->index + 1, sim_resource_name(slot->holding.resource),
                    (double)(sim_holding_end(&slot->holding) - sim_clock_read(&slot->process->clock, at)) / 1e6,
                    (double)(sim_holding_end(&other->holding) - sim_clock_read(&other->process->clock, at)) / 1e6);
        return;
    }
}

/* -------------------------------------------------------------------------------------------------------- G2 fencing */

/* From now on others may know of the token. */
static void token_known(void *subject, uint64_t token)
{
    uint64_t *largest = subject;
    if (token > *largest)
        *largest = token;
}

static const struct sim_fence *find_token(const struct sim_fences *given, uint64_t token)
{
    for (size_t i = given->count; i > 0; i--)
        if (given->fence[i - 1].token == token)
            return &given->fence[i - 1];
    return NULL;
}

static void note_token(struct sim_fences *given, uint64_t token, const void *lease)
{
    if (given->count == given->capacity) {
        given->capacity = given->capacity ? 2 * given->capacity : 64;
        given->fence = realloc(given->fence, given->capacity * sizeof *given->fence);
        if (!given->fence)
            abort();
    }
    given->fence[given->count++] = (struct sim_fence){token, lease};
}

/* Once nodes have forgotten, the order rests on the clients' wall clocks. */
static bool rests_on_clocks(void)
{
    return sim_world->forgotten && !sim_world->config.exact_walls;
}

void sim_check_acquiring(struct sim_slot *slot)
{
    slot->holding.floor = sim_world->fences[slot->holding.resource];
}

static void check_fence(const struct sim_slot *slot)
{
    const struct sim_holding *holding = &slot->holding;
    struct sim_world *world = sim_world;
    struct sim_fences *given = &world->given[holding->resource];
    const struct sim_fence *before = find_token(given, holding->fence);
    bool new = !before;
    if (before && before->lease == holding->lock->lease)
        return; /* entered again by its owner */
    look(SIM_FENCING);
    world->totals->fenced++;
    if (new)
        note_token(given, holding->fence, holding->lock->lease);
    if (rests_on_clocks())
        world->totals->disordered += !new || holding->fence <= holding->floor;
    else if (!new)
        sim_violate(SIM_FENCING, "client %u has token %llu for '%s', which another had", slot->process->index + 1,
                    (unsigned long long)holding->fence, sim_resource_name(holding->resource));
    else if (holding->fence <= holding->floor)
        sim_violate(SIM_FENCING, "client %u has token %llu for '%s', though %llu was there before it began",
                    slot->process->index + 1, (unsigned long long)holding->fence, sim_resource_name(holding->resource),
                    (unsigned long long)holding->floor);
    sim_at(world->now + slot->process->lag, token_known, &world->fences[holding->resource], holding->fence);
}

/* ---------------------------------------------------------------------------------------------------- G3 told in time */

static bool can_act(const struct sim_process *process)
{
    return process->paused_until <= sim_world->now && process->busy_until <= sim_world->now;
}

static void plan_look(struct sim_slot *slot, quorum_time end);

/* When its end has passed by so much, its process must have woken and told. */
static void look_at_end(void *subject, uint64_t number)
{
    struct sim_slot *slot = subject;
    struct sim_process *process = slot->process;
    if (number != slot->holding.number || !slot->holding.lock || slot->holding.lost_told)
        return;
    quorum_time end = sim_holding_end(&slot->holding), now = sim_clock_read(&process->clock, sim_world->now);
    if (end + PROMPT > now) {
        plan_look(slot, end);
    } else if (!can_act(process)) {
        quorum_time free = process->paused_until > process->busy_until ? process->paused_until : process->busy_until;
        sim_at(free + PROMPT, look_at_end, slot, number);
    } else {
        sim_violate(SIM_TOLD, "client %u was not told within %llu ms that its lock on '%s' ended", process->index + 1,
                    (unsigned long long)(PROMPT / QUORUM_MILLISECOND), sim_resource_name(slot->holding.resource));
    }
}

static void plan_look(struct sim_slot *slot, quorum_time end)
{
    quorum_time at = sim_clock_when(&slot->process->clock, end + PROMPT, sim_world->now);
    if (at == QUORUM_NEVER) /* its clock stands still */
        at = sim_world->now + 100 * QUORUM_MILLISECOND;
    sim_at(at > sim_world->now ? at : sim_world->now + 1, look_at_end, slot, slot->holding.number);
}

void sim_check_granted(struct sim_slot *slot)
{
    struct sim_holders *holders = &sim_world->holders[slot->holding.resource];
    quorum_time at = sim_world->now + slot->process->lag;
    look(SIM_EXCLUSION);
    assert(holders->count < SIM_PROCESSES_MAX * SIM_SLOTS_MAX);
    slot->holding.number = ++sim_world->holdings;
    holders->slot[holders->count++] = slot;
    slot->process->holds++;
    if (is_held(slot, at))
        check_exclusion(slot, at);
    else if (!slot->process->lag)
        sim_violate(SIM_EXCLUSION, "client %u was given '%s', which it does not hold", slot->process->index + 1,
                    sim_resource_name(slot->holding.resource));
    if (slot->holding.fence)
        check_fence(slot);
    plan_look(slot, sim_holding_end(&slot->holding));
}

static bool contains(const char *bytes, size_t size, const char *part)
{
    return memmem(bytes, size, part, strlen(part));
}

static bool sets_again(const char *bytes, size_t size)
{
    return contains(bytes, size, rl_scripts[RL_SCRIPT_HEAL].sha1) || contains(bytes, size, "$4\r\nheal\r\n");
}

/* What a process sends: a key is set again only where a majority has just confirmed its lock. */
void sim_check_sent(const struct sim_process *process, const char *bytes, size_t size)
{
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        const struct sim_holding *holding = &process->slots[i].holding;
        if (holding->lock && holding->lock->lease->rules.failures && sets_again(bytes, size) &&
            contains(bytes, size, redlock_lock_token(holding->lock)))
            sim_violate(SIM_EXCLUSION, "client %u sets '%s' again, though no majority has confirmed that it has it",
                        process->index + 1, sim_resource_name(holding->resource));
    }
}

void sim_check_released(struct sim_slot *slot)
{
    struct sim_holders *holders = &sim_world->holders[slot->holding.resource];
    unsigned at = 0;
    while (holders->slot[at] != slot)
        at++;
    holders->slot[at] = holders->slot[--holders->count];
    slot->process->holds--;
}

/* After a turn: whose time was over when it began must have been told; and what was promised before is promised still. */
static void check_holding(struct sim_slot *slot, quorum_time began)
{
    struct sim_process *process = slot->process;
    struct sim_holding *holding = &slot->holding;
    quorum_time end = sim_holding_end(holding);
    bool lost = atomic_load(&holding->lock->lease->loss) != QUORUM_NOT_LOST;
    look(SIM_TOLD);
    if (!lost && end < holding->told_end)
        sim_violate(SIM_TOLD, "client %u: the end of its lock on '%s' moved back by %.3f ms", process->index + 1,
                    sim_resource_name(holding->resource), (double)(holding->told_end - end) / 1e6);
    holding->told_end = end;
    if (!holding->lost_told && (lost || end <= began))
        sim_violate(SIM_TOLD, "client %u: its lock on '%s' ended %.3f ms before the turn in which it was not told",
                    process->index + 1, sim_resource_name(holding->resource), (double)(began - end) / 1e6);
}

void sim_check_turn(const struct sim_process *process)
{
    quorum_time at = sim_world->now + process->lag;
    quorum_time began = sim_clock_read(&process->clock, sim_world->now);
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        struct sim_slot *slot = (struct sim_slot *)(uintptr_t)&process->slots[i];
        if (!slot->holding.lock || process->closing)
            continue;
        check_holding(slot, began);
        if (sim_world->holders[slot->holding.resource].count > 1 && is_held(slot, at))
            check_exclusion(slot, at);
    }
    if (sim_script_errors)
        sim_violate(SIM_SCRIPT, "%s", sim_script_error);
}

/* ---------------------------------------------------------------------------------------- G4 bounded, G7 exactly once */

/* A process that stood still meanwhile has its time from then on: what it was about to send has left only then. */
static quorum_time latest_answer(const struct sim_operation *operation)
{
    const struct sim_process *process = operation->process;
    quorum_time stalled = process->paused_until > process->lagged_until ? process->paused_until : process->lagged_until;
    if (stalled <= operation->started)
        return operation->latest;
    quorum_time again = sim_clock_read(&process->clock, stalled) + operation->within;
    return again > operation->latest ? again : operation->latest;
}

static void look_at_bound(void *subject, uint64_t number)
{
    struct sim_operation *operation = subject;
    struct sim_process *process = operation->process;
    static const char *const names[] = {"acquire", "extend", "release", "query", "ready", "trust", "close"};
    if (operation->number != number || operation->life != process->life || !process->alive)
        return;
    quorum_time at = sim_clock_when(&process->clock, latest_answer(operation) + 3 * PROMPT, sim_world->now);
    if (at == QUORUM_NEVER)
        at = sim_world->now + 100 * QUORUM_MILLISECOND;
    if (at > sim_world->now)
        sim_at(at, look_at_bound, operation, number);
    else
        sim_violate(SIM_BOUNDED, "client %u: operation %llu (%s) was not answered by its deadline", process->index + 1,
                    (unsigned long long)number, names[operation->kind]);
}

void sim_check_bound(struct sim_operation *operation)
{
    if (operation->latest != QUORUM_NEVER)
        look_at_bound(operation, operation->number);
}

void sim_check_answer(struct sim_operation *operation, int status)
{
    struct sim_process *process = operation->process;
    (void)status;
    look(SIM_ONCE);
    if (operation->number == 0)
        sim_violate(SIM_ONCE, "client %u: an operation was answered twice", process->index + 1);
    else if (process->in_call)
        sim_violate(SIM_ONCE, "client %u: an operation was answered inside a call", process->index + 1);
    if (operation->number)
        sim_operation_end(operation);
}

/* -------------------------------------------------------------------------------------------------- G5 leaves nothing */

static struct sim_author *author_of(struct sim_text token)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < token.size; i++)
        hash = (hash ^ (unsigned char)token.bytes[i]) * UINT64_C(1099511628211);
    struct sim_author *author = &sim_world->authors[(hash ^ hash >> 32) % SIM_AUTHORS];
    return author;
}

/* Who set which token: for what is found in the end. */
void sim_check_note_author(const struct sim_link *link, struct sim_text token)
{
    struct sim_author *author = author_of(token);
    if (memcmp(author->token, token.bytes, sizeof author->token) != 0)
        author->undone = 0;
    memcpy(author->token, token.bytes, sizeof author->token);
    author->process = link->process->index;
    author->life = link->life;
}

static bool has_token(struct sim_node *node, struct sim_text token)
{
    for (unsigned r = 0; r < sim_world->config.resources; r++) {
        const char *name = sim_resource_name(r);
        const struct sim_key *key =
            sim_keyspace_find(&node->server.keys, (struct sim_text){name, strlen(name)}, sim_node_clock(node) / 1000);
        if (key && key->value_size == token.size && memcmp(key->value, token.bytes, token.size) == 0)
            return true;
    }
    return false;
}

void sim_check_undone(const struct sim_node *node, struct sim_text token)
{
    author_of(token)->undone |= 1u << node->index;
}

bool sim_check_is_undone(struct sim_node *node, struct sim_text token)
{
    const struct sim_author *author = author_of(token);
    return author->undone & 1u << node->index && memcmp(author->token, token.bytes, sizeof author->token) == 0 &&
           !has_token(node, token);
}

void sim_check_executed(struct sim_node *node, struct sim_text token)
{
    /* Beyond, a server that takes over connections executes what came before the undo on another. */
    if (!sim_world->config.beyond && has_token(node, token))
        sim_violate(SIM_NOTHING_LEFT, "node %u has executed the undo of %.8s, of client %u, and then sets it",
                    node->index + 1, token.bytes, author_of(token)->process + 1);
}

void sim_check_excuse(struct sim_process *process)
{
    process->excused_lives |= UINT64_C(1) << process->life % 64;
}

static bool is_excused(struct sim_text token)
{
    const struct sim_author *author = author_of(token);
    if (memcmp(author->token, token.bytes, sizeof author->token) != 0)
        return true; /* too many since */
    return sim_world->processes[author->process].excused_lives & UINT64_C(1) << author->life % 64;
}

static bool is_resource(const struct sim_key *key)
{
    return key->name_size == 1;
}

void sim_check_nothing_left(void)
{
    look(SIM_NOTHING_LEFT);
    for (unsigned n = 0; n < sim_world->config.nodes; n++) {
        struct sim_node *node = &sim_world->nodes[n];
        for (size_t i = 0; i < node->server.keys.count; i++) {
            const struct sim_key *key = &node->server.keys.keys[i];
            int64_t now = sim_node_clock(node) / 1000;
            if (!is_resource(key) || key->revived || now > key->expires)
                continue;
            struct sim_text token = {key->value, key->value_size};
            if (is_excused(token))
                continue;
            sim_violate(SIM_NOTHING_LEFT, "node %u still has %.8s under '%s' for %lld ms, of client %u", n + 1,
                        key->value, key->name, (long long)(key->expires - now), author_of(token)->process + 1);
            return;
        }
    }
}

bool sim_check_is_free(unsigned resource)
{
    const char *name = sim_resource_name(resource);
    for (unsigned n = 0; n < sim_world->config.nodes; n++) {
        struct sim_node *node = &sim_world->nodes[n];
        if (sim_keyspace_find(&node->server.keys, (struct sim_text){name, strlen(name)}, sim_node_clock(node) / 1000))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ counts */

void sim_check_count(const struct sim_process *process)
{
    redlock_statistics statistics;
    struct sim_totals *totals = sim_world->totals;
    if (!process->client || redlock_statistics_get(process->client, &statistics) != REDLOCK_OK)
        return;
    totals->renewed += statistics.renewed;
    totals->healed += statistics.healed;
    totals->quarantines += statistics.quarantines;
    totals->late_grants += statistics.late_grants;
    totals->undos_dropped += statistics.undos_dropped;
    totals->hand_offs += statistics.hand_offs;
    if (statistics.undos_dropped)
        sim_check_excuse((struct sim_process *)(uintptr_t)process);
}
