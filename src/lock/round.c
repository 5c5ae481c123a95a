#include "src/lock/round.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "quorum/fence.h"
#include "src/core/result.h"
#include "src/lock/held_by.h"
#include "src/lock/locks.h"
#include "src/lock/queue_table.h"
#include "src/lock/round_command.h"
#include "src/node/guard.h"
#include "src/node/witnesses.h"

/* ---------------------------------------------------------------------------------------------------------- lifetime */

static void destroy(struct rl_fanout *fanout)
{
    struct rl_round *round = (struct rl_round *)fanout;
    struct rl_locks *locks = round->locks;
    assert(!round->list);
    rl_lease_unref(round->lease);
    rl_lease_unref(round->offer);
    rl_core_free(locks->core, round->text);
    rl_core_free(locks->core, round->held_by);
    rl_core_free(locks->core, round);
}

static const struct rl_fanout_type ask_type;
static const struct rl_fanout_type release_type = {
    .answered = rl_undo_answered, .resend = rl_undo_resend, .destroy = destroy};

struct rl_round *rl_round_create(struct rl_lease *lease, enum rl_command_kind command, struct quorum_terms terms)
{
    struct rl_locks *locks = lease->locks;
    bool releases = terms.kind == QUORUM_RELEASE;
    assert(releases == (command == RL_COMMAND_RELEASE));
    terms.nodes = locks->nodes->count;
    terms.drift_ppm = locks->core->options.drift_ppm;
    size_t size = sizeof(struct rl_round) + terms.nodes * sizeof(struct rl_request);
    size_t refusals = releases ? terms.nodes * sizeof(quorum_time) : 0;
    struct rl_round *round = rl_allocate(&locks->core->allocator, size + refusals);
    if (!round)
        return NULL;
    if (releases)
        round->refused_since = (quorum_time *)&round->request[terms.nodes];
    rl_fanout_init(&round->fanout, releases ? &release_type : &ask_type, locks->nodes, round->request, releases);
    round->fanout.grants = terms.kind == QUORUM_ACQUIRE;
    round->fanout.plain = command == RL_COMMAND_SET;
    round->fanout.urgent = terms.kind == QUORUM_EXTEND;
    quorum_round_init(&round->rules, &terms);
    round->locks = locks;
    round->lease = rl_lease_ref(lease);
    round->command = command;
    round->is_downgraded = lease->downgraded;
    return round;
}

struct rl_round *rl_round_create_extension(struct rl_lease *lease, uint32_t ttl_ms)
{
    const struct quorum_terms terms = {
        .kind = QUORUM_EXTEND,
        .ttl = ttl_ms * QUORUM_MILLISECOND,
        .validity_end = atomic_load_explicit(&lease->validity_end, memory_order_acquire),
    };
    struct rl_round *round =
        rl_round_create(lease, rl_lease_is_plain(lease) ? RL_COMMAND_EXTEND : RL_COMMAND_KEEP, terms);
    if (!round)
        return NULL;
    /* Send the fencing token again: with each further node that stores it, one more node may lose its data. */
    round->fence = rl_lease_own_fence(lease);
    rl_lease_note_ttl(lease, ttl_ms);
    rl_nodes_note_ttl(lease->locks->nodes, terms.ttl);
    return round;
}

/* Puts the round at its place in the list, or takes it off. */
static void link_round(struct rl_round *round, struct rl_round_list *list, bool on)
{
    *(round->previous ? &round->previous->next : &list->first) = on ? round : round->next;
    *(round->next ? &round->next->previous : &list->last) = on ? round : round->previous;
}

/* Takes the round off its list, and appends it to this one, or to none. */
static void enlist(struct rl_round *round, struct rl_round_list *list)
{
    if (round->list)
        link_round(round, round->list, false);
    round->list = list;
    if (!list)
        return;
    round->previous = list->last;
    round->next = NULL;
    link_round(round, list, true);
}

/* ------------------------------------------------------------------------------------------------------------ texts */

/* false: no memory. */
static bool has_texts(struct rl_round *round)
{
    if (!round->text)
        round->text = rl_allocate(&round->locks->core->allocator, round->locks->nodes->count * sizeof *round->text);
    return round->text;
}

