#include "src/lock/renewal.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/core/clock.h"
#include "src/core/memory.h"
#include "src/core/result.h"
#include "src/lock/locks.h"
#include "src/node/reply.h"

/* One lease's part of a batch. */
struct item {
    struct rl_lease *lease; /* a reference */
    struct quorum_round round;
    quorum_nodes absent; /* nodes that lack the lock, by their replies or by may_hold */
    char ttl[24];
    char fence[24];
    char keys[12];
    bool asked;
};

/* The renewals of several leases, or the healing of several on one node. */
struct batch {
    struct rl_locks *locks;
    bool healing;
    bool plain; /* all leases are plain, or none is */
    char fence_ttl[24];
    unsigned references; /* by requests in flight, and by functions that work on it */
    unsigned left;       /* nodes that have not replied and have not been counted */
    quorum_nodes unasked;
    unsigned turn;                  /* the first node */
    bool in_turn;                   /* one node after the other */
    struct rl_timer turns_end;      /* in_turn: when all remaining nodes get the command at once */
    struct rl_long_command command; /* for the nodes that have not got it */
    unsigned count;
    struct item *items;
    struct rl_request ask[];
};

/* ------------------------------------------------------------------------------------------------------- gathering */

void rl_renewals_drop(struct rl_locks *locks)
{
    while (locks->leases.due)
        rl_lease_unref(rl_leases_take_due(&locks->leases));
    rl_timer_stop(&locks->core->timers, &locks->renewal_timer);
}

/* ----------------------------------------------------------------------------------------------------------- batches */

static struct batch *create_batch(struct rl_locks *locks, bool healing, unsigned count)
{
    size_t requests = locks->nodes->count * sizeof(struct rl_request);
    struct batch *batch = rl_allocate(&locks->core->allocator, sizeof *batch + requests);
    struct item *items = batch ? rl_allocate(&locks->core->allocator, count * sizeof *items) : NULL;
    if (!items) {
        rl_free(&locks->core->allocator, batch);
        return NULL;
    }
    batch->locks = locks;
    batch->healing = healing;
    snprintf(batch->fence_ttl, sizeof batch->fence_ttl, "%u", locks->core->options.fence_ttl_ms);
    batch->references = 1;
    batch->items = items;
    return batch;
}

static void heal_after(struct batch *batch);

static void release(struct batch *batch)
{
    struct rl_locks *locks = batch->locks;
    if (--batch->references > 0)
        return;
    rl_timer_stop(&locks->core->timers, &batch->turns_end);
    for (unsigned i = 0; i < batch->count; i++)
        rl_lease_unref(batch->items[i].lease);
    rl_long_command_free(&batch->command, &locks->core->allocator);
    rl_core_free(locks->core, batch->items);
    rl_core_free(locks->core, batch);
}

static void add_plain(struct rl_long_command *command, const struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        rl_long_command_add(command, batch->items[i].lease->key[0].bytes, batch->items[i].lease->key[0].size);
    for (unsigned i = 0; i < batch->count; i++) {
        rl_long_command_add(command, batch->items[i].lease->value.bytes, batch->items[i].lease->value.size);
        rl_long_command_add_text(command, batch->items[i].ttl);
    }
}

static void add_others(struct rl_long_command *command, const struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        for (unsigned k = 0; k < batch->items[i].lease->key_count; k++)
            rl_long_command_add(command, batch->items[i].lease->key[k].bytes, batch->items[i].lease->key[k].size);
    rl_long_command_add_text(command, batch->healing ? "heal" : "keep");
    for (unsigned i = 0; i < batch->count; i++) {
        rl_long_command_add_text(command, batch->items[i].keys);
        rl_long_command_add(command, batch->items[i].lease->value.bytes, batch->items[i].lease->value.size);
        rl_long_command_add_text(command, batch->items[i].ttl);
        rl_long_command_add_text(command, batch->items[i].fence);
        rl_long_command_add_text(command, batch->fence_ttl);
        rl_long_command_add_text(command, batch->items[i].lease->shared ? "shared" : "exclusive");
    }
}

static bool format(const struct batch *batch, bool whole, struct rl_long_command *command)
{
    unsigned keys = 0, arguments = batch->plain ? 2 * batch->count : 1 + 6 * batch->count;
    for (unsigned i = 0; i < batch->count; i++)
        keys += batch->items[i].lease->key_count;
    enum rl_script_id script = batch->healing ? RL_SCRIPT_HEAL : RL_SCRIPT_RENEW;
    if (!rl_long_command_begin(command, &batch->locks->core->allocator, batch->plain ? script : RL_SCRIPT_KEEP, whole,
                               keys, arguments))
        return false;
    (batch->plain ? add_plain : add_others)(command, batch);
    return rl_long_command_format(command);
}

