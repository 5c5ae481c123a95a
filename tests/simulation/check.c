/*
 * The guarantees, by name. Each world keeps a history of its locks by true time, which the checker of tests/torture judges
 * when the world ends: exclusion, fencing and late reports of a loss. What no client could see is checked here, after every
 * step.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/client/client.h"
#include "support/fixture.h"
#include "world.h"

const char *const sim_invariant_names[SIM_INVARIANTS] = {
    "none",    "G1 exclusion",    "G2 fencing", "G3 told in time", "G4 bounded", "G5 leaves nothing",
    "G6 live", "G7 exactly once", "G8 sparing", "clocks",          "scripts"};

#define NAME(situation, name) name,
const char *const sim_situation_names[SIM_SITUATIONS] = {SIM_SITUATIONS_MET(NAME)};

int sim_history = -1;

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
    /* beyond the assumptions two clients may hold one lock: this is counted, and the world continues */
    bool allowed = invariant == SIM_EXCLUSION && sim_world->config.beyond;
    if (violation->invariant != SIM_SOUND || allowed)
        return;
    violation->invariant = invariant;
    violation->at = sim_world->now;
    violation->operations = sim_world->operations;
    memcpy(violation->text, text, sizeof text);
}

/* One line for each resource. Numbers are in microseconds. */
static void record_number(const struct sim_slot *slot, enum history_event event, quorum_time at, int64_t number)
{
    const struct sim_process *process = slot->process;
    const struct sim_holding *holding = &slot->holding;
    struct history_line line = {.time = at, .event = event, .number = number};
    unsigned long long world = sim_world->totals->worlds + 1;
    if (!holding->recorded)
        return;
    snprintf(line.who, sizeof line.who, "%llu-%u-%u", world, process->index + 1, process->life);
    snprintf(line.text, sizeof line.text, "%s", holding->shared ? "shared" : "-");
    if (holding->permits)
        snprintf(line.text, sizeof line.text, "%u/%u", holding->permits, sim_world->config.permits);
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        line.hold = holding->recorded * SIM_NAMES + i;
        snprintf(line.resource, sizeof line.resource, "%llu.%s", world, sim_resource_name(i));
        if (!sim_is_on(holding, i))
            continue;
        check_add(sim_world->check, &line);
        if (sim_history >= 0 && !history_write(sim_history, &line))
            fixture_fail("cannot write the history");
    }
}

void sim_check_record(const struct sim_slot *slot, enum history_event event)
{
    record_number(slot, event, sim_world->now + slot->process->lag, 0);
}

/* The process does not run from now on. */
void sim_check_stalled(const struct sim_process *process, quorum_time until)
{
    struct history_line line = {.time = until, .event = HISTORY_STALL};
    line.number = (int64_t)((until - sim_world->now) / QUORUM_MILLISECOND + 1);
    snprintf(line.who, sizeof line.who, "%llu-%u-%u", sim_world->totals->worlds + 1, process->index + 1, process->life);
    check_add(sim_world->check, &line);
}

static void judge(void *arg, enum check_promise which, uint64_t time, const char *text)
{
    static const enum sim_invariant invariants[CHECK_PROMISES] = {SIM_EXCLUSION, SIM_FENCING, SIM_TOLD, SIM_BOUNDED,
                                                                  SIM_NOTHING_LEFT};
    (void)arg;
    sim_violate(invariants[which], "at %.6f s: %s", (double)(time - QUORUM_SECOND) / 1e9, text);
}

void sim_check_history(void)
{
    check_all(sim_world->check, judge, NULL);
}

/* ----------------------------------------------------------------------------------------------- G1 exclusion, G2 fencing */

quorum_time sim_holding_end(const struct sim_holding *holding)
{
    return atomic_load(&holding->lock->lease->validity_end);
}

/* True if the validity query would return at this true time that the process holds the lock. */
static bool is_held(const struct sim_slot *slot, quorum_time at)
{
    return slot->holding.since <= at && sim_holding_end(&slot->holding) > sim_clock_read(&slot->process->clock, at);
}