void rl_round_note(struct rl_round *round, unsigned node, const char *format, ...)
{
    assert(node < round->locks->nodes->count);
    char *text = NULL; /* without an owner only the log reads it */
    if (!rl_round_is_open(round, node))
        return;
    if (round->renews) /* all renewals fail on a node for the same reason: see redlock_renewal_result() */
        text = round->locks->nodes->node[node].renewal_failure;
    else if ((round->owner || rl_logs(round->locks->core, REDLOCK_LOG_DEBUG)) && has_texts(round))
        text = round->text[node];
    if (!text)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, RL_NODE_TEXT_SIZE, format, arguments);
    va_end(arguments);
}

/* The text of a node that the release is not sent to takes no memory: with many locks in flight every second release has
 * such a node, whose window held the acquire's request back until the other nodes had granted. */
static const char *text_of(const struct rl_round *round, unsigned node)
{
    quorum_nodes absent = round->rules.tally.voted[QUORUM_ABSENT] & ~round->rules.asked;
    if (round->text && round->text[node][0])
        return round->text[node];
    return absent & quorum_node(node) ? "it never had the key" : "";
}

static void explain_node(const struct rl_round *round, unsigned node)
{
    const char *text = text_of(round, node);
    uint32_t latency_us = round->request[node].latency_us;
    enum quorum_vote vote = quorum_tally_vote_of(&round->rules.tally, node);
    char latency[24] = "";
    if (latency_us)
        snprintf(latency, sizeof latency, " after %.1f ms", latency_us / 1000.0);
    rl_log(round->locks->core, REDLOCK_LOG_DEBUG, "  %s: %s%s%s%s", round->locks->nodes->node[node].name,
           redlock_outcome_name((int)vote), latency, text[0] ? ": " : "", text);
}

/* Logs why a lock was granted or not. Looks are left out: they are not about one lock's outcome; and renewals, which
 * are many. */
static void explain(const struct rl_round *round)
{
    static const char *const kinds[] = {[QUORUM_ACQUIRE] = "acquire",
                                        [QUORUM_EXTEND] = "extend",
                                        [QUORUM_ADOPT] = "adopt",
                                        [QUORUM_RELEASE] = "release",
                                        [QUORUM_LOOK] = NULL};
    _Static_assert(sizeof kinds / sizeof *kinds == QUORUM_LOOK + 1, "every kind of round has a name or none");
    struct rl_locks *locks = round->locks;
    const char *kind = kinds[round->rules.terms.kind];
    if (!kind || round->renews || !rl_logs(locks->core, REDLOCK_LOG_DEBUG))
        return;
    /* That an undo finds nothing is no loss of a lock. */
    bool undoes = round->rules.terms.kind == QUORUM_RELEASE && !round->decided;
    redlock_result named = {.holder.label = ""};
    rl_held_by_fill(round->held_by, &named);
    rl_log(locks->core, REDLOCK_LOG_DEBUG, "%s %.100s%s%s%s%s", undoes ? "undo" : kind, round->lease->key[0].bytes,
           undoes ? "" : ": ", undoes ? "" : redlock_status_name(rl_result_status(round->rules.verdict)),
           named.holder.label[0] ? " by " : "", named.holder.label);
    for (unsigned i = 0; i < locks->nodes->count; i++)
        explain_node(round, i);
}

void rl_round_fill(const struct rl_round *round, redlock_result *result)
{
    const struct quorum_tally *tally = &round->rules.tally;
    rl_result_votes(result, tally);
    rl_held_by_fill(round->held_by, result);
    result->kept_releases = quorum_count(round->kept);
    for (unsigned i = 0; i < tally->nodes; i++) {
        result->node[i].latency_us = round->request[i].latency_us;
        const char *text = text_of(round, i);
        result->node[i].text[0] = '\0';
        if (text[0]) /* almost none has one: to format them took a sixth of a lock's instructions */
            snprintf(result->node[i].text, sizeof result->node[i].text, "%s", text);
    }
}

/* ---------------------------------------------------------------------------------------------------------- actions */

/* Nodes that were sent the offer without a subscription have an entry for the waiter, but hand nothing over. */
static void note_offer(struct rl_round *round, quorum_nodes nodes, bool subscribed)
{
    if (!round->offer)
        return;
    round->offer->may_hold |= nodes;
    round->offer->queueing.offered |= subscribed ? nodes : 0;
}