/* whole: with the script's text. NOSCRIPT is a refusal then, otherwise resending would never end. */
static bool send(struct batch *batch, struct rl_node *node, const struct rl_long_command *command, bool whole)
{
    batch->ask[node->index].whole = whole;
    bool sent = rl_node_send(node, &batch->ask[node->index], &command->command);
    batch->references += sent;
    return sent;
}

static bool format_and_send(struct batch *batch, struct rl_node *node, bool whole)
{
    struct rl_long_command command;
    bool sent = format(batch, whole, &command) && send(batch, node, &command, whole);
    rl_long_command_free(&command, &batch->locks->core->allocator);
    return sent;
}

/* The scripts reply with a character per plain lease, or a number per other lease. Any other reply is a refusal. */
static bool is_answer(const struct batch *batch, const redisReply *reply)
{
    if (batch->plain)
        return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == batch->count &&
               strspn(reply->str, "01") == (size_t)reply->len;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->count)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
    return true;
}

/* -1: the lock is missing or another holder's. Whether the node refuses the fencing token does not matter here. */
static bool is_done(const struct batch *batch, const redisReply *reply, unsigned index)
{
    return batch->plain ? reply->str[index] == '1' : reply->element[index]->integer != -1;
}

/* ----------------------------------------------------------------------------------------------------------- renewing */

static void decided(struct item *item)
{
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_RENEWED,
                                             .now = item->round.decided_at,
                                             .validity_end = item->round.validity_end,
                                             .verdict = item->round.verdict,
                                             .random = rl_random_u64(&item->lease->locks->core->random)};
    bool is_won = item->round.verdict == QUORUM_WON;
    item->lease->failed_verdict = is_won ? QUORUM_UNDECIDED : item->round.verdict;
    item->lease->failed_sent = item->round.sent;
    item->lease->failed_votes = item->round.tally;
    item->lease->locks->core->statistics.renewed += is_won;
    item->lease->locks->core->statistics.renewals_failed += !is_won;
    rl_lease_step(item->lease, &event);
}

static void count(struct item *item, unsigned node, enum quorum_vote vote, quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_VOTED, .now = now, .node = node, .vote = vote};
    if (vote == QUORUM_ABSENT)
        item->absent |= quorum_node(node);
    struct quorum_actions actions = quorum_round_step(&item->round, &event);
    if (actions.decided)
        decided(item);
    item->lease->locks->core->statistics.renewed += actions.confirmed;
    if (actions.confirmed && item->round.sent >= item->lease->failed_sent)
        item->lease->failed_verdict = QUORUM_UNDECIDED;
    if (actions.confirmed)
        rl_lease_confirmed(item->lease, &item->round, now);
}

static void count_all(struct batch *batch, unsigned node, enum quorum_vote vote, quorum_time now)
{
    for (unsigned i = 0; i < batch->count; i++)
        count(&batch->items[i], node, vote, now);
}

/* The node has replied or timed out. After the last one, the nodes that lack locks are healed. */
static void settled(struct batch *batch)
{
    if (--batch->left == 0 && !batch->healing)
        heal_after(batch);
}

/* For redlock_renewal_result(). */
static void __attribute__((format(printf, 2, 3))) note_failure(struct rl_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->facts.renewal, sizeof node->facts.renewal, format, arguments);
    va_end(arguments);
}

static void take_renewals(struct batch *batch, unsigned node, const redisReply *reply, quorum_time now)
{
    if (!is_answer(batch, reply)) {
        struct rl_facts *facts = &batch->locks->nodes->node[node].facts;
        rl_reply_text(reply, facts->renewal, sizeof facts->renewal);
        count_all(batch, node, QUORUM_REFUSED, now);
        return;
    }
    for (unsigned i = 0; i < batch->count; i++)
        count(&batch->items[i], node, is_done(batch, reply, i) ? QUORUM_GRANTED : QUORUM_ABSENT, now);
}

static void renewal_answered(struct rl_request *request, const struct rl_answer *answer);
static void heal_answered(struct rl_request *request, const struct rl_answer *answer);
static const struct rl_request_type renewal_type = {.answered = renewal_answered};
static const struct rl_request_type heal_type = {.answered = heal_answered};

