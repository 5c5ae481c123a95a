#include "src/lock/undo.h"

#include <assert.h>
#include <stddef.h>

#include "quorum/validity.h"
#include "src/lock/locks.h"
#include "src/lock/round.h"
#include "src/lock/round_command.h"
#include "src/node/guard.h"

/* Counts a node that gets the release when it is connected again. */
static void count_kept(struct rl_round *round, unsigned index)
{
    const struct rl_node *node = &round->locks->nodes->node[index];
    if (rl_round_is_open(round, index))
        round->kept |= quorum_node(index);
    rl_round_note(round, index, "%s", node->attempts.error[0] ? node->attempts.error : "not connected");
    rl_round_count(
        round, index,
        (struct rl_vote){.vote = QUORUM_UNREACHABLE, .permanent = node->attempts.permanent && !rl_node_is_ready(node)},
        rl_now());
}

static void keep(struct rl_round *round, quorum_nodes nodes)
{
    for (quorum_nodes left = nodes; left; left &= left - 1)
        rl_fanout_keep(&round->fanout, (unsigned)__builtin_ctz(left));
    for (quorum_nodes left = nodes; left; left &= left - 1)
        count_kept(round, (unsigned)__builtin_ctz(left));
}

static void send_alone(struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes ready = nodes & rl_nodes_ready(round->locks->nodes);
    keep(round, (nodes & ~ready) | rl_round_send(round, ready, false));
}

/* -------------------------------------------------------------------------------------------- releases of one turn */

/* What releases.lua does: a release without further arguments. A lock that was waited for is handed on by release.lua. */
static bool may_gather(const struct rl_round *round)
{
    return round->hands_over && rl_lease_is_plain(round->lease) && !round->lease->queueing.queued &&
           !rl_lease_rest(round->lease);
}

static void gather(struct rl_round *round, quorum_nodes nodes)
{
    struct rl_releases *releases = &round->locks->releases;
    if (releases->count == RL_RELEASES_MOST || (releases->count && releases->nodes != nodes))
        rl_releases_flush(round->locks);
    assert(releases->count < RL_RELEASES_MOST);
    rl_fanout_ref(&round->fanout);
    releases->nodes = nodes;
    releases->key[releases->count] = round->lease->key[0].hash;
    releases->round[releases->count++] = &round->fanout;
}

void rl_undo_send(struct rl_round *round, quorum_nodes nodes)
{
    assert(round->rules.terms.kind == QUORUM_RELEASE && !(nodes & ~quorum_all(round->locks->nodes->count)));
    if (may_gather(round)) {
        gather(round, nodes);
    } else {
        rl_releases_flush_for(round->lease); /* a release by token may follow that of the handle */
        send_alone(round, nodes);
    }
}

static void send_together(const struct rl_releases *releases)
{
    static const struct rl_carrier_turns at_once = {0};
    struct rl_locks *locks = ((struct rl_round *)releases->round[0])->locks;
    quorum_nodes ready = releases->nodes & rl_nodes_ready(locks->nodes);
    if (ready)
        rl_carrier_send(releases->round, releases->count, ready, rl_round_command_format_all, &at_once);
    for (unsigned i = 0; i < releases->count; i++)
        keep((struct rl_round *)releases->round[i], releases->nodes & ~ready);
}

void rl_releases_flush(struct rl_locks *locks)
{
    struct rl_releases gathered = locks->releases;
    locks->releases.count = 0;
    if (gathered.count == 1)
        send_alone((struct rl_round *)gathered.round[0], gathered.nodes);
    else if (gathered.count)
        send_together(&gathered);
    for (unsigned i = 0; i < gathered.count; i++)
        rl_fanout_unref(gathered.round[i]);
}

void rl_releases_flush_for(const struct rl_lease *lease)
{
    const struct rl_releases *releases = &lease->locks->releases;
    bool found = false;
    for (unsigned k = 0; k < lease->key_count; k++)
        for (unsigned i = 0; i < releases->count; i++)
            found = found || releases->key[i] == lease->key[k].hash;
    if (found)
        rl_releases_flush(lease->locks);
}

