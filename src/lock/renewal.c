#include "src/lock/renewal.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/lock/batch.h"
#include "src/lock/heal.h"
#include "src/lock/locks.h"
#include "src/node/reply.h"

void rl_renewals_drop(struct rl_locks *locks)
{
    while (locks->leases.due)
        rl_lease_unref(rl_leases_take_due(&locks->leases));
    rl_timer_stop(&locks->core->timers, &locks->renewal_timer);
}

/* ------------------------------------------------------------------------------------------------------------- votes */

static void decided(struct rl_batch_item *item)
{
    struct rl_lease *lease = item->lease;
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_RENEWED,
                                             .now = item->round.decided_at,
                                             .validity_end = item->round.validity_end,
                                             .verdict = item->round.verdict,
                                             .random = rl_random_u64(&lease->locks->core->random)};
    bool is_won = item->round.verdict == QUORUM_WON;
    if (is_won)
        rl_lease_clear_failure(lease);
    else
        rl_lease_note_failure(lease, &item->round);
    lease->locks->core->statistics.renewed += is_won;
    lease->locks->core->statistics.renewals_failed += !is_won;
    rl_lease_step(lease, &event);
}

static void count(struct rl_batch_item *item, unsigned node, enum quorum_vote vote, quorum_time now)
{
    const struct quorum_event event = {.type = QUORUM_VOTED, .now = now, .node = node, .vote = vote};
    if (vote == QUORUM_ABSENT)
        item->absent |= quorum_node(node);
    struct quorum_actions actions = quorum_round_step(&item->round, &event);
    if (actions.decided)
        decided(item);
    item->lease->locks->core->statistics.renewed += actions.confirmed;
    const struct rl_renewal_failure *failure = item->lease->renewal.failure;
    if (actions.confirmed && failure && item->round.sent >= failure->sent)
        rl_lease_clear_failure(item->lease);
    if (actions.confirmed)
        rl_lease_confirmed(item->lease, &item->round, now);
}

static void count_all(struct rl_batch *batch, unsigned node, enum quorum_vote vote, quorum_time now)
{
    for (unsigned i = 0; i < batch->count; i++)
        count(&batch->item[i], node, vote, now);
}

/* Includes nodes in quarantine, which withhold only new grants. */
static quorum_nodes renewable_nodes(struct rl_locks *locks, quorum_time now)
{
    quorum_nodes nodes = 0;
    for (unsigned i = 0; i < locks->nodes->count; i++)
        if (rl_node_can_renew(&locks->nodes->node[i], now))
            nodes |= quorum_node(i);
    return nodes;
}

/* The node has replied or timed out. After the last one, the nodes that lack locks are healed. */
static void settled(struct rl_batch *batch)
{
    assert(batch->turns.left > 0); /* a node is counted once */
    if (--batch->turns.left == 0)
        rl_heal_after(batch, renewable_nodes(batch->locks, rl_now()));
}

/* For redlock_renewal_result(). */
static void __attribute__((format(printf, 2, 3))) note_failure(struct rl_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->renewal_failure, sizeof node->renewal_failure, format, arguments);
    va_end(arguments);
}

/* A server refuses the whole command for one key that the user may not use: the next time each lease has its own. */
static void part(struct rl_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        batch->item[i].lease->renewal.apart = true;
}

static void take_reply(struct rl_batch *batch, struct rl_node *node, const redisReply *reply, quorum_time now)
{
    if (!rl_batch_is_answer(batch, reply)) {
        rl_reply_text(reply, node->renewal_failure, sizeof node->renewal_failure);
        if (rl_reply_error(reply) == RL_ERROR_NOT_PERMITTED)
            part(batch);
        count_all(batch, node->index, QUORUM_REFUSED, now);
        return;
    }
    for (unsigned i = 0; i < batch->count; i++)
        count(&batch->item[i], node->index, rl_batch_is_done(batch, reply, i) ? QUORUM_GRANTED : QUORUM_ABSENT, now);
}

/* ----------------------------------------------------------------------------------------------------------- sending */

static unsigned take_unasked(struct rl_batch *batch)
{
    unsigned node = batch->turns.first;
    assert(batch->turns.unasked && node < batch->locks->nodes->count);
    while (!(batch->turns.unasked & quorum_node(node)))
        node = (node + 1) % batch->locks->nodes->count;
    batch->turns.unasked &= ~quorum_node(node);
    return node;
}

