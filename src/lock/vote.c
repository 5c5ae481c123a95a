#include "src/lock/vote.h"

#include <assert.h>
#include <string.h>

#include "quorum/fence.h"
#include "src/lock/held_by.h"
#include "src/lock/locks.h"
#include "src/lock/queue_table.h"
#include "src/lock/round.h"
#include "src/node/guard.h"
#include "src/node/witnesses.h"

/* A node that did not grant the lock keeps the winner's entry in its queue. It stays in may_hold, so that the release
 * removes the entry. */
static bool leaves_place(const struct rl_round *round)
{
    return round->command == RL_COMMAND_TAKE && round->rules.verdict == QUORUM_WON;
}

/* A node that cannot set all keys of a lock again may have some. */
static bool heals_one_key(const struct rl_round *round)
{
    return rl_round_heals(round) && round->lease->key_count == 1;
}

void rl_vote_count(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now)
{
    bool absent = rl_round_is_grant(round) ? !leaves_place(round) : heals_one_key(round);
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

void rl_vote_count_overdue(struct rl_round *round, const struct rl_node *node, quorum_time now)
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

void rl_vote_note_reply(struct rl_round *round, unsigned node, const redisReply *reply)
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
    rl_vote_note_reply(round, node, reply);
    if (vote->clock && reply->type != REDIS_REPLY_ERROR)
        rl_round_note(round, node,
                      "its clock or last fencing token differs from this machine's clock by more than a day");
}

static bool is_settled(const struct rl_round *round, const struct rl_node *node, quorum_time now)
{
    enum quorum_kind kind = round->rules.terms.kind;
    bool adopts = kind == QUORUM_ADOPT, releases = kind == QUORUM_RELEASE;
    bool keeps = adopts || releases || kind == QUORUM_EXTEND;
    /* The nodes that granted the lock keep it until its end, so also from a client that is cut off with the old master. */
    quorum_time until = releases && round->lease->rules.validity_end > now ? round->lease->rules.validity_end : now;
    return !keeps || quorum_guard_counts_held(node->nodes->guard, node->index, adopts, until);
}

void rl_vote_withhold_unconfirmed(struct rl_round *round, struct rl_node *node, struct rl_vote *vote, quorum_time now)
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
    rl_vote_withhold_unconfirmed(round, &round->locks->nodes->node[node], &vote, now);
    if (round->replied &&
        round->rules.verdict != QUORUM_WON) /* a failed attempt's late reply still reports the queue */
        round->replied(round, node, &vote, reply);
    rl_vote_count(round, node, vote, now);
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
    if (vote.vote == QUORUM_HELD && leaves_place(round))
        round->locks->queues.enqueued_late(round->locks, round->lease);
}

/* ---------------------------------------------------------------------------------------------- the fan-out's functions */

void rl_vote_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_round *round = (struct rl_round *)fanout;
    const struct rl_node *node = answer->node;
    assert(answer->kind != RL_ANSWER_DROPPED); /* only undos are kept */
    if (answer->kind == RL_ANSWER_OVERDUE) {
        rl_vote_count_overdue(round, node, answer->now);
    } else if (answer->kind == RL_ANSWER_REPLY) {
        take_reply(round, request, answer);
    } else if (!quorum_round_over(&round->rules) || quorum_round_finds_absent(&round->rules)) {
        if (rl_round_heals(round))
            rl_lease_note_healed(round->lease, node->index, false);
        rl_round_note(round, node->index, "%s",
                      node->attempts.error[0] ? node->attempts.error : "the connection broke");
        rl_round_count_out(round, node->index, QUORUM_UNREACHABLE, false, answer->now);
    }
}

/* Without a proof in time the node has been counted as overdue. */
void rl_vote_proven(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, enum quorum_proof proof,
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
bool rl_vote_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    (void)request;
    struct rl_round *round = (struct rl_round *)fanout;
    if (rl_round_heals(round) && !rl_lease_may_heal(round->lease))
        return false;
    if (round->rules.terms.kind == QUORUM_EXTEND && round->lease->kept_until)
        return false;
    if ((quorum_round_over(&round->rules) && !adds_copy(round)) ||
        (round->command == RL_COMMAND_DEQUEUE && rl_queue_is_waiting(round->locks, round->lease, round->lease->shared)))
        return false;
    return rl_round_send(round, quorum_node(node->index), use_eval) == 0;
}