void rl_releases_drop(struct rl_locks *locks)
{
    for (; locks->releases.count; locks->releases.count--)
        rl_fanout_unref(locks->releases.round[locks->releases.count - 1]);
}

/* ----------------------------------------------------------------------------------------------------------- answers */

/* The undo failed. It is kept until the node is connected again, or until its next heartbeat. */
static void undo_again(struct rl_round *round, const struct rl_node *node, quorum_time now)
{
    bool overdue = round->request[node->index].overdue;
    rl_fanout_keep(&round->fanout, node->index);
    if (quorum_round_over(&round->rules) || node->state == RL_NODE_CLOSED)
        return;
    if (rl_round_is_open(round, node->index))
        round->kept |= quorum_node(node->index);
    rl_round_note(round, node->index, "%s", overdue ? "no reply before the connection broke" : "the connection broke");
    rl_round_count(round, node->index, (struct rl_vote){.vote = overdue ? QUORUM_TIMED_OUT : QUORUM_UNREACHABLE}, now);
}

/* The longest time that a key of this round can exist on a node. */
static quorum_duration longest_life(const struct rl_round *round)
{
    const redlock_options *options = &round->locks->core->options;
    uint32_t ttl_ms = round->lease->ttl_ms ? round->lease->ttl_ms : options->max_ttl_ms;
    quorum_duration life = ttl_ms * QUORUM_MILLISECOND;
    return quorum_time_add(life, quorum_drift(life, options->drift_ppm));
}

/* Since when the node has refused the undo. */
static quorum_time refused_since(struct rl_round *round, const struct rl_answer *answer)
{
    quorum_time *since = &round->refused_since[answer->node->index];
    if (!*since)
        *since = answer->now;
    return *since;
}

/*
 * A node that is loading, busy, full, or a replica for now may still have the key, so the undo is repeated. The refusal
 * follows all earlier commands of the connection: once the node has refused for as long as the key can exist, the key
 * has expired.
 */
static bool is_worth_repeating(struct rl_round *round, const struct rl_vote *vote, const struct rl_answer *answer)
{
    if (vote->noscript && !round->request[answer->node->index].use_eval)
        return true; /* the connection did not accept the script's text */
    bool elsewhere = answer->node->witnesses ? rl_reply_error(answer->reply) == RL_ERROR_ELSEWHERE
                                             : rl_reply_is_error(answer->reply, "READONLY");
    if (vote->vote != QUORUM_REFUSED || (vote->permanent && !elsewhere))
        return false;
    return quorum_time_since(refused_since(round, answer), answer->now) < longest_life(round);
}

/* Clients wait for a lock that was to be released with others; or the user may not use the keys of the waiters, or what
 * else the release needs. */
static bool needs_other_form(struct rl_round *round, const struct rl_vote *vote, const struct rl_answer *answer)
{
    quorum_nodes node = quorum_node(answer->node->index), *only_lock = &round->lease->queueing.only_lock;
    bool denied = rl_reply_error(answer->reply) == RL_ERROR_NOT_PERMITTED && rl_lease_is_plain(round->lease) &&
                  !(*only_lock & node);
    *only_lock |= denied ? node : 0;
    return denied || vote->apart;
}

static void take_reply(struct rl_round *round, struct rl_request *request, const struct rl_answer *answer)
{
    unsigned node = answer->node->index;
    struct rl_vote vote = rl_reply_vote(RL_COMMAND_RELEASE, answer->reply);
    if (needs_other_form(round, &vote, answer) && rl_round_send(round, quorum_node(node), false) == 0)
        return;
    bool again = is_worth_repeating(round, &vote, answer);
    if (rl_round_is_open(round, node) && !(vote.noscript && !request->use_eval)) {
        rl_request_note_latency(request, answer->now);
        rl_round_note_reply(round, node, answer->reply);
        if (rl_lease_rest(round->lease)) /* it promises that no other client gets the lock */
            rl_round_withhold_unconfirmed(round, &round->locks->nodes->node[node], &vote, answer->now);
        rl_round_count(round, node, vote, answer->now);
    }
    if (vote.unannounced)
        rl_guard_find(answer->node, REDLOCK_FINDING_NO_PUBLISH, true);
    round->lease->queueing.awaited |= vote.awaited;
    if (again)
        undo_again(round, answer->node, answer->now);
    else
        round->lease->may_hold &= ~quorum_node(node);
}