/* special: the nodes are subscribed to, or name the holder in their reply to a SET, or release nothing but the lock. */
static quorum_nodes send(struct rl_round *round, quorum_nodes nodes, bool special, bool use_eval)
{
    struct rl_command command;
    if (!nodes)
        return 0;
    if (round->rules.terms.kind != QUORUM_RELEASE && round->lease)
        rl_releases_flush_for(round->lease);
    rl_command_init(&command);
    rl_round_command_format(&command, round, special, use_eval);
    round->fanout.gets = special && round->command == RL_COMMAND_SET;
    quorum_nodes failed = rl_fanout_send(&round->fanout, nodes, &command);
    rl_command_free(&command);
    if (rl_round_is_grant(round))
        round->lease->may_hold |= nodes & ~failed;
    note_offer(round, nodes & ~failed, special);
    return failed;
}

static bool enqueues(const struct rl_round *round)
{
    return round->command == RL_COMMAND_ENQUEUE || round->command == RL_COMMAND_TAKE;
}

static quorum_nodes naming_nodes(const struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes naming = 0;
    for (; nodes; nodes &= nodes - 1)
        if (round->locks->nodes->node[__builtin_ctz(nodes)].server.gets)
            naming |= nodes & -nodes;
    return naming;
}

quorum_nodes rl_round_send(struct rl_round *round, quorum_nodes nodes, bool use_eval)
{
    assert(!(nodes & ~quorum_all(round->locks->nodes->count)));
    quorum_nodes special = 0, failed = 0;
    if (enqueues(round))
        special = nodes & rl_listeners_up(round->locks->nodes);
    else if (round->command == RL_COMMAND_SET)
        special = naming_nodes(round, nodes);
    else if (round->command == RL_COMMAND_RELEASE)
        special = nodes & round->lease->queueing.only_lock;
    if (round->command == RL_COMMAND_TRUST) { /* each node's marker says something else */
        for (; nodes; nodes &= nodes - 1) {
            round->trusted = (unsigned)__builtin_ctz(nodes);
            failed |= send(round, quorum_node(round->trusted), false, use_eval);
        }
        return failed;
    }
    return send(round, special, true, use_eval) | send(round, nodes & ~special, false, use_eval);
}

static void ask_nodes(struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes failed = rl_round_send(round, nodes, false);
    /* After all sends, because a vote can decide the round, which ends the sending. */
    for (; failed; failed &= failed - 1) {
        unsigned node = (unsigned)__builtin_ctz(failed);
        rl_round_note(round, node, "the request could not be sent");
        rl_round_count(round, node, (struct rl_vote){.vote = QUORUM_UNREACHABLE}, rl_now());
    }
}

/* A larger max_ttl, learned during the round, ends it like a clock that stopped. */
static bool is_void(const struct rl_round *round, quorum_time now)
{
    return rl_round_is_grant(round) &&
           quorum_guard_voids(round->locks->nodes->guard, round->rules.tally.voted[QUORUM_GRANTED], round->rules.sent,
                              now);
}

void rl_round_step(struct rl_round *round, const struct quorum_event *event)
{
    struct quorum_event stamped = *event;
    stamped.stopped = round->locks->nodes->clock_stopped;
    if (is_void(round, event->now))
        stamped.stopped = event->now;
    struct quorum_actions actions = quorum_round_step(&round->rules, &stamped);
    if (!actions.send && !actions.undo && !actions.decided && !actions.confirmed && !actions.heal)
        return;
    rl_fanout_ref(&round->fanout); /* an action may end the owner's reference */
    if (actions.decided) {
        enlist(round, NULL);
        explain(round);
    }
    if (actions.send && round->rules.terms.kind == QUORUM_RELEASE)
        rl_undo_send(round, actions.send);
    else if (actions.send && !round->renews && !rl_round_heals(round))
        ask_nodes(round, actions.send);
    if (actions.undo & round->lease->may_hold)
        rl_lease_release_later(round->lease, RL_UNDO_DELAY);
    if (actions.decided && round->decided)
        round->decided(round);
    if (actions.confirmed)
        rl_lease_confirmed(round->lease, &round->rules, round->renews);
    if (actions.heal)
        rl_leases_heal(round->lease, actions.heal);
    rl_fanout_unref(&round->fanout);
}

/* --------------------------------------------------------------------------------------------------- counting votes */

/* A node that did not grant the lock keeps the winner's entry in its queue. It stays in may_hold, so that the release
 * removes the entry. */
static bool leaves_place(const struct rl_round *round)
{
    return round->command == RL_COMMAND_TAKE && round->rules.verdict == QUORUM_WON;
}