/* What the validity query would return, in true time. A clock that has changed its rate moves it. */
static void record_validity(struct sim_slot *slot, enum history_event event)
{
    quorum_time at = sim_world->now + slot->process->lag;
    quorum_time end = sim_clock_when(&slot->process->clock, sim_holding_end(&slot->holding), at);
    if (end == QUORUM_NEVER || end <= at || (event == HISTORY_VALID && end <= slot->holding.promised))
        return;
    slot->holding.promised = end;
    record_number(slot, event, at, (int64_t)((end - at) / QUORUM_MICROSECOND));
}

void sim_check_clock(struct sim_process *process)
{
    for (unsigned i = 0; process->alive && !process->closing && i < sim_world->config.slots; i++)
        if (process->slots[i].holding.lock)
            record_validity(&process->slots[i], HISTORY_VALID);
}

/* From now on the lock is held in this mode. */
void sim_check_record_hold(struct sim_slot *slot, quorum_time started)
{
    slot->holding.recorded = ++sim_world->recorded;
    record_number(slot, HISTORY_START, started, -1);
    record_validity(slot, HISTORY_HELD);
}

/* Handles of one lock share the latest end of at_least_ms. */
static void share_least(struct sim_slot *slot)
{
    struct sim_process *process = slot->process;
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        struct sim_holding *other = &process->slots[i].holding, *holding = &slot->holding;
        if (!other->lock || other->lock->lease != holding->lock->lease)
            continue;
        holding->least = other->least > holding->least ? other->least : holding->least;
        other->least = holding->least;
    }
}

/* How long the lock is kept, in microseconds of true time. */
static int64_t time_until(const struct sim_process *process, quorum_time shown)
{
    quorum_time now = sim_world->now + process->lag, at = sim_clock_when(&process->clock, shown, now);
    return at == QUORUM_NEVER ? 0 : (int64_t)((at - now) / QUORUM_MICROSECOND);
}

static const struct sim_slot *find_other_handle(const struct sim_slot *slot)
{
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        const struct sim_slot *other = &slot->process->slots[i];
        if (other != slot && other->holding.lock && other->holding.lock->lease == slot->holding.lock->lease)
            return other;
    }
    return NULL;
}

/* Until a majority has the release, its nodes keep the lock as long as its validity: no node may have got it. */
void sim_check_releasing(struct sim_operation *operation)
{
    const struct sim_process *process = operation->process;
    const struct sim_holding *holding = &operation->slot->holding;
    quorum_time end = sim_holding_end(holding), now = sim_process_clock(process);
    if (find_other_handle(operation->slot))
        return; /* which keeps it */
    bool keeps = holding->least > now && end > now && !holding->lost_told;
    quorum_time until = holding->least < end ? holding->least : end;
    operation->least = keeps ? holding->least : 0;
    sim_world->totals->met[SIM_MET_AT_LEAST] += keeps;
    record_number(operation->slot, HISTORY_RELEASE, sim_world->now + process->lag,
                  keeps ? time_until(process, until) : 0);
}

void sim_check_kept(const struct sim_operation *operation)
{
    const struct sim_process *process = operation->process;
    if (operation->least)
        record_number(operation->slot, HISTORY_RELEASED, sim_world->now + process->lag,
                      time_until(process, operation->least));
}

/* False if the entry was overwritten: too many tokens since. */
static bool is_author(const struct sim_author *author, struct resp_argument token)
{
    return memcmp(author->token, token.data, sizeof author->token) == 0;
}

/* The token's entry, or a free one, or that of another token if there is none nearby. */
static struct sim_author *author_of(struct resp_argument token)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < token.length && token.data[i] != '/'; i++) /* the digits */
        hash = (hash ^ (unsigned char)token.data[i]) * UINT64_C(1099511628211);
    size_t first = (hash ^ hash >> 32) % SIM_AUTHORS;
    for (size_t i = first; i < first + SIM_AUTHORS_NEAR; i++) {
        struct sim_author *author = &sim_world->authors[i % SIM_AUTHORS];
        if (!author->token[0] || is_author(author, token))
            return author;
    }
    return &sim_world->authors[first];
}