void rl_undo_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_round *round = (struct rl_round *)fanout;
    assert(round->rules.terms.kind == QUORUM_RELEASE);
    switch (answer->kind) {
    case RL_ANSWER_OVERDUE:
        rl_round_count_overdue(round, answer->node, answer->now);
        break;
    case RL_ANSWER_REPLY:
        take_reply(round, request, answer);
        break;
    case RL_ANSWER_BROKEN:
        undo_again(round, answer->node, answer->now);
        break;
    case RL_ANSWER_DROPPED:
        round->locks->pending_undos += round->locks->core->closing; /* the keys of earlier ones expire by themselves */
        round->locks->core->statistics.undos_dropped++;
        break;
    }
}

/* A kept release may be sent long after the others, and behind the request of the client's next waiter: then it would
 * give this node alone to some waiter, or dequeue that one. */
bool rl_undo_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    struct rl_round *round = (struct rl_round *)fanout;
    if (request->kept) {
        round->hands_over = false;
        round->lease->queueing.withdrawn = false;
    }
    return rl_round_send(round, quorum_node(node->index), use_eval) == 0;
}

/* -------------------------------------------------------------------------------------- releases without an operation */

#define RETRY (10 * QUORUM_MILLISECOND)

static bool try_to_release(struct rl_lease *lease)
{
    if (!lease->may_hold)
        return true;
    struct rl_round *round = rl_round_create(lease, RL_COMMAND_RELEASE, (struct quorum_terms){.kind = QUORUM_RELEASE});
    if (!round)
        return false;
    rl_round_begin(round);
    rl_round_leave(round);
    return true;
}

void rl_lease_release_later(struct rl_lease *lease, quorum_duration delay)
{
    struct rl_locks *locks = lease->locks;
    if (lease->links.unreleased)
        return;
    lease->links.unreleased = true;
    lease->links.next_unreleased = locks->unreleased;
    locks->unreleased = rl_lease_ref(lease);
    if (!locks->release_timer.set)
        rl_timer_set(&locks->core->timers, &locks->release_timer, quorum_time_add(rl_now(), delay));
}

void rl_lease_release_detached(struct rl_lease *lease)
{
    rl_lease_invalidate(lease);
    if (!try_to_release(lease))
        rl_lease_release_later(lease, RETRY);
}

static struct rl_lease *take_unreleased(struct rl_locks *locks)
{
    struct rl_lease *lease = locks->unreleased;
    assert(lease->links.unreleased && lease->references > 0);
    locks->unreleased = lease->links.next_unreleased;
    lease->links.unreleased = false;
    return lease;
}

void rl_detached_retry(struct rl_locks *locks)
{
    while (locks->unreleased && try_to_release(locks->unreleased))
        rl_lease_unref(take_unreleased(locks));
    if (locks->unreleased)
        rl_timer_set(&locks->core->timers, &locks->release_timer, rl_now() + RETRY);
}

void rl_detached_on_timer(struct rl_timer *timer)
{
    rl_detached_retry((struct rl_locks *)(void *)((char *)timer - offsetof(struct rl_locks, release_timer)));
}

void rl_detached_drop(struct rl_locks *locks)
{
    while (locks->unreleased) {
        struct rl_lease *lease = take_unreleased(locks);
        locks->pending_undos += quorum_count(lease->may_hold);
        rl_lease_unref(lease);
    }
}

/* With a separate lease: no node has its token. */
void rl_dequeue_detached(const struct rl_lease *entered)
{
    int status;
    const struct rl_names names = rl_lease_names(entered);
    struct rl_lease *leaving = rl_lease_create(entered->locks, &names, &status);
    if (!leaving)
        return; /* the entries expire by themselves */
    leaving->shared = entered->shared;
    leaving->permits = entered->permits;
    struct rl_round *round = rl_round_create(leaving, RL_COMMAND_DEQUEUE, (struct quorum_terms){.kind = QUORUM_LOOK});
    if (round)
        rl_round_begin(round);
    rl_round_leave(round);
    rl_lease_unref(leaving);
}