void rl_round_count(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now)
{
    /* A node that cannot set all keys of a lock again may have some. */
    bool heals_one = rl_round_heals(round) && round->lease->key_count == 1;
    bool absent = rl_round_is_grant(round) ? !leaves_place(round) : heals_one;
    if (vote.left_nothing && absent)
        rl_lease_note_absent(round->lease, node);
    const struct quorum_event event = {.type = QUORUM_VOTED,
                                       .now = now,
                                       .node = node,
                                       .vote = vote.vote,
                                       .permanent = vote.permanent,
                                       .clock = vote.clock,
                                       .left_nothing = vote.left_nothing};
    rl_round_step(round, &event);
}

void rl_round_count_overdue(struct rl_round *round, const struct rl_node *node, quorum_time now)
{
    if (quorum_round_over(&round->rules) && !quorum_round_finds_absent(&round->rules))
        return;
    assert(round->request[node->index].overdue);
    rl_round_note(round, node->index, "no reply within %llu ms",
                  (unsigned long long)(rl_flight_timeout(&node->flight) / QUORUM_MILLISECOND));
    const struct quorum_event event = {.type = QUORUM_OVERDUE, .now = now, .node = node->index};
    rl_round_step(round, &event);
    if (round->overdue && !quorum_round_over(&round->rules))
        round->overdue(round);
}

/* ----------------------------------------------------------------------------------------------------- judging replies */

/* A record too far ahead comes from a wrong clock: the node counts as refused, in every round that chooses the fencing
 * token. After the choice the record does not matter. */
static bool is_far_off(const struct rl_round *round, const struct rl_vote *vote)
{
    return round->fence && !round->lease->fence && vote->vote == QUORUM_GRANTED &&
           !quorum_fence_is_near(round->fence, vote->record);
}

/* A node that refuses to record a settled token has prolonged the lock, or set it again, all the same. */
static struct rl_vote judge_fence(const struct rl_round *round, struct rl_vote vote)
{
    if (is_far_off(round, &vote))
        return (struct rl_vote){.vote = QUORUM_REFUSED, .clock = true};
    bool keeps = round->command == RL_COMMAND_KEEP || round->command == RL_COMMAND_RESTORE;
    if (vote.clock && keeps && round->lease->fence)
        return (struct rl_vote){.vote = QUORUM_GRANTED};
    return vote;
}

void rl_round_note_reply(struct rl_round *round, unsigned node, const redisReply *reply)
{
    char text[RL_NODE_TEXT_SIZE];
    if (reply->type != REDIS_REPLY_ERROR && !round->text)
        return;
    rl_reply_text(reply, text, sizeof text); /* "" for another reply: it replaces the text of the timeout before it */
    bool is_nameless = rl_reply_error(reply) == RL_ERROR_NOT_PERMITTED && !strstr(text, "' command");
    rl_round_note(round, node, "%s%s",
                  !is_nameless                       ? ""
                  : round->command == RL_COMMAND_SET ? "SET: "
                                                     : "in a script: ",
                  text);
}

static void note_reply(struct rl_round *round, unsigned node, const struct rl_vote *vote, const redisReply *reply)
{
    rl_round_note_reply(round, node, reply);
    if (vote->clock && reply->type != REDIS_REPLY_ERROR)
        rl_round_note(round, node,
                      "its clock or last fencing token differs from this machine's clock by more than a day");
}

static bool is_settled(const struct rl_round *round, const struct rl_node *node, quorum_time now)
{
    enum quorum_kind kind = round->rules.terms.kind;
    bool adopts = kind == QUORUM_ADOPT, releases = kind == QUORUM_RELEASE;
    bool keeps = adopts || releases || kind == QUORUM_EXTEND || round->renews;
    /* The nodes that granted the lock keep it until its end, so also from a client that is cut off with the old master. */
    quorum_time until = releases && round->lease->rules.validity_end > now ? round->lease->rules.validity_end : now;
    return !keeps || quorum_guard_counts_held(node->nodes->guard, node->index, adopts, until);
}

void rl_round_withhold_unconfirmed(struct rl_round *round, struct rl_node *node, struct rl_vote *vote, quorum_time now)
{
    if (vote->vote != QUORUM_GRANTED || (rl_node_is_confirmed(node, now) && is_settled(round, node, now)))
        return;
    vote->vote = QUORUM_TIMED_OUT;
    rl_round_note(round, node->index, "%s",
                  rl_node_is_confirmed(node, now) ? "its master was promoted a moment ago"
                                                  : rl_witnesses_explain(node->witnesses, now));
}

