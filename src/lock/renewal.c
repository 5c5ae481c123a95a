#include "src/lock/renewal.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#include "quorum/validity.h"
#include "src/core/result.h"
#include "src/lock/locks.h"
#include "src/lock/round.h"
#include "src/lock/round_command.h"

/* Without memory for a round. */
#define RETRY (10 * QUORUM_MILLISECOND)

void rl_renewals_drop(struct rl_locks *locks)
{
    while (locks->leases.due)
        rl_leases_take_due(&locks->leases);
    while (locks->leases.lacking)
        rl_leases_take_lacking(&locks->leases);
    rl_timer_stop(&locks->renewal_timer);
}

/* ---------------------------------------------------------------------------------------------------------- carriers */

/* Rounds that one carrier takes: of one kind, each with a reference. */
struct load {
    struct rl_locks *locks;
    unsigned count;
    enum rl_command_kind command;
    bool apart;         /* it takes one lock only */
    quorum_nodes nodes; /* that get the command */
    quorum_duration patience;
    struct rl_fanout *member[RL_CARRIER_MOST];
};

static bool load_takes(const struct load *load, const struct rl_lease *lease, enum rl_command_kind command)
{
    if (load->count == 0)
        return true;
    return load->count < RL_CARRIER_MOST && load->command == command && !load->apart && !lease->renewal.apart;
}

static void load_add(struct load *load, struct rl_round *round, quorum_time now)
{
    quorum_duration left = quorum_lease_patience(&round->lease->rules, now);
    assert(load->count < RL_CARRIER_MOST);
    load->patience = load->count && load->patience < left ? load->patience : left;
    load->command = round->command;
    load->apart = round->lease->renewal.apart;
    load->nodes |= round->rules.asked;
    load->member[load->count++] = &round->fanout;
}

/*
 * A command with many keys occupies a node for some tenths of a millisecond. Sent to one node after the other, it
 * leaves a majority free for other requests at any time. But there must be time to wait for every node's timeout.
 * Returns how long the nodes may get the command in turn; 0: not at all.
 */
static quorum_duration time_for_turns(const struct load *load)
{
    quorum_duration timeouts = 0;
    for (unsigned i = 0; i < load->locks->nodes->count; i++)
        timeouts += rl_flight_timeout(&load->locks->nodes->node[i].flight);
    return timeouts <= load->patience ? load->patience : 0;
}

static void load_send(struct load *load)
{
    struct rl_carrier_turns turns = {.first = 0};
    bool renews = load->count && ((struct rl_round *)load->member[0])->rules.terms.kind == QUORUM_EXTEND;
    if (renews)
        turns.first = load->locks->renewal_turn++;
    if (renews && load->count >= RL_RENEWALS_IN_TURN)
        turns.end = time_for_turns(load);
    if (load->count)
        rl_carrier_send(load->member, load->count, load->nodes, rl_round_command_format_all, &turns);
    for (unsigned i = 0; i < load->count; i++)
        rl_fanout_unref(load->member[i]);
    load->count = load->nodes = 0;
}

/* ---------------------------------------------------------------------------------------------------------- renewals */

static void renewal_on_decision(struct rl_round *round)
{
    struct rl_lease *lease = round->lease;
    const struct quorum_lease_event event = {.type = QUORUM_LEASE_RENEWED,
                                             .now = round->rules.decided_at,
                                             .validity_end = round->rules.validity_end,
                                             .verdict = round->rules.verdict,
                                             .random = rl_random_u64(&lease->locks->core->random)};
    bool is_won = round->rules.verdict == QUORUM_WON;
    if (is_won)
        rl_lease_clear_failure(lease);
    else
        rl_lease_note_failure(lease, &round->rules);
    lease->locks->core->statistics.renewed += is_won;
    lease->locks->core->statistics.renewals_failed += !is_won;
    rl_lease_step(lease, &event);
}

static enum rl_command_kind renewal_command(const struct rl_lease *lease)
{
    return rl_lease_is_plain(lease) ? RL_COMMAND_EXTEND : RL_COMMAND_KEEP;
}