/* Sends the same bytes to the next node, or to all that are left. */
static void ask(struct rl_batch *batch)
{
    while (batch->turns.unasked) {
        struct rl_node *node = &batch->locks->nodes->node[take_unasked(batch)];
        if (!rl_node_can_renew(node, rl_now()) ||
            rl_fanout_send(&batch->fanout, quorum_node(node->index), &batch->turns.command.command)) {
            note_failure(node, "the request could not be sent");
            count_all(batch, node->index, QUORUM_UNREACHABLE, rl_now());
            settled(batch);
        } else if (batch->turns.one_by_one) {
            return;
        }
    }
}

static void ask_nobody(struct rl_batch *batch)
{
    while (batch->turns.unasked) {
        count_all(batch, take_unasked(batch), QUORUM_UNREACHABLE, rl_now());
        settled(batch);
    }
}

static void ask_next(struct rl_batch *batch)
{
    bool ending = batch->locks->core->closing || batch->locks->core->forked;
    (ending ? ask_nobody : ask)(batch);
}

static void on_turns_end(struct rl_timer *timer)
{
    struct rl_batch *batch = (struct rl_batch *)(void *)((char *)timer - offsetof(struct rl_batch, turns.end));
    batch->turns.one_by_one = false;
    rl_fanout_ref(&batch->fanout);
    ask_next(batch);
    rl_fanout_unref(&batch->fanout);
}

/* A node votes once: a reply after its timeout counts only in the rules. */
static void answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_batch *batch = (struct rl_batch *)fanout;
    struct rl_node *node = answer->node;
    bool was_overdue = request->overdue && answer->kind != RL_ANSWER_OVERDUE;
    switch (answer->kind) {
    case RL_ANSWER_OVERDUE:
        note_failure(node, "no reply within %llu ms", (unsigned long long)(rl_node_timeout(node) / QUORUM_MILLISECOND));
        count_all(batch, node->index, QUORUM_TIMED_OUT, answer->now);
        break;
    case RL_ANSWER_REPLY:
        take_reply(batch, node, answer->reply, answer->now);
        break;
    case RL_ANSWER_BROKEN:
    case RL_ANSWER_DROPPED:
        note_failure(node, "the connection broke");
        count_all(batch, node->index, QUORUM_UNREACHABLE, answer->now);
        break;
    }
    if (was_overdue)
        return;
    ask_next(batch);
    settled(batch);
}

static bool resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    return !request->overdue && rl_batch_send((struct rl_batch *)fanout, node->index, use_eval);
}

static const struct rl_fanout_type type = {.answered = answered, .resend = resend, .destroy = rl_batch_destroy};

/* --------------------------------------------------------------------------------------------------------- the batch */

static void write_numbers(struct rl_batch_item *item)
{
    const struct rl_lease *lease = item->lease;
    rl_decimal(item->ttl, item->round.terms.ttl / QUORUM_MILLISECOND);
    rl_decimal(item->keys, lease->key_count);
    if (!rl_lease_is_plain(lease))
        rl_decimal(item->fence, rl_lease_own_fence(lease));
}

/* false: the round is lost before it begins. */
static bool begin(struct rl_batch_item *item, quorum_nodes nodes, quorum_time now)
{
    const struct rl_lease *lease = item->lease;
    const struct quorum_terms terms = {.kind = QUORUM_EXTEND,
                                       .nodes = lease->locks->nodes->count,
                                       .ttl = quorum_lease_ttl_at(&lease->rules, lease->renewal.ttl, now),
                                       .drift_ppm = lease->locks->core->options.drift_ppm,
                                       .validity_end = lease->rules.validity_end};
    const struct quorum_event start = {.type = QUORUM_START, .now = now, .usable = nodes & lease->may_hold};
    quorum_round_init(&item->round, &terms);
    write_numbers(item);
    for (unsigned i = 0; i < lease->locks->nodes->count; i++) {
        if (!(lease->may_hold & quorum_node(i)))
            count(item, i, QUORUM_ABSENT, now);
        else if (!(nodes & quorum_node(i)))
            count(item, i, QUORUM_UNREACHABLE, now);
    }
    bool begins = !quorum_round_over(&item->round);
    struct quorum_actions actions = quorum_round_step(&item->round, &start);
    if (actions.decided)
        decided(item);
    return begins;
}

static bool fits(const struct rl_batch *batch, const struct rl_lease *lease)
{
    bool apart = batch->count > 0 && (lease->renewal.apart || batch->item[0].lease->renewal.apart);
    return !apart && rl_lease_is_plain(lease) == batch->plain;
}