static void count_reply(struct rl_round *round, unsigned node, struct rl_vote vote, const redisReply *reply,
                        quorum_time now)
{
    rl_round_withhold_unconfirmed(round, &round->locks->nodes->node[node], &vote, now);
    if (round->replied &&
        round->rules.verdict != QUORUM_WON) /* a failed attempt's late reply still reports the queue */
        round->replied(round, node, &vote, reply);
    rl_round_count(round, node, vote, now);
}

/* A grant counts with its proof, unless the node has turned out to be unfit, or to have lost data, since. */
static void count_grant(struct rl_round *round, struct rl_node *node, uint64_t record, enum quorum_proof proof,
                        quorum_time now)
{
    struct rl_vote vote = {.vote = quorum_attest_vote(QUORUM_GRANTED, proof), .record = record};
    const char *objection = "marker changed: the node may have lost locks";
    if (vote.vote == QUORUM_UNATTESTED) {
        round->locks->core->statistics.unattested++;
    } else {
        objection = rl_guard_objection(node, now);
        if (objection)
            vote = (struct rl_vote){.vote = QUORUM_REFUSED, .permanent = rl_guard_unfit_is_permanent(node)};
    }
    if (objection)
        rl_round_note(round, node->index, "%s", objection);
    if (quorum_round_over(&round->rules) && round->rules.verdict != QUORUM_WON && vote.vote == QUORUM_GRANTED)
        round->locks->core->statistics.late_grants++;
    count_reply(round, node->index, vote, NULL, now);
}

/* The lock is held: a node that learns the script only now keeps one more copy of it, which the release deletes. A node
 * that is always later than the majority would never learn the script otherwise. */
static bool adds_copy(const struct rl_round *round)
{
    bool keeps = round->command == RL_COMMAND_GRANT || round->command == RL_COMMAND_EXTEND ||
                 round->command == RL_COMMAND_KEEP || round->command == RL_COMMAND_DOWNGRADE;
    return keeps && round->rules.verdict == QUORUM_WON && rl_lease_may_heal(round->lease);
}

/* A carrier was refused for one of its locks, and each was then renewed or healed by itself: this is the one. */
static void note_apart(struct rl_round *round, const redisReply *reply)
{
    bool carried = round->renews || rl_round_heals(round);
    bool sent_apart = !quorum_round_over(&round->rules) || adds_copy(round);
    if (carried && sent_apart && rl_reply_error(reply) == RL_ERROR_NOT_PERMITTED)
        round->lease->renewal.apart = true;
}

/* Only a waiter is shown the remaining time: it is the queue's. */
static void note_holder(struct rl_round *round, unsigned node, const redisReply *holder)
{
    if (holder && round->owner)
        rl_held_by_note(round->locks->core, &round->held_by, node, (struct rl_text){holder->str, (size_t)holder->len},
                        NULL, 0);
}

static void take_reply(struct rl_round *round, struct rl_request *request, const struct rl_answer *answer)
{
    unsigned node = answer->node->index;
    enum rl_command_kind command = request->gets ? RL_COMMAND_SET_GET : round->command;
    struct rl_vote vote = judge_fence(round, rl_reply_vote(command, answer->reply));
    if (answer->node->witnesses && rl_reply_error(answer->reply) == RL_ERROR_ELSEWHERE) {
        vote.permanent = false; /* the slot has moved, or moves, or a failover is going on */
        rl_witnesses_ask(answer->node->witnesses);
    }
    /* The writer's key is a reader's by now: that this request did not find it says nothing. */
    if (round->lease->downgraded && !round->is_downgraded && (vote.vote == QUORUM_ABSENT || vote.vote == QUORUM_HELD))
        vote = (struct rl_vote){.vote = QUORUM_TIMED_OUT};
    if (vote.permanent)
        note_apart(round, answer->reply);
    if (rl_round_heals(round))
        rl_lease_note_healed(round->lease, node, vote.vote == QUORUM_GRANTED);
    if (rl_round_is_open(round, node)) {
        rl_request_note_latency(request, answer->now);
        note_reply(round, node, &vote, answer->reply);
    }
    if (vote.vote == QUORUM_HELD)
        note_holder(round, node, rl_reply_holder(command, answer->reply));
    bool grants = rl_round_is_grant(round) && vote.vote == QUORUM_GRANTED;
    if (grants && round->locks->core->options.guard) {
        request->record = vote.record;
        rl_fanout_await_proof(&round->fanout, request, answer->node);
    } else if (grants) {
        count_grant(round, answer->node, vote.record, QUORUM_PROVEN, answer->now);
    } else {
        count_reply(round, node, vote, answer->reply, answer->now);
    }
    /* A node that had not yet seen the lock's release queued the waiter, after the other nodes had granted it the lock: the
     * client leaves the queue there, unless another of its waiters has that place by now. */
    if (vote.vote == QUORUM_HELD && leaves_place(round) &&
        !rl_queue_is_waiting(round->locks, round->lease, round->lease->shared))
        rl_dequeue_detached(round->lease);
}