static unsigned take_unasked(struct batch *batch)
{
    unsigned node = batch->turn;
    while (!(batch->unasked & quorum_node(node)))
        node = (node + 1) % batch->locks->nodes->count;
    batch->unasked &= ~quorum_node(node);
    return node;
}

/* Sends the same bytes to the next node, or to all that are left. */
static void ask(struct batch *batch)
{
    while (batch->unasked) {
        struct rl_node *node = &batch->locks->nodes->node[take_unasked(batch)];
        batch->ask[node->index].type = &renewal_type;
        if (!rl_node_can_renew(node, rl_now()) || !send(batch, node, &batch->command, false)) {
            note_failure(node, "the link does not take it");
            count_all(batch, node->index, QUORUM_UNREACHABLE, rl_now());
            settled(batch);
        } else if (batch->in_turn) {
            return;
        }
    }
}

static void ask_nobody(struct batch *batch)
{
    while (batch->unasked) {
        count_all(batch, take_unasked(batch), QUORUM_UNREACHABLE, rl_now());
        settled(batch);
    }
}

static void ask_next(struct batch *batch)
{
    bool ending = batch->locks->core->closing || batch->locks->core->forked;
    (ending ? ask_nobody : ask)(batch);
}

static void settled_and_next(struct batch *batch)
{
    ask_next(batch);
    settled(batch);
}

static void on_turns_end(struct rl_timer *timer)
{
    struct batch *batch = (struct batch *)(void *)((char *)timer - offsetof(struct batch, turns_end));
    batch->in_turn = false;
    batch->references++;
    ask_next(batch);
    release(batch);
}

static struct batch *batch_of(struct rl_request *request)
{
    struct rl_request *first = request - request->node->index;
    return (struct batch *)(void *)((char *)first - offsetof(struct batch, ask));
}

static void renewal_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct batch *batch = batch_of(request);
    struct rl_node *node = request->node;
    bool was_overdue = request->overdue && answer->kind != RL_ANSWER_OVERDUE;
    switch (answer->kind) {
    case RL_ANSWER_OVERDUE:
        note_failure(node, "no answer within %llu ms",
                     (unsigned long long)(rl_node_timeout(node) / QUORUM_MILLISECOND));
        count_all(batch, node->index, QUORUM_TIMED_OUT, answer->now);
        settled_and_next(batch);
        return;
    case RL_ANSWER_REPLY:
        if (rl_reply_is_error(answer->reply, "NOSCRIPT") && !request->whole && !was_overdue &&
            format_and_send(batch, node, true))
            break;
        take_renewals(batch, node->index, answer->reply, answer->now);
        if (!was_overdue)
            settled_and_next(batch);
        break;
    case RL_ANSWER_BROKEN:
    case RL_ANSWER_DROPPED:
        note_failure(node, "the connection broke");
        count_all(batch, node->index, QUORUM_UNREACHABLE, answer->now);
        if (!was_overdue)
            settled_and_next(batch);
        break;
    }
    release(batch);
}

/* Includes nodes in quarantine, which withhold only new grants. */
static quorum_nodes askable(struct rl_locks *locks, quorum_time now)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < locks->nodes->count; i++)
        if (rl_node_can_renew(&locks->nodes->node[i], now))
            nodes |= quorum_node(i);
    return nodes;
}

static void begin(struct item *item, quorum_nodes nodes, quorum_time now)
{
    const struct rl_lease *lease = item->lease;
    quorum_duration ttl = quorum_lease_ttl_at(&lease->rules, lease->renewal_ttl, now);
    const struct quorum_terms terms = {.kind = QUORUM_EXTEND,
                                       .nodes = lease->locks->nodes->count,
                                       .ttl = ttl,
                                       .drift_ppm = lease->locks->core->options.drift_ppm,
                                       .validity_end = lease->rules.validity_end};
    const struct quorum_event start = {.type = QUORUM_START, .now = now, .usable = nodes & lease->may_hold};
    quorum_round_init(&item->round, &terms);
    snprintf(item->ttl, sizeof item->ttl, "%llu", (unsigned long long)(ttl / QUORUM_MILLISECOND));
    if (!rl_lease_is_plain(lease))
        snprintf(item->fence, sizeof item->fence, "%llu", (unsigned long long)rl_lease_own_fence(lease));
    snprintf(item->keys, sizeof item->keys, "%u", lease->key_count);
    for (unsigned i = 0; i < lease->locks->nodes->count; i++) {
        if (!(lease->may_hold & quorum_node(i)))
            count(item, i, QUORUM_ABSENT, now);
        else if (!(nodes & quorum_node(i)))
            count(item, i, QUORUM_UNREACHABLE, now);
    }
    item->asked = !quorum_round_over(&item->round);
    struct quorum_actions actions = quorum_round_step(&item->round, &start);
    if (actions.decided)
        decided(item);
}