static struct sim_author *note_author(const struct sim_process *process, unsigned life, struct resp_argument token)
{
    struct sim_author *author = author_of(token);
    if (!is_author(author, token))
        *author = (struct sim_author){.process = process->index, .life = life, .since = sim_world->now};
    memcpy(author->token, token.data, sizeof author->token);
    return author;
}

/* A reader is told another's token. Nodes that have lost keys do not know it. If the owner has re-entered the lock, it may have
 * been held when the acquire began. */
static void record_fence(const struct sim_slot *slot)
{
    const struct sim_holding *holding = &slot->holding;
    struct resp_argument token = resp_argument_of(rl_lease_token_text(holding->lock->lease));
    struct sim_author *author = note_author(slot->process, slot->process->life, token);
    bool known = author->granted || find_other_handle(slot);
    author->granted = true;
    sim_world->totals->met[SIM_MET_FENCE] += holding->fence && !holding->shared && !known;
    /* After nodes have lost keys, the order of the tokens depends on the clients' wall clocks. */
    bool rests_on_clocks = sim_world->forgotten && !sim_world->config.exact_walls;
    if (!known && (holding->shared ? !sim_world->forgotten : holding->fence && !rests_on_clocks))
        record_number(slot, HISTORY_FENCE, sim_world->now + slot->process->lag, (int64_t)holding->fence);
}

/* --------------------------------------------------------------------------------------------- G3 loss notification */

static void count_kind(const struct sim_slot *slot)
{
    struct sim_totals *totals = sim_world->totals;
    uint32_t resources = slot->holding.resources;
    totals->met[SIM_MET_PERMIT] += resources == 1u << SIM_SEMAPHORE;
    totals->met[SIM_MET_SEVERAL] += (resources & (resources - 1)) != 0;
    bool together = false, mixed = false;
    for (unsigned i = 0; slot->holding.shared && i < SIM_PROCESSES_MAX * SIM_SLOTS_MAX; i++) {
        const struct sim_slot *other = &sim_world->processes[i / SIM_SLOTS_MAX].slots[i % SIM_SLOTS_MAX];
        if (other == slot || !other->holding.lock || !(other->holding.resources & resources))
            continue;
        together = true;
        mixed = mixed || other->ttl_ms != slot->ttl_ms;
    }
    totals->met[SIM_MET_READERS] += together;
    totals->met[SIM_MET_MIXED_READERS] += mixed;
}

void sim_check_granted(const struct sim_operation *operation)
{
    struct sim_slot *slot = operation->slot;
    quorum_time at = sim_world->now + slot->process->lag;
    slot->process->holds++;
    const struct sim_slot *other = find_other_handle(slot);
    slot->holding.recorded = other ? other->holding.recorded : 0;
    if (!other)
        sim_check_record_hold(slot, operation->started);
    count_kind(slot);
    share_least(slot);
    quorum_time kept = at + slot->holding.at_least_ms * QUORUM_MILLISECOND;
    sim_world->kept_until = kept > sim_world->kept_until ? kept : sim_world->kept_until;
    if (!is_held(slot, at) && !slot->process->lag)
        sim_violate(SIM_EXCLUSION, "client %u was given '%s', which it does not hold", slot->process->index + 1,
                    sim_holding_name(&slot->holding));
    record_fence(slot);
}

/* No majority has confirmed the lock since a renewal of it failed in an earlier turn. In one turn a renewal may be
 * confirmed, and a later one fail, before the bytes that follow from the first leave. */
static bool is_unconfirmed(const struct sim_holding *holding)
{
    return holding->told_failure && holding->lock->lease->rules.failures &&
           sim_holding_end(holding) <= holding->told_end;
}

/* A key may be set again only if a majority has just confirmed the lock. Another command with its token may be the undo of
 * a lock that has just been lost. */