/* ---------------------------------------------------------------------------------------------- the fan-out's functions */

static void answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_round *round = (struct rl_round *)fanout;
    const struct rl_node *node = answer->node;
    assert(answer->kind != RL_ANSWER_DROPPED); /* only undos are kept */
    if (answer->kind == RL_ANSWER_OVERDUE) {
        rl_round_count_overdue(round, node, answer->now);
    } else if (answer->kind == RL_ANSWER_REPLY) {
        take_reply(round, request, answer);
    } else if (!quorum_round_over(&round->rules) || quorum_round_finds_absent(&round->rules)) {
        if (rl_round_heals(round))
            rl_lease_note_healed(round->lease, node->index, false);
        rl_round_note(round, node->index, "%s",
                      node->attempts.error[0] ? node->attempts.error : "the connection broke");
        rl_round_count(round, node->index, (struct rl_vote){.vote = QUORUM_UNREACHABLE}, answer->now);
    }
}

/* Without a proof in time the node has been counted as overdue. */
static void proven(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, enum quorum_proof proof,
                   quorum_time now)
{
    struct rl_round *round = (struct rl_round *)fanout;
    assert(fanout->grants && (!request->plain || round->command == RL_COMMAND_SET));
    if (request->plain && !rl_round_is_open(round, node->index))
        request->latency_us = 0;
    else if (request->plain && round->text)
        rl_round_note(round, node->index, "%s", "");
    count_grant(round, node, request->plain ? 0 : request->record, proof, now);
}

/* The request goes behind everything sent meanwhile. Behind a release that keeps the lock for at_least_ms, an extension
 * would prolong it. A removal that is sent again may follow the next waiter into the queue: both have the same name, so
 * it would remove that waiter's entry. */
static bool resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    (void)request;
    struct rl_round *round = (struct rl_round *)fanout;
    bool is_in_turn = round->renews && round->rules.terms.kind == QUORUM_LOOK;
    if ((rl_round_heals(round) || is_in_turn) && !rl_lease_may_heal(round->lease))
        return false;
    if (round->rules.terms.kind == QUORUM_EXTEND && round->lease->kept_until)
        return false;
    if ((quorum_round_over(&round->rules) && !adds_copy(round)) ||
        (round->command == RL_COMMAND_DEQUEUE && rl_queue_is_waiting(round->locks, round->lease, round->lease->shared)))
        return false;
    return rl_round_send(round, quorum_node(node->index), use_eval) == 0;
}

static const struct rl_fanout_type ask_type = {
    .answered = answered, .proven = proven, .resend = resend, .destroy = destroy};

/* ------------------------------------------------------------------------------------------------------------ owner */

/* A renewal goes to nodes in quarantine, and to those that hold back other requests; the next one to those that are being
 * connected. */
static struct rl_usable renewable(struct rl_node *node, quorum_time now)
{
    if (rl_node_can_renew(node, now))
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    const char *why = rl_node_usable(node, now, false).reason;
    return (struct rl_usable){RL_OUT, false, QUORUM_UNREACHABLE, why && why[0] ? why : "not connected"};
}

static struct rl_usable usability(const struct rl_round *round, struct rl_node *node, quorum_time now)
{
    if (round->command == RL_COMMAND_TRUST && rl_guard_may_take_over(node))
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    return round->renews ? renewable(node, now) : rl_node_usable(node, now, rl_round_is_grant(round));
}

static void count_unusable(struct rl_round *round, unsigned node, const struct rl_usable *usable, quorum_time now)
{
    rl_round_note(round, node, "%s", usable->reason);
    rl_round_count(round, node, (struct rl_vote){.vote = usable->vote, .permanent = usable->permanent}, now);
}

