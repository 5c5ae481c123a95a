#include "src/lock/undo.h"

#include <stddef.h>
#include <stdio.h>

#include "quorum/validity.h"
#include "src/core/clock.h"
#include "src/lock/locks.h"
#include "src/lock/question.h"
#include "src/lock/round.h"
#include "src/node/guard.h"
#include "src/node/reply.h"

/* An undo must reach its node eventually: one that cannot be sent now is kept for the node. */
static bool undo_node(struct rl_round *round, struct rl_node *node, const struct rl_command *command, quorum_time now)
{
    struct rl_request *request = &round->node[node->index].undo;
    if (rl_node_is_ready(node) && rl_round_send(round, node, request, command, now))
        return true;
    round->references++;
    rl_node_keep(node, request);
    return false;
}

/* Counts a node that gets the release when it is connected again. */
static void count_untold(struct rl_round *round, unsigned index)
{
    const struct rl_node *node = &round->locks->nodes->node[index];
    char text[RL_NODE_TEXT_SIZE];
    snprintf(text, sizeof text, "%.66s; told when it is back", node->error[0] ? node->error : "not connected");
    rl_round_count_out(round, index, QUORUM_UNREACHABLE, node->permanent && !rl_node_is_ready(node), text, rl_now());
}

void rl_round_undo_nodes(struct rl_round *round, quorum_nodes nodes)
{
    struct rl_question_command built;
    if (!nodes)
        return;
    rl_question_format(&built, round, RL_ASK_RELEASE, false);
    quorum_time now = rl_now();
    quorum_nodes kept = 0;
    for (quorum_nodes left = nodes; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctz(left);
        if (!undo_node(round, &round->locks->nodes->node[index], &built.command, now))
            kept |= quorum_node(index);
    }
    rl_command_free(&built.command);
    if (round->rules.terms.kind != QUORUM_RELEASE)
        return;
    for (; kept; kept &= kept - 1)
        count_untold(round, (unsigned)__builtin_ctz(kept));
}

/*
 * When a contended attempt fails, most of the other replies are on their way. They also say "held", and such a node
 * needs no undo. So the undos wait for a millisecond. They do not wait if an operation ends, because the loop may never
 * run again, or if a round starts, because the keys could block it.
 */
#define UNDO_PATIENCE QUORUM_MILLISECOND

void rl_round_undo_later(struct rl_round *round, quorum_nodes nodes)
{
    if (!nodes)
        return;
    round->undo = nodes;
    round->references++;
    round->next_undo = round->locks->undoing;
    round->locks->undoing = round;
    if (!round->locks->undo_timer.set)
        rl_timer_set(&round->locks->core->timers, &round->locks->undo_timer, quorum_time_add(rl_now(), UNDO_PATIENCE));
}

void rl_rounds_undo(struct rl_locks *locks)
{
    while (locks->undoing) {
        struct rl_round *round = locks->undoing;
        quorum_nodes nodes = round->undo & round->rules.may_hold & round->lease->may_hold;
        locks->undoing = round->next_undo;
        round->undo = 0;
        rl_round_undo_nodes(round, nodes);
        rl_round_unref(round);
    }
}

void rl_rounds_undo_due(struct rl_timer *timer)
{
    rl_rounds_undo((struct rl_locks *)(void *)((char *)timer - offsetof(struct rl_locks, undo_timer)));
}

/* The undo failed. It is kept until the node is connected again, or until its next heartbeat. */
static void undo_again(struct rl_round *round, struct rl_request *request, quorum_time now)
{
    struct rl_node *node = request->node;
    if (node->state == RL_NODE_CLOSED) {
        round->locks->pending_undos++;
        round->locks->core->statistics.undos_dropped++;
        return;
    }
    round->references++;
    rl_node_keep(node, request);
    if (round->rules.terms.kind != QUORUM_RELEASE || quorum_round_over(&round->rules))
        return;
    if (request->overdue)
        rl_round_count_out(round, node->index, QUORUM_TIMED_OUT, false,
                           "silent; it is sent the release when it is back", now);
    else
        rl_round_count_out(round, node->index, QUORUM_UNREACHABLE, false,
                           "the connection broke; it is told when it is back", now);
}