/* Takes up to 64 due leases, until one of the other kind. A round that is lost before it begins ends at once. */
static void fill(struct batch *batch, quorum_nodes nodes, quorum_time now)
{
    struct rl_leases *leases = &batch->locks->leases;
    batch->plain = rl_lease_is_plain(leases->due);
    while (leases->due && batch->count < RL_RENEWALS_MAX && rl_lease_is_plain(leases->due) == batch->plain) {
        struct item *item = &batch->items[batch->count];
        memset(item, 0, sizeof *item);
        item->lease = rl_leases_take_due(leases);
        if (!item->lease->listed || item->lease->rules.loss) {
            rl_lease_unref(item->lease);
            continue;
        }
        begin(item, nodes, now);
        if (item->asked)
            batch->count++;
        else
            rl_lease_unref(item->lease);
    }
}

/*
 * A command with many keys occupies a node for some tenths of a millisecond. Sent to one node after the other, it
 * leaves a majority free for other requests at any time. But there must be time to wait for every node's timeout.
 * Returns how long the nodes may get the command in turn; 0: not at all.
 */
static quorum_duration time_for_turns(const struct batch *batch, quorum_time now)
{
    quorum_duration timeouts = 0, patience = QUORUM_NEVER;
    if (batch->count < RL_RENEWALS_IN_TURN)
        return 0;
    for (unsigned i = 0; i < batch->locks->nodes->count; i++)
        timeouts += rl_node_timeout(&batch->locks->nodes->node[i]);
    for (unsigned i = 0; i < batch->count; i++) {
        quorum_duration left = quorum_lease_patience(&batch->items[i].lease->rules, now);
        patience = left < patience ? left : patience;
    }
    return timeouts <= patience ? patience : 0;
}

/* The turns have an end, because the timeout of a node with a backlog starts again with each of its replies. */
static void ask_first(struct batch *batch, quorum_nodes nodes, quorum_time now)
{
    quorum_duration turns = time_for_turns(batch, now);
    batch->left = quorum_count(nodes);
    batch->unasked = nodes;
    batch->turn = batch->locks->renewal_turn++ % batch->locks->nodes->count;
    batch->in_turn = turns > 0;
    batch->turns_end.fire = on_turns_end;
    if (batch->in_turn)
        rl_timer_set(&batch->locks->core->timers, &batch->turns_end, quorum_time_add(now, turns));
    (format(batch, false, &batch->command) ? ask : ask_nobody)(batch);
}

/* false: no memory. The leases stay due, and are retried after 10 ms. */
static bool renew_some(struct rl_locks *locks)
{
    unsigned most = locks->leases.due_count < RL_RENEWALS_MAX ? locks->leases.due_count : RL_RENEWALS_MAX;
    struct batch *batch = create_batch(locks, false, most);
    quorum_time now = rl_now();
    if (!batch) {
        rl_timer_set(&locks->core->timers, &locks->renewal_timer, now + 10 * QUORUM_MILLISECOND);
        return false;
    }
    quorum_nodes nodes = askable(locks, now);
    fill(batch, nodes, now);
    if (batch->count)
        ask_first(batch, nodes, now);
    release(batch);
    return true;
}

void rl_renewals_flush(struct rl_locks *locks)
{
    while (locks->leases.due_count >= RL_RENEWALS_MAX && renew_some(locks))
        ;
}

void rl_renewals_gathered(struct rl_timer *timer)
{
    struct rl_locks *locks = (struct rl_locks *)(void *)((char *)timer - offsetof(struct rl_locks, renewal_timer));
    while (locks->leases.due && !timer->set && renew_some(locks))
        ;
}

/* --------------------------------------------------------------------------------------------------------- failures */