/* Counts the nodes that cannot be sent to, and sorts the others into usable and coming ones. */
static void sort_nodes(struct rl_round *round, struct quorum_event *start)
{
    for (unsigned i = 0; i < round->locks->nodes->count; i++) {
        struct rl_usable usable = usability(round, &round->locks->nodes->node[i], start->now);
        if (usable.is == RL_USABLE)
            start->usable |= quorum_node(i);
        else if (usable.is == RL_COMING)
            start->coming |= quorum_node(i);
        else
            count_unusable(round, i, &usable, start->now);
    }
}

/* A waiter enqueues with a majority: a node that hangs while it is being connected must not hold up the queue. */
static void leave_out_coming(struct rl_round *round, struct quorum_event *start)
{
    if (round->command != RL_COMMAND_ENQUEUE || quorum_count(start->usable) < round->rules.tally.majority)
        return;
    for (; start->coming; start->coming &= start->coming - 1)
        rl_round_count(round, (unsigned)__builtin_ctz(start->coming), (struct rl_vote){.vote = QUORUM_UNREACHABLE},
                       start->now);
}

/* With all_answers the round waits for a node that is connecting; otherwise that node gets the kept undo later. */
static void start_release(struct rl_round *round)
{
    /* A node that was offered the lock may hand it over later: the release takes the offer back. */
    round->lease->may_hold |= round->lease->queueing.offered;
    round->lease->queueing.offered = 0;
    quorum_nodes targets = round->lease->may_hold;
    struct quorum_event start = {.type = QUORUM_START, .now = rl_now(), .usable = targets};
    for (unsigned i = 0; round->rules.terms.all_answers && i < round->locks->nodes->count; i++)
        if (rl_node_usable(&round->locks->nodes->node[i], start.now, false).is == RL_COMING)
            start.coming |= targets & quorum_node(i);
    start.usable &= ~start.coming;
    rl_round_step(round, &start);
    for (unsigned i = 0; i < round->locks->nodes->count; i++)
        if (!(targets & quorum_node(i)) && !quorum_round_over(&round->rules))
            rl_round_count(round, i, (struct rl_vote){.vote = QUORUM_ABSENT}, start.now);
}

void rl_round_begin(struct rl_round *round)
{
    assert(!quorum_round_over(&round->rules) && !round->rules.asked && !round->list);
    rl_fanout_ref(&round->fanout);
    if (round->rules.terms.kind == QUORUM_RELEASE) {
        start_release(round);
    } else {
        if (!round->renews)
            rl_detached_retry(round->locks); /* otherwise the keys of failed attempts could block this round */
        struct quorum_event start = {.type = QUORUM_START, .now = rl_now()};
        sort_nodes(round, &start);
        leave_out_coming(round, &start);
        rl_round_step(round, &start);
    }
    if (!quorum_round_over(&round->rules) && round->rules.coming)
        enlist(round, &round->locks->coming); /* every node gets the requests in the order of this list */
    rl_fanout_unref(&round->fanout);
}

/* The result of a round that waited for its turn shows which nodes could not have had the request. */
static void count_unusable_ones(struct rl_round *round, quorum_time now)
{
    for (unsigned i = 0; i < round->locks->nodes->count && rl_round_is_waiting(round); i++) {
        struct rl_usable usable = usability(round, &round->locks->nodes->node[i], now);
        if (usable.is == RL_OUT)
            count_unusable(round, i, &usable, now);
    }
}

void rl_round_cancel(struct rl_round *round)
{
    const struct quorum_event cancel = {.type = QUORUM_CANCEL, .now = rl_now()};
    round->decided = NULL;
    count_unusable_ones(round, cancel.now);
    rl_round_step(round, &cancel);
    assert(quorum_round_over(&round->rules));
}

bool rl_round_has_unread_replies(const struct rl_round *round)
{
    if (quorum_round_over(&round->rules))
        return false;
    for (unsigned i = 0; i < round->locks->nodes->count; i++)
        if (rl_round_is_open(round, i) && rl_node_has_unread_replies(&round->locks->nodes->node[i]))
            return true;
    return false;
}

void rl_round_stop_waiting(struct rl_round *round, const char *why)
{
    quorum_time now = rl_now();
    rl_fanout_ref(&round->fanout);
    for (unsigned i = 0; i < round->locks->nodes->count && !quorum_round_over(&round->rules); i++)
        if (rl_round_is_open(round, i)) {
            rl_round_note(round, i, "%s", why);
            rl_round_count(round, i, (struct rl_vote){.vote = QUORUM_TIMED_OUT}, now);
        }
    assert(quorum_round_over(&round->rules)); /* every node has been counted */
    rl_fanout_unref(&round->fanout);
}