/* The round of a renewal that is about to begin. NULL: no memory. */
static struct rl_round *renewal_create(struct rl_lease *lease, quorum_time now)
{
    const struct quorum_terms terms = {.kind = QUORUM_EXTEND,
                                       .ttl = quorum_lease_ttl_at(&lease->rules, lease->renewal.ttl, now),
                                       .validity_end = lease->rules.validity_end};
    struct rl_round *round = rl_round_create(lease, renewal_command(lease), terms);
    if (!round)
        return NULL;
    round->renews = true;
    round->fence = rl_lease_own_fence(lease);
    round->decided = renewal_on_decision;
    return round;
}

/* Takes due leases until one that does not fit. false: no memory; what is left is retried later. */
static bool fill_with_renewals(struct load *load, quorum_time now)
{
    struct rl_leases *leases = &load->locks->leases;
    while (leases->due && load_takes(load, leases->due, renewal_command(leases->due))) {
        struct rl_lease *lease = leases->due;
        bool is_held = lease->links.listed && !lease->rules.loss;
        struct rl_round *round = is_held ? renewal_create(lease, now) : NULL;
        if (is_held && !round)
            return false;
        rl_leases_take_due(leases); /* first: a round that is lost at once may make the lease due again */
        if (round)
            rl_round_begin(round);
        if (round && round->rules.asked && !quorum_round_over(&round->rules))
            load_add(load, round, now);
        else if (round) /* lost before it began */
            rl_round_leave(round);
    }
    return true;
}

static bool renew_some(struct rl_locks *locks)
{
    struct load load = {.locks = locks};
    quorum_time now = rl_now();
    bool done = fill_with_renewals(&load, now);
    load_send(&load);
    if (!done)
        rl_timer_set(&locks->core->timers, &locks->renewal_timer, now + RETRY);
    return done;
}

void rl_renewals_gathered(struct rl_timer *timer)
{
    struct rl_locks *locks = (struct rl_locks *)(void *)((char *)timer - offsetof(struct rl_locks, renewal_timer));
    while (locks->leases.due && !timer->set && renew_some(locks))
        ;
}

/* ----------------------------------------------------------------------------------------------- renewals of one node */

static unsigned asked_node(const struct rl_round *round)
{
    return (unsigned)__builtin_ctz(round->rules.asked);
}

static void turn_on_decision(struct rl_round *round)
{
    struct rl_lease *lease = round->lease;
    const struct quorum_terms *terms = &round->rules.terms;
    const struct quorum_lease_event event = {
        .type = QUORUM_LEASE_IN_TURN,
        .now = round->rules.decided_at,
        .node = asked_node(round),
        .granted = quorum_tally_vote_of(&round->rules.tally, asked_node(round)) == QUORUM_GRANTED,
        .sent = round->rules.sent,
        .validity_end = quorum_validity_end(round->rules.sent, terms->ttl, terms->drift_ppm)};
    quorum_time end = lease->rules.validity_end;
    rl_lease_step(lease, &event);
    lease->locks->core->statistics.renewed += lease->rules.validity_end > end;
}

/* A round about one node: all others are counted before it begins. NULL: no memory. */
static struct rl_round *turn_begin(struct rl_lease *lease, unsigned node, quorum_duration ttl, quorum_time now)
{
    const struct quorum_terms terms = {.kind = QUORUM_LOOK, .ttl = ttl};
    struct rl_round *round = rl_round_create(lease, renewal_command(lease), terms);
    if (!round)
        return NULL;
    const struct quorum_event start = {.type = QUORUM_START, .now = now, .usable = quorum_node(node)};
    round->renews = true;
    round->fence = rl_lease_own_fence(lease);
    round->fanout.urgent = true;
    round->decided = turn_on_decision;
    for (quorum_nodes left = quorum_all(lease->locks->nodes->count) & ~start.usable; left; left &= left - 1)
        rl_round_count(round, (unsigned)__builtin_ctz(left), (struct rl_vote){.vote = QUORUM_UNREACHABLE}, now);
    rl_round_step(round, &start);
    return round;
}