static void check_heal(const struct sim_process *process, const struct resp_command *command)
{
    bool heals = sim_text_is(sim_script_name(command->argv[1]), "heal");
    for (size_t i = 3; i < command->argc; i++)
        heals = heals || resp_argument_is(&command->argv[i], "heal");
    if (!heals)
        return;
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        const struct sim_holding *holding = &process->slots[i].holding;
        if (!holding->lock || !is_unconfirmed(holding))
            continue;
        const char *token = rl_lease_token_text(holding->lock->lease);
        for (size_t w = 3; w < command->argc; w++)
            if (resp_argument_is(&command->argv[w], token))
                sim_violate(SIM_EXCLUSION, "client %u sets '%s' again, though no majority has confirmed that it has it",
                            process->index + 1, sim_holding_name(holding));
    }
}

/* ----------------------------------------------------------------------------------------------- G8 bounded polling */

/*
 * A waiter polls a node once a second, and when the lock may be free: when it is woken, or when a key expires; after
 * eight wake-ups in vain in a row it pauses. Behind holders that wake no waiter, all waiters of a process poll 125 times
 * a second in the long run. A process waits for at most four locks, and requests each of a semaphore's four permits.
 * That makes less than 175 requests per second, plus the first requests of each acquire.
 *
 * The check allows a little more than this rate, and a burst of 400 requests. Measured with half the rate and half the
 * allowance per acquire, the largest excess in 120,000 operations was 54. A waiter that polls again as soon as it gets
 * a reply sends 1,000 requests per second.
 */
#define ASKING      (QUORUM_SECOND / 200)
#define SAVED       400
#define PER_ACQUIRE 8

/* The requests of a process to a node are counted as time spent. Spent time recovers as time passes. */
void sim_check_waits(struct sim_process *process)
{
    const quorum_duration given = PER_ACQUIRE * ASKING;
    for (unsigned i = 0; i < sim_hosts(); i++)
        process->spent[i] -= process->spent[i] > given ? given : process->spent[i];
}

static void check_sparing(struct sim_process *process, unsigned node)
{
    quorum_time now = sim_world->now + process->lag, *spent = &process->spent[node];
    *spent = (*spent > now ? *spent : now) + ASKING;
    if (*spent - now > SAVED * ASKING)
        sim_violate(SIM_SPARING,
                    "client %u, as a waiter, asks node %u again and again: %u times more than it has reason to",
                    process->index + 1, node + 1, SAVED);
}

/* The library writes whole commands, but a socket may take a part. The text of a wait only repeats a request after NOSCRIPT. */
void sim_check_sent(struct sim_process *process, unsigned node, const char *bytes, size_t size)
{
    struct resp_command *command;
    for (size_t length; resp_parse_command(bytes, size, &length, &command) == RESP_WHOLE;) {
        struct resp_argument name = sim_script_name(command->argv[command->argc > 1]);
        if (sim_text_is(name, "heal") || sim_text_is(name, "keep"))
            check_heal(process, command);
        else if (sim_text_is(name, "wait") && sim_text_is(command->argv[0], "EVALSHA"))
            check_sparing(process, node);
        free(command);
        bytes += length;
        size -= length;
    }
}

void sim_check_released(const struct sim_slot *slot)
{
    slot->process->holds--;
}

/* After a turn: if the lock's validity had ended when the turn began, its loss must have been reported. A validity
 * that was returned before must not have shrunk. */