static const char *reason(struct rl_node *node, enum quorum_vote vote)
{
    quorum_time now = rl_now();
    if (vote == QUORUM_ABSENT)
        return "the key is not there";
    if (vote == QUORUM_PENDING || vote == QUORUM_GRANTED)
        return "";
    if (vote != QUORUM_UNREACHABLE || rl_node_can_renew(node, now))
        return node->facts.renewal;
    const char *why = rl_node_usable(node, now, false).reason;
    return why && why[0] ? why : "not connected";
}

static enum quorum_vote vote_of(const struct quorum_tally *tally, unsigned node)
{
    enum quorum_vote vote = QUORUM_PENDING;
    while (vote < QUORUM_VOTES && !(tally->voted[vote] & quorum_node(node)))
        vote++;
    return vote;
}

void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result)
{
    struct rl_locks *locks = lease->locks;
    const struct quorum_tally *tally = &lease->failed_votes;
    bool has_failed = lease->failed_verdict != QUORUM_UNDECIDED;
    rl_result_clear(result, locks->nodes->count);
    result->status = result->cause = has_failed ? rl_result_status(lease->failed_verdict) : REDLOCK_OK;
    result->validity_ms = (int64_t)(rl_lease_validity(lease) / QUORUM_MILLISECOND);
    for (unsigned i = 0; i < locks->nodes->count; i++) {
        enum quorum_vote vote = has_failed ? vote_of(tally, i) : QUORUM_PENDING;
        result->node[i].name = locks->nodes->node[i].address.name;
        result->node[i].outcome = rl_result_outcome(vote);
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", reason(&locks->nodes->node[i], vote));
    }
    if (!has_failed)
        return;
    result->attempts = 1;
    rl_result_count(result, tally);
}

/* ------------------------------------------------------------------------------------------------------------ healing */

static void heal_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct batch *batch = batch_of(request);
    unsigned node = request->node->index;
    if (answer->kind == RL_ANSWER_OVERDUE)
        return;
    if (answer->kind == RL_ANSWER_REPLY) {
        bool understood = is_answer(batch, answer->reply);
        for (unsigned i = 0; i < batch->count; i++) {
            if (understood && !is_done(batch, answer->reply, i))
                batch->items[i].lease->may_hold &= ~quorum_node(node); /* by its reply it has nothing of ours */
            else if (understood)
                batch->locks->core->statistics.healed++;
        }
        if (rl_reply_is_error(answer->reply, "NOSCRIPT"))
            rl_log(batch->locks->core, REDLOCK_LOG_DEBUG, "%s: forgot its scripts; healed at the next renewal",
                   request->node->address.name);
    }
    release(batch);
}

/* Only locks that a majority has just confirmed, and that are still held. */
static bool is_to_heal(const struct item *item, quorum_nodes node)
{
    return (item->absent & node) && item->lease->listed && quorum_lease_may_heal(&item->lease->rules);
}

static void heal_on(struct batch *renewed, struct rl_node *node)
{
    quorum_nodes bit = quorum_node(node->index);
    struct batch *batch = create_batch(renewed->locks, true, renewed->count);
    if (!batch)
        return; /* the next renewal heals the node */
    batch->plain = renewed->plain;
    for (unsigned i = 0; i < renewed->count; i++) {
        if (!is_to_heal(&renewed->items[i], bit))
            continue;
        struct item *item = &batch->items[batch->count++];
        item->lease = rl_lease_ref(renewed->items[i].lease);
        memcpy(item->ttl, renewed->items[i].ttl, sizeof item->ttl);
        memcpy(item->fence, renewed->items[i].fence, sizeof item->fence);
        memcpy(item->keys, renewed->items[i].keys, sizeof item->keys);
    }
    batch->ask[node->index].type = &heal_type;
    if (batch->count && format_and_send(batch, node, false))
        for (unsigned i = 0; i < batch->count; i++)
            batch->items[i].lease->may_hold |= bit;
    release(batch);
}

static void heal_after(struct batch *batch)
{
    quorum_time now = rl_now();
    quorum_nodes absent = 0;
    for (unsigned i = 0; i < batch->count; i++)
        absent |= batch->items[i].absent;
    for (quorum_nodes left = absent & askable(batch->locks, now); left; left &= left - 1) {
        struct rl_node *node = &batch->locks->nodes->node[__builtin_ctz(left)];
        unsigned wanted = 0;
        for (unsigned i = 0; i < batch->count; i++)
            wanted += is_to_heal(&batch->items[i], quorum_node(node->index));
        if (wanted)
            heal_on(batch, node);
    }
}