void rl_renewals_in_turn(struct rl_locks *locks, unsigned node, quorum_duration interval)
{
    struct load load = {.locks = locks};
    quorum_time now = rl_now();
    if (locks->leases.count > RL_CARRIER_MOST)
        return;
    for (struct rl_lease *lease = locks->leases.first; lease; lease = lease->links.next) {
        quorum_duration ttl = quorum_lease_in_turn(&lease->rules, node, interval, now);
        struct rl_round *round = ttl ? turn_begin(lease, node, ttl, now) : NULL;
        if (!round)
            continue;
        if (!load_takes(&load, lease, round->command))
            load_send(&load);
        load_add(&load, round, now);
    }
    load_send(&load);
}

/* ------------------------------------------------------------------------------------------------------------- heals */

/* Not twice at a time, where the node's window holds the first heal back: if the first one finds another holder's key
 * and the second does not, the reply to the first would hide that the second has set the key. */
static quorum_nodes nodes_to_heal(struct rl_lease *lease, quorum_time now)
{
    quorum_nodes nodes = 0;
    for (quorum_nodes left = lease->renewal.lacking & ~lease->renewal.healing; left; left &= left - 1)
        if (rl_node_can_renew(&lease->locks->nodes->node[__builtin_ctz(left)], now))
            nodes |= left & -left;
    return rl_lease_may_heal(lease) ? nodes : 0;
}

/* The round is about these nodes alone: it stays undecided. NULL: no memory; the next renewal finds the nodes again. */
static struct rl_round *heal_begin(struct rl_lease *lease, quorum_nodes nodes, quorum_time now)
{
    const struct quorum_terms terms = {.kind = QUORUM_LOOK,
                                       .ttl = quorum_lease_ttl_at(&lease->rules, lease->rules.terms.ttl, now)};
    struct rl_round *round =
        rl_round_create(lease, rl_lease_is_plain(lease) ? RL_COMMAND_HEAL : RL_COMMAND_RESTORE, terms);
    if (!round)
        return NULL;
    const struct quorum_event start = {.type = QUORUM_START, .now = now, .usable = nodes};
    round->fence = rl_lease_own_fence(lease);
    rl_round_step(round, &start);
    quorum_lease_begin_turns(&lease->rules, now);
    lease->may_hold |= nodes;
    lease->renewal.healing |= nodes;
    lease->renewal.healed |= nodes;
    return round;
}

static void heal_lacking(struct rl_locks *locks)
{
    struct load load = {.locks = locks};
    quorum_time now = rl_now();
    while (locks->leases.lacking) {
        struct rl_lease *lease = locks->leases.lacking;
        quorum_nodes nodes = nodes_to_heal(lease, now);
        struct rl_round *round = nodes ? heal_begin(lease, nodes, now) : NULL;
        rl_leases_take_lacking(&locks->leases);
        if (!round)
            continue;
        if (nodes != load.nodes || !load_takes(&load, round->lease, round->command))
            load_send(&load);
        load_add(&load, round, now);
    }
    load_send(&load);
}

void rl_renewals_flush(struct rl_locks *locks)
{
    if (locks->leases.lacking)
        heal_lacking(locks);
    while (locks->leases.due_count >= RL_CARRIER_MOST && renew_some(locks))
        ;
}

/* ------------------------------------------------------------------------------------------------------------ result */

static const char *reason(const struct rl_node *node, enum quorum_vote vote)
{
    if (vote == QUORUM_PENDING || vote == QUORUM_GRANTED)
        return "";
    return vote == QUORUM_ABSENT ? "the key is missing" : node->renewal_failure;
}

void rl_renewal_fill(const struct rl_lease *lease, redlock_result *result)
{
    struct rl_nodes *nodes = lease->locks->nodes;
    const struct rl_renewal_failure *failure = lease->renewal.failure;
    rl_result_clear(result, nodes->count);
    result->status = result->cause = failure ? rl_result_status(failure->verdict) : REDLOCK_OK;
    result->validity_ms = (int64_t)(rl_lease_validity(lease) / QUORUM_MILLISECOND);
    result->attempts = failure ? 1 : 0;
    if (failure)
        rl_result_votes(result, &failure->votes);
    for (unsigned i = 0; i < nodes->count; i++) {
        enum quorum_vote vote = failure ? quorum_tally_vote_of(&failure->votes, i) : QUORUM_PENDING;
        result->node[i].name = nodes->node[i].name;
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", reason(&nodes->node[i], vote));
    }
}