static void check_holding(struct sim_slot *slot, quorum_time began)
{
    struct sim_process *process = slot->process;
    struct sim_holding *holding = &slot->holding;
    quorum_time end = sim_holding_end(holding);
    bool lost = atomic_load(&holding->lock->lease->loss) != QUORUM_NOT_LOST;
    if (!lost && end < holding->told_end)
        sim_violate(SIM_TOLD, "client %u: the end of its lock on '%s' moved back by %.3f ms", process->index + 1,
                    sim_holding_name(holding), (double)(holding->told_end - end) / 1e6);
    const struct quorum_lease *rules = &holding->lock->lease->rules;
    sim_world->totals->met[SIM_MET_IN_TURN] +=
        holding->told_end && end > holding->told_end && end > rules->turns.round_end && !rules->failures;
    record_validity(slot, HISTORY_VALID);
    holding->told_end = end;
    holding->told_failure = holding->lock->lease->rules.failures > 0;
    if (!holding->lost_told && (lost || end <= began))
        sim_violate(SIM_TOLD, "client %u: its lock on '%s' ended %.3f ms before the turn in which it was not told",
                    process->index + 1, sim_holding_name(holding), (double)(began - end) / 1e6);
}

void sim_check_turn(const struct sim_process *process)
{
    quorum_time began = sim_clock_read(&process->clock, sim_world->now);
    for (unsigned i = 0; i < sim_world->config.slots; i++) {
        struct sim_slot *slot = (struct sim_slot *)(uintptr_t)&process->slots[i];
        if (slot->holding.lock && !process->closing)
            check_holding(slot, began);
    }
    if (sim_script_errors)
        sim_violate(SIM_SCRIPT, "%s", sim_script_error);
}

/* -------------------------------------------------------------------------------------- G4 bounded, G7 exactly once */

/* If the process was stopped meanwhile, its time starts when it continues: its pending requests left only then. */
static quorum_time latest_answer(const struct sim_operation *operation)
{
    const struct sim_process *process = operation->process;
    quorum_time stalled = process->paused_until > process->lagged_until ? process->paused_until : process->lagged_until;
    if (stalled <= operation->started)
        return operation->latest;
    quorum_time again = sim_clock_read(&process->clock, stalled) + operation->within;
    return again > operation->latest ? again : operation->latest;
}

void sim_check_answer(struct sim_operation *operation)
{
    struct sim_process *process = operation->process;
    if (operation->latest != QUORUM_NEVER &&
        sim_clock_read(&process->clock, sim_world->now) > latest_answer(operation) + 3 * SIM_PROMPT)
        sim_violate(SIM_BOUNDED, "client %u: operation %llu (%s) was answered after its deadline", process->index + 1,
                    (unsigned long long)operation->number, operation->name);
    if (operation->number == 0)
        sim_violate(SIM_ONCE, "client %u: an operation was answered twice", process->index + 1);
    else if (process->in_call)
        sim_violate(SIM_ONCE, "client %u: an operation was answered inside a call", process->index + 1);
    if (operation->number == 0)
        return;
    sim_world->operations_under_way--;
    process->under_way--;
    operation->number = 0;
}

/* ------------------------------------------------------------------------------------------------ G5 leaves nothing */

/* For the keys that remain at the end. The token of a lock that was handed over is noted when its client has the lock. */
void sim_check_note_author(const struct sim_link *link, struct resp_argument token)
{
    note_author(link->process, link->life, token);
}

static bool has_token(struct sim_node *node, struct resp_argument token)
{
    struct resp_argument value;
    for (unsigned r = 0; r < sim_world->config.resources; r++)
        if (sim_keyspace_get(&node->server.keys, sim_resource_name(r), sim_node_clock(node), &value) &&
            value.length >= token.length && memcmp(value.data, token.data, token.length) == 0)
            return true;
    return false;
}

void sim_check_undone(const struct sim_node *node, struct resp_argument token)
{
    struct sim_author *author = author_of(token);
    if (is_author(author, token))
        author->undone |= 1u << node->index;
    sim_world->totals->met[SIM_MET_LATE_UNDO] += author->since < node->restarted;
}

bool sim_check_is_undone(struct sim_node *node, struct resp_argument token)
{
    const struct sim_author *author = author_of(token);
    return is_author(author, token) && author->undone & 1u << node->index && !has_token(node, token);
}