/* Takes up to `most` due leases, until one that does not fit. */
static void fill(struct rl_batch *batch, unsigned most, quorum_nodes nodes, quorum_time now)
{
    struct rl_leases *leases = &batch->locks->leases;
    while (leases->due && batch->count < most && fits(batch, leases->due)) {
        struct rl_batch_item *item = &batch->item[batch->count];
        *item = (struct rl_batch_item){.lease = rl_leases_take_due(leases)};
        if (item->lease->links.listed && !item->lease->rules.loss && begin(item, nodes, now))
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
static quorum_duration time_for_turns(const struct rl_batch *batch, quorum_time now)
{
    quorum_duration timeouts = 0, patience = QUORUM_NEVER;
    if (batch->count < RL_RENEWALS_IN_TURN)
        return 0;
    for (unsigned i = 0; i < batch->locks->nodes->count; i++)
        timeouts += rl_node_timeout(&batch->locks->nodes->node[i]);
    for (unsigned i = 0; i < batch->count; i++) {
        quorum_duration left = quorum_lease_patience(&batch->item[i].lease->rules, now);
        patience = left < patience ? left : patience;
    }
    return timeouts <= patience ? patience : 0;
}

/* The turns have an end, because the timeout of a node with a backlog starts again with each of its replies. */
static void ask_first(struct rl_batch *batch, quorum_nodes nodes, quorum_time now)
{
    struct rl_locks *locks = batch->locks;
    quorum_duration turns = time_for_turns(batch, now);
    batch->turns.left = quorum_count(nodes);
    batch->turns.unasked = nodes;
    batch->turns.first = locks->renewal_turn++ % locks->nodes->count;
    batch->turns.one_by_one = turns > 0;
    batch->turns.end.fire = on_turns_end;
    if (turns > 0)
        rl_timer_set(&locks->core->timers, &batch->turns.end, quorum_time_add(now, turns));
    (rl_batch_format(batch, false, &batch->turns.command) ? ask : ask_nobody)(batch);
}

/* false: no memory. The leases stay due, and are retried after 10 ms. */
static bool renew_some(struct rl_locks *locks)
{
    assert(locks->leases.due);
    unsigned most = locks->leases.due_count < RL_BATCH_MAX ? locks->leases.due_count : RL_BATCH_MAX;
    struct rl_batch *batch = rl_batch_create(locks, &type, false, rl_lease_is_plain(locks->leases.due), most);
    quorum_time now = rl_now();
    if (!batch) {
        rl_timer_set(&locks->core->timers, &locks->renewal_timer, now + 10 * QUORUM_MILLISECOND);
        return false;
    }
    quorum_nodes nodes = renewable_nodes(locks, now);
    fill(batch, most, nodes, now);
    if (batch->count)
        ask_first(batch, nodes, now);
    rl_fanout_unref(&batch->fanout);
    return true;
}

void rl_renewals_flush(struct rl_locks *locks)
{
    while (locks->leases.due_count >= RL_BATCH_MAX && renew_some(locks))
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
        return "the key is missing";
    if (vote == QUORUM_PENDING || vote == QUORUM_GRANTED)
        return "";
    if (vote != QUORUM_UNREACHABLE || rl_node_can_renew(node, now))
        return node->renewal_failure;
    const char *why = rl_node_usable(node, now, false).reason;
    return why && why[0] ? why : "not connected";
}

static enum quorum_vote vote_of(const struct quorum_tally *tally, unsigned node)
{
    assert(node < tally->nodes);
    enum quorum_vote vote = QUORUM_PENDING;
    while (vote < QUORUM_VOTES && !(tally->voted[vote] & quorum_node(node)))
        vote++;
    return vote;
}

void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result)
{
    struct rl_locks *locks = lease->locks;
    const struct rl_renewal_failure *failure = lease->renewal.failure;
    rl_result_clear(result, locks->nodes->count);
    result->status = result->cause = failure ? rl_result_status(failure->verdict) : REDLOCK_OK;
    result->validity_ms = (int64_t)(rl_lease_validity(lease) / QUORUM_MILLISECOND);
    for (unsigned i = 0; i < locks->nodes->count; i++) {
        enum quorum_vote vote = failure ? vote_of(&failure->votes, i) : QUORUM_PENDING;
        result->node[i].name = locks->nodes->node[i].address.name;
        result->node[i].outcome = rl_result_outcome(vote);
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", reason(&locks->nodes->node[i], vote));
    }
    if (!failure)
        return;
    result->attempts = 1;
    rl_result_count(result, &failure->votes);
}