/* The longest time that a key of this round can exist on a node. */
static quorum_duration longest_life(const struct rl_round *round)
{
    const redlock_options *options = &round->locks->core->options;
    uint32_t held_ms = round->lease->ttl_ms, unknown_ms = options->max_ttl_ms;
    quorum_duration asked = round->rules.terms.ttl;
    quorum_duration held = (held_ms || asked ? held_ms : unknown_ms) * QUORUM_MILLISECOND;
    quorum_duration life = held > asked ? held : asked;
    return quorum_time_add(life, quorum_drift(life, options->drift_ppm));
}

/*
 * A node that is loading, busy, full, or a replica for now may still have the key, so the undo is repeated. The refusal
 * follows all earlier commands of the connection: once the node has refused for as long as the key can exist, the key
 * has expired.
 */
static bool is_worth_repeating(const struct rl_round *round, struct rl_round_node *part, const struct rl_vote *vote,
                               const struct rl_answer *answer)
{
    if (vote->vote != QUORUM_REFUSED || (vote->permanent && !rl_reply_is_error(answer->reply, "READONLY")))
        return false;
    if (!part->undo_refused)
        part->undo_refused = answer->now;
    return quorum_time_since(part->undo_refused, answer->now) < longest_life(round);
}

static void undo_replied(struct rl_round *round, struct rl_request *request, const struct rl_answer *answer)
{
    unsigned index = request->node->index;
    struct rl_round_node *part = &round->node[index];
    struct rl_vote vote_of_node = rl_reply_vote(RL_ASK_RELEASE, answer->reply);
    if (vote_of_node.noscript && !request->whole) {
        if (!rl_round_send_text(round, request, RL_ASK_RELEASE))
            undo_again(round, request, answer->now);
        return;
    }
    if (round->rules.terms.kind == QUORUM_RELEASE && rl_round_is_open(round, index)) {
        rl_round_note_latency(part, request, answer->now);
        rl_reply_text(answer->reply, part->text, sizeof part->text);
        rl_round_vote(round, index, vote_of_node, answer->now);
    }
    if (answer->reply->type == REDIS_REPLY_INTEGER && answer->reply->integer == 2)
        rl_guard_find(request->node, REDLOCK_FINDING_NO_PUBLISH, true);
    if (is_worth_repeating(round, part, &vote_of_node, answer))
        undo_again(round, request, answer->now);
    else
        round->lease->may_hold &= ~quorum_node(index);
}

static void undo_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_round *round = rl_round_of(request, offsetof(struct rl_round_node, undo));
    switch (answer->kind) {
    case RL_ANSWER_OVERDUE:
        if (round->rules.terms.kind == QUORUM_RELEASE)
            rl_round_count_overdue(round, request, answer->now);
        return;
    case RL_ANSWER_REPLY:
        undo_replied(round, request, answer);
        break;
    case RL_ANSWER_BROKEN:
        undo_again(round, request, answer->now);
        break;
    case RL_ANSWER_DROPPED:
        round->locks->pending_undos++;
        round->locks->core->statistics.undos_dropped++;
        break;
    }
    rl_round_unref(round);
}

/* Sends a kept undo. The request in flight takes over the reference of the kept one. */
static bool undo_send(struct rl_request *request)
{
    struct rl_round *round = rl_round_of(request, offsetof(struct rl_round_node, undo));
    struct rl_question_command built;
    request->whole = false;
    bool sent = rl_question_format(&built, round, RL_ASK_RELEASE, false) &&
                rl_node_send(request->node, request, &built.command);
    rl_command_free(&built.command);
    return sent;
}

const struct rl_request_type rl_undo_type = {.answered = undo_answered, .send = undo_send};