void sim_check_executed(struct sim_node *node, struct resp_argument token)
{
    /* beyond the assumptions, a server that takes over connections executes earlier commands of another connection
     * after the undo */
    if (!sim_world->config.beyond && has_token(node, token))
        sim_violate(SIM_NOTHING_LEFT, "node %u has executed the undo of %.8s, of client %u, and then sets it",
                    node->index + 1, token.data, author_of(token)->process + 1);
}

void sim_check_excuse(struct sim_process *process)
{
    process->excused_lives |= UINT64_C(1) << process->life % 64;
}

static bool is_excused(struct resp_argument token)
{
    const struct sim_author *author = author_of(token);
    bool excused = sim_world->processes[author->process].excused_lives >> author->life % 64 & 1;
    return excused || !is_author(author, token);
}

#define SLOT_INFIX ":redlock:slot:"

/* True for the key of a lock, false for the keys of its queue and its fencing record. */
static bool is_lock(const struct sim_key *key)
{
    return key->name.length == 1 || strncmp(key->name.data + 1, SLOT_INFIX, sizeof SLOT_INFIX - 1) == 0;
}

/* Each reader's token of a shared lock has a separate end. */
static void check_is_not_left(const struct sim_key *key, void *arg)
{
    const struct sim_node *node = arg;
    int64_t left_ms = key->ends - sim_node_clock(node) / 1000;
    if (is_lock(key) && !key->revived && left_ms >= 0 && !is_excused(key->value))
        sim_violate(SIM_NOTHING_LEFT, "node %u still has %.8s under '%s' for %lld ms, of client %u", node->index + 1,
                    key->value.data, key->name.data, (long long)left_ms, author_of(key->value)->process + 1);
}

void sim_check_nothing_left(void)
{
    for (unsigned n = 0; n < sim_servers(); n++)
        sim_keyspace_each(&sim_world->nodes[n].server.keys, check_is_not_left, &sim_world->nodes[n]);
}

/* ----------------------------------------------------------------------------------------------------------- counts */

/* Clocks drift within the assumptions, and no clock jumps or stops. Neither late replies nor another server under a
 * node's name may be reported as a jump or a stop. */
static void check_clocks(const struct sim_process *process, const redlock_statistics *statistics)
{
    unsigned long long jumps = statistics->node_clock_jumps + (process->client->nodes->clock_stopped != 0);
    if (sim_world->config.beyond || sim_world->config.faults & 1u << SIM_FAULT_JUMP)
        return;
    if (jumps)
        sim_violate(SIM_CLOCKS, "client %u says %llu times that a clock jumped or stopped", process->index + 1, jumps);
}

void sim_node_forgets(struct sim_node *node)
{
    node->forgot = sim_world->now;
    sim_world->forgotten = true;
}

void sim_check_hand_over(struct sim_process *process)
{
    const struct sim_config *config = &sim_world->config;
    uint64_t handed_over = process->client->core.statistics.hand_offs;
    bool forgot = false;
    for (unsigned i = 0; i < sim_servers(); i++) {
        quorum_time at = sim_world->nodes[i].forgot;
        forgot = forgot || (at && sim_world->now < at + config->max_ttl_ms * QUORUM_MILLISECOND);
    }
    sim_world->totals->met[SIM_MET_FORGETTING] += forgot && handed_over > process->handed_over;
    process->handed_over = handed_over;
}

void sim_check_count(const struct sim_process *process)
{
    redlock_statistics statistics;
    struct sim_totals *totals = sim_world->totals;
    if (!process->client || redlock_statistics_get(process->client, &statistics) != REDLOCK_OK)
        return;
    check_clocks(process, &statistics);
    totals->met[SIM_MET_RENEWAL] += statistics.renewed;
    totals->met[SIM_MET_HEAL] += statistics.healed;
    totals->met[SIM_MET_QUARANTINE] += statistics.quarantines;
    totals->met[SIM_MET_LATE_GRANT] += statistics.late_grants;
    totals->met[SIM_MET_HAND_OVER] += statistics.hand_offs;
    if (statistics.undos_dropped)
        sim_check_excuse((struct sim_process *)(uintptr_t)process);
}