/* A node that is being connected keeps the release, and gets it when it is ready. */
void rl_round_go_on(struct rl_round *round)
{
    assert(round->rules.terms.kind == QUORUM_RELEASE);
    round->decided = round->overdue = NULL;
    rl_fanout_ref(&round->fanout);
    for (quorum_nodes left = round->rules.coming; left; left &= left - 1) {
        const struct quorum_event event = {
            .type = QUORUM_USABLE, .now = rl_now(), .node = (unsigned)__builtin_ctz(left)};
        rl_round_step(round, &event);
    }
    rl_fanout_unref(&round->fanout);
}

/* A round that waits for its turn waits for them, too. */
static quorum_nodes coming_nodes(const struct rl_round *round, quorum_time now)
{
    quorum_nodes coming = 0, left = round->rules.tally.voted[QUORUM_PENDING] & ~round->rules.asked;
    for (; left && !quorum_round_over(&round->rules); left &= left - 1)
        if (usability(round, &round->locks->nodes->node[__builtin_ctz(left)], now).is == RL_COMING)
            coming |= left & -left;
    return coming;
}

bool rl_round_awaits_connection(const struct rl_round *round)
{
    return coming_nodes(round, rl_now());
}

void rl_round_stop_reconnecting(struct rl_round *round)
{
    quorum_time now = rl_now();
    rl_fanout_ref(&round->fanout);
    for (quorum_nodes left = coming_nodes(round, now); left && !quorum_round_over(&round->rules); left &= left - 1) {
        const struct rl_node *node = &round->locks->nodes->node[__builtin_ctz(left)];
        if (!node->attempts.ready_since)
            continue;
        rl_round_note(round, node->index, "%s", node->attempts.error[0] ? node->attempts.error : "reconnecting");
        rl_round_count(round, node->index, (struct rl_vote){.vote = QUORUM_UNREACHABLE}, now);
    }
    rl_fanout_unref(&round->fanout);
}

void rl_round_leave(struct rl_round *round)
{
    if (!round)
        return;
    round->decided = NULL;
    round->overdue = NULL;
    round->replied = NULL;
    round->owner = NULL;
    enlist(round, NULL);
    rl_fanout_unref(&round->fanout);
}

static void node_changed(struct rl_round *round, struct rl_node *node)
{
    quorum_time now = rl_now();
    if (!(round->rules.coming & quorum_node(node->index)))
        return;
    struct rl_usable usable = usability(round, node, now);
    if (usable.is == RL_COMING)
        return;
    if (usable.is == RL_OUT && round->rules.terms.kind != QUORUM_RELEASE) {
        count_unusable(round, node->index, &usable, now);
        return;
    }
    const struct quorum_event event = {.type = QUORUM_USABLE, .now = now, .node = node->index};
    rl_round_step(round, &event);
}

/* The end of one round may end others: after a round has left the list, the walk starts again. A round handles each
 * change once. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node)
{
    struct rl_round *next;
    for (struct rl_round *round = locks->coming.first; round; round = next) {
        rl_fanout_ref(&round->fanout);
        node_changed(round, node);
        next = round->list ? round->next : locks->coming.first;
        rl_fanout_unref(&round->fanout);
    }
}

/* -------------------------------------------------------------------------------------------------------- admission */

/* Nodes that hang send nothing that would start a turn of the loop. */
#define ADMISSION_CHECK (100 * QUORUM_MILLISECOND)

void rl_round_start(struct rl_round *round)
{
    struct rl_locks *locks = round->locks;
    if (rl_round_is_grant(round) && (locks->waiting.first || rl_nodes_are_crowded(locks->nodes)))
        enlist(round, &locks->waiting);
    else
        rl_round_begin(round);
}

void rl_rounds_admit(struct rl_locks *locks)
{
    while (locks->waiting.first && !rl_nodes_are_crowded(locks->nodes)) {
        struct rl_round *round = locks->waiting.first;
        enlist(round, NULL);
        rl_round_begin(round);
    }
    if (locks->waiting.first && !locks->admission_timer.set)
        rl_timer_set(&locks->core->timers, &locks->admission_timer, rl_now() + ADMISSION_CHECK);
}
