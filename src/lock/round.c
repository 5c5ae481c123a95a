#include "src/lock/round.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "quorum/fence.h"
#include "quorum/validity.h"
#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/lock/locks.h"
#include "src/lock/question.h"
#include "src/lock/undo.h"
#include "src/node/guard.h"

#define SPARE_ROUNDS 64

static void apply(struct rl_round *round, struct quorum_actions actions);

/* ---------------------------------------------------------------------------------------------------------- lifetime */

static size_t round_size(const struct rl_locks *locks)
{
    return sizeof(struct rl_round) + locks->nodes->count * sizeof(struct rl_round_node);
}

void rl_round_unref(struct rl_round *round)
{
    struct rl_locks *locks = round->locks;
    assert(round->references > 0);
    if (--round->references > 0)
        return;
    assert(!round->on_list);
    rl_lease_unref(round->lease);
    if (locks->spare_count >= SPARE_ROUNDS) {
        rl_core_free(locks->core, round);
        return;
    }
    round->next = locks->spare_rounds;
    locks->spare_rounds = round;
    locks->spare_count++;
}

static struct rl_round *reuse(struct rl_locks *locks)
{
    struct rl_round *round = locks->spare_rounds;
    if (!round)
        return rl_core_allocate(locks->core, round_size(locks));
    locks->spare_rounds = round->next;
    locks->spare_count--;
    return round;
}

void rl_rounds_free_spare(struct rl_locks *locks)
{
    while (locks->spare_rounds) {
        struct rl_round *round = reuse(locks);
        rl_core_free(locks->core, round);
    }
}

static const struct rl_request_type ask_type;

struct rl_round *rl_round_create(struct rl_locks *locks, struct rl_lease *lease, enum rl_question question,
                                 const struct quorum_terms *terms)
{
    struct rl_round *round = reuse(locks);
    if (!round)
        return NULL;
    memset(round, 0, sizeof *round);
    quorum_round_init(&round->rules, terms);
    round->locks = locks;
    round->references = 1;
    round->lease = rl_lease_ref(lease);
    round->question = question;
    for (unsigned i = 0; i < locks->nodes->count; i++) {
        struct rl_round_node *part = &round->node[i];
        part->ask.type = &ask_type;
        part->undo.type = &rl_undo_type;
        part->ask.whole = part->undo.whole = false;
        part->latency_us = 0;
        part->undo_refused = 0;
        part->text[0] = '\0';
    }
    return round;
}

static void list(struct rl_round *round, bool on)
{
    struct rl_locks *locks = round->locks;
    if (round->on_list == on)
        return;
    round->on_list = on;
    if (on) {
        round->previous = NULL;
        round->next = locks->coming;
        if (round->next)
            round->next->previous = round;
        locks->coming = round;
    } else {
        *(round->previous ? &round->previous->next : &locks->coming) = round->next;
        if (round->next)
            round->next->previous = round->previous;
    }
}

/* ----------------------------------------------------------------------------------------------------------- sending */

/* The round sets keys, which a node in quarantine does not grant. */
static bool is_grant(const struct rl_round *round)
{
    return round->rules.terms.kind == QUORUM_ACQUIRE;
}

bool rl_round_send(struct rl_round *round, struct rl_node *node, struct rl_request *request,
                   const struct rl_command *command, quorum_time now)
{
    bool grants = is_grant(round) && request == &round->node[node->index].ask;
    if (grants)
        rl_attest_owe(node);
    if (!command->bytes || !rl_node_send_at(node, request, command, now))
        return false;
    round->references++;
    if (grants)
        round->lease->may_hold |= quorum_node(node->index);
    return true;
}

static void tell(struct rl_round *round, const struct quorum_event *event)
{
    struct quorum_event told = *event;
    told.stopped = round->locks->nodes->clock_stopped;
    apply(round, quorum_round_step(&round->rules, &told));
}

/* The node has not been counted. A later reply must not replace the text that says why it was counted. */
bool rl_round_is_open(const struct rl_round *round, unsigned node)
{
    return round->rules.tally.voted[QUORUM_PENDING] & quorum_node(node);
}

void rl_round_count_out(struct rl_round *round, unsigned node, enum quorum_vote vote, bool permanent,
                        const char *reason, quorum_time now)
{
    if (rl_round_is_open(round, node))
        snprintf(round->node[node].text, sizeof round->node[node].text, "%s", reason);
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = now, .node = node, .vote = vote, .permanent = permanent};
    tell(round, &event);
}

/* Returns the nodes that could not be sent to. */
static quorum_nodes ask_some(struct rl_round *round, quorum_nodes nodes, bool subscribed)
{
    struct rl_question_command built;
    if (!nodes)
        return 0;
    built.subscribed = subscribed;
    rl_question_format(&built, round, round->question, false);
    quorum_time now = rl_now();
    quorum_nodes failed = 0;
    for (quorum_nodes left = nodes; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctz(left);
        if (!rl_round_send(round, &round->locks->nodes->node[index], &round->node[index].ask, &built.command, now))
            failed |= quorum_node(index);
    }
    rl_command_free(&built.command);
    return failed;
}

static bool enqueues(const struct rl_round *round)
{
    return round->question == RL_ASK_SIGN || round->question == RL_ASK_TAKE;
}

static void ask_nodes(struct rl_round *round, quorum_nodes nodes)
{
    quorum_nodes subscribed = enqueues(round) ? nodes & rl_listeners_up(round->locks->nodes) : 0;
    quorum_nodes failed = ask_some(round, subscribed, true) | ask_some(round, nodes & ~subscribed, false);
    /* After all sends, because a vote can decide the round, which ends the sending. */
    for (; failed; failed &= failed - 1)
        rl_round_count_out(round, (unsigned)__builtin_ctz(failed), QUORUM_UNREACHABLE, false,
                           "the link does not take it", rl_now());
}

static enum quorum_vote vote_of(const struct rl_round *round, unsigned node)
{
    const struct quorum_tally *tally = &round->rules.tally;
    for (unsigned v = QUORUM_GRANTED; v < QUORUM_VOTES; v++)
        if (tally->voted[v] & quorum_node(node))
            return (enum quorum_vote)v;
    return QUORUM_PENDING;
}

static void explain_node(const struct rl_round *round, unsigned node)
{
    const struct rl_round_node *part = &round->node[node];
    char latency[24] = "";
    if (part->latency_us)
        snprintf(latency, sizeof latency, " after %.1f ms", part->latency_us / 1000.0);
    rl_log(round->locks->core, REDLOCK_LOG_DEBUG, "  %s: %s%s%s%s", round->locks->nodes->node[node].address.name,
           redlock_outcome_name(rl_result_outcome(vote_of(round, node))), latency, part->text[0] ? ": " : "",
           part->text);
}

/* Logs why a lock was granted or not. Looks are left out: they are not about one lock's outcome. */
static void explain(const struct rl_round *round)
{
    static const char *const kinds[] = {[QUORUM_ACQUIRE] = "acquire",
                                        [QUORUM_EXTEND] = "extend",
                                        [QUORUM_ADOPT] = "adopt",
                                        [QUORUM_RELEASE] = "release",
                                        [QUORUM_LOOK] = NULL};
    struct rl_locks *locks = round->locks;
    const char *kind = kinds[round->rules.terms.kind];
    if (!kind || !rl_logs(locks->core, REDLOCK_LOG_DEBUG))
        return;
    rl_log(locks->core, REDLOCK_LOG_DEBUG, "%s %.100s: %s", kind, round->lease->key[0].bytes,
           redlock_status_name(rl_result_status(round->rules.verdict)));
    for (unsigned i = 0; i < locks->nodes->count; i++)
        explain_node(round, i);
}

/* In a release the request is the undo. */
static void apply(struct rl_round *round, struct quorum_actions actions)
{
    if (!actions.send && !actions.undo && !actions.decided && !actions.confirmed)
        return;
    round->references++; /* an action may end the owner's reference */
    if (actions.decided) {
        list(round, false);
        explain(round);
    }
    if (actions.send && round->rules.terms.kind == QUORUM_RELEASE)
        rl_round_undo_nodes(round, actions.send);
    else if (actions.send)
        ask_nodes(round, actions.send);
    rl_round_undo_later(round, actions.undo & round->lease->may_hold);
    if (actions.decided && round->decided)
        round->decided(round);
    if (actions.confirmed)
        rl_lease_confirmed(round->lease, &round->rules, rl_now());
    rl_round_unref(round);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* A node that did not grant the lock keeps the winner's entry in its queue. It stays in may_hold, so that the release
 * removes the entry. */
static bool leaves_place(const struct rl_round *round)
{
    return round->question == RL_ASK_TAKE && round->rules.verdict == QUORUM_WON;
}

void rl_round_vote(struct rl_round *round, unsigned node, struct rl_vote vote, quorum_time now)
{
    if (vote.left_nothing && is_grant(round) && !leaves_place(round))
        round->lease->may_hold &= ~quorum_node(node);
    const struct quorum_event event = {.type = QUORUM_VOTED,
                                       .now = now,
                                       .node = node,
                                       .vote = vote.vote,
                                       .permanent = vote.permanent,
                                       .clock = vote.clock,
                                       .left_nothing = vote.left_nothing};
    tell(round, &event);
}

void rl_round_note_latency(struct rl_round_node *part, const struct rl_request *request, quorum_time now)
{
    quorum_duration latency = quorum_time_since(request->sent, now) / QUORUM_MICROSECOND;
    part->latency_us = latency > UINT32_MAX ? UINT32_MAX : latency ? (uint32_t)latency : 1;
}

/* Sends the request again with the script's text, behind everything sent meanwhile. */
bool rl_round_send_text(struct rl_round *round, struct rl_request *request, enum rl_question question)
{
    struct rl_question_command built;
    built.subscribed = request->node->listener.up;
    bool sent = rl_question_format(&built, round, question, true) &&
                rl_round_send(round, request->node, request, &built.command, rl_now());
    rl_command_free(&built.command);
    request->whole = true;
    return sent;
}

/* A removal that is sent again may follow the next waiter into the queue. Both have the same name, so it would remove
 * that waiter's entry. */
static bool is_still_asked(const struct rl_round *round)
{
    return round->question != RL_ASK_LEAVE || !rl_queue_is_waiting(round->locks, round->lease);
}

void rl_round_count_overdue(struct rl_round *round, const struct rl_request *request, quorum_time now)
{
    char text[RL_NODE_TEXT_SIZE];
    snprintf(text, sizeof text, "no answer within %llu ms",
             (unsigned long long)(rl_node_timeout(request->node) / QUORUM_MILLISECOND));
    if (quorum_round_over(&round->rules))
        return;
    unsigned node = request->node->index;
    if (rl_round_is_open(round, node))
        snprintf(round->node[node].text, sizeof round->node[node].text, "%s", text);
    const struct quorum_event event = {.type = QUORUM_OVERDUE, .now = now, .node = node};
    tell(round, &event);
    if (round->overdue && !quorum_round_over(&round->rules))
        round->overdue(round);
}

/* A record too far ahead comes from a wrong clock: the node counts as refused, in every round that chooses the fencing
 * token. After the choice the record does not matter. */
static bool is_far_off(const struct rl_round *round, const struct rl_vote *vote)
{
    return round->fence && !round->lease->fence && vote->vote == QUORUM_GRANTED &&
           !quorum_fence_is_near(round->fence, vote->record);
}

/* A node that refuses to record a settled token has prolonged the lock all the same. */
static struct rl_vote judge_fence(const struct rl_round *round, struct rl_vote vote)
{
    if (is_far_off(round, &vote))
        return (struct rl_vote){.vote = QUORUM_REFUSED, .clock = true};
    if (vote.clock && round->question == RL_ASK_KEEP && round->lease->fence)
        return (struct rl_vote){.vote = QUORUM_GRANTED};
    return vote;
}

static void note_text(struct rl_round_node *part, const struct rl_vote *vote, const redisReply *reply)
{
    rl_reply_text(reply, part->text, sizeof part->text);
    if (vote->clock && !part->text[0])
        snprintf(part->text, sizeof part->text, "its clock, or its last fencing token, is more than a day off ours");
}

static void count_reply(struct rl_round *round, unsigned index, struct rl_vote of_node, const redisReply *reply,
                        quorum_time now)
{
    if (round->replied &&
        round->rules.verdict != QUORUM_WON) /* a failed attempt's late reply still reports the queue */
        round->replied(round, index, &of_node, reply);
    rl_round_vote(round, index, of_node, now);
}

/* A grant counts with its proof, unless the node has turned out to be unfit, or to have lost data, since. */
static void count_grant(struct rl_round *round, struct rl_node *node, enum quorum_proof proof, quorum_time now)
{
    struct rl_round_node *part = &round->node[node->index];
    struct rl_vote of_node = {.vote = quorum_attest_vote(QUORUM_GRANTED, proof), .record = part->record};
    const char *objection = "marker changed: the node may have forgotten locks";
    if (of_node.vote == QUORUM_UNATTESTED) {
        round->locks->core->statistics.unattested++;
    } else {
        objection = node->unfit ? node->unfit : rl_guard_objection(node, now);
        if (objection)
            of_node = (struct rl_vote){.vote = QUORUM_REFUSED, .permanent = node->unfit};
    }
    if (objection && rl_round_is_open(round, node->index))
        snprintf(part->text, sizeof part->text, "%s", objection);
    if (quorum_round_over(&round->rules) && round->rules.verdict != QUORUM_WON && of_node.vote == QUORUM_GRANTED)
        round->locks->core->statistics.late_grants++;
    count_reply(round, node->index, of_node, NULL, now);
}

/* true: the request was sent again, or its grant waits for its proof. */
static bool take_reply(struct rl_round *round, struct rl_request *request, const struct rl_answer *answer)
{
    unsigned index = request->node->index;
    struct rl_round_node *part = &round->node[index];
    struct rl_vote of_node = judge_fence(round, rl_reply_vote(round->question, answer->reply));
    if (of_node.noscript && !request->whole && !quorum_round_over(&round->rules) && is_still_asked(round) &&
        rl_round_send_text(round, request, round->question)) {
        rl_round_unref(round);
        return true;
    }
    if (rl_round_is_open(round, index)) {
        rl_round_note_latency(part, request, answer->now);
        note_text(part, &of_node, answer->reply);
    }
    bool grants = is_grant(round) && of_node.vote == QUORUM_GRANTED;
    part->record = of_node.record;
    if (grants && round->locks->core->options.guard) {
        rl_attest_await(request);
        return true;
    }
    if (grants)
        count_grant(round, request->node, QUORUM_PROVEN, answer->now);
    else
        count_reply(round, index, of_node, answer->reply, answer->now);
    if (of_node.vote == QUORUM_HELD && leaves_place(round))
        rl_queue_leave_late(round->locks, round->lease);
    return false;
}

struct rl_round *rl_round_of(struct rl_request *request, size_t member)
{
    struct rl_round_node *part = (struct rl_round_node *)(void *)((char *)request - member);
    struct rl_round_node *first = part - request->node->index;
    return (struct rl_round *)(void *)((char *)first - offsetof(struct rl_round, node));
}

static void ask_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_round *round = rl_round_of(request, offsetof(struct rl_round_node, ask));
    switch (answer->kind) {
    case RL_ANSWER_OVERDUE:
        rl_round_count_overdue(round, request, answer->now);
        return;
    case RL_ANSWER_REPLY:
        if (take_reply(round, request, answer))
            return;
        break;
    case RL_ANSWER_BROKEN:
    case RL_ANSWER_DROPPED:
        if (!quorum_round_over(&round->rules))
            rl_round_count_out(round, request->node->index, QUORUM_UNREACHABLE, false,
                               request->node->error[0] ? request->node->error : "the connection broke", answer->now);
        break;
    }
    rl_round_unref(round);
}

static void ask_attested(struct rl_request *request, enum quorum_proof proof, quorum_time now)
{
    struct rl_round *round = rl_round_of(request, offsetof(struct rl_round_node, ask));
    count_grant(round, request->node, proof, now);
    rl_round_unref(round);
}

static const struct rl_request_type ask_type = {.answered = ask_answered, .attested = ask_attested};

/* ------------------------------------------------------------------------------------------------------------ owner */

static struct rl_usable usability(const struct rl_round *round, struct rl_node *node, quorum_time now)
{
    if (round->question == RL_ASK_TRUST && rl_guard_may_take_over(node))
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    return rl_node_usable(node, now, is_grant(round));
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
            rl_round_count_out(round, i, usable.vote, usable.permanent, usable.reason, start->now);
    }
}

/* With all_answers the round waits for a node that is connecting; otherwise that node gets the kept undo later. */
static void start_release(struct rl_round *round)
{
    quorum_nodes told = round->lease->may_hold;
    struct quorum_event start = {.type = QUORUM_START, .now = rl_now(), .usable = told};
    for (unsigned i = 0; round->rules.terms.all_answers && i < round->locks->nodes->count; i++)
        if (rl_node_usable(&round->locks->nodes->node[i], start.now, false).is == RL_COMING)
            start.coming |= told & quorum_node(i);
    start.usable &= ~start.coming;
    tell(round, &start);
    for (unsigned i = 0; i < round->locks->nodes->count; i++)
        if (!(told & quorum_node(i)) && !quorum_round_over(&round->rules))
            rl_round_count_out(round, i, QUORUM_ABSENT, false, "never had it", start.now);
}

void rl_round_start(struct rl_round *round)
{
    round->references++;
    rl_rounds_undo(round->locks); /* otherwise the keys of failed attempts could block this round */
    if (round->rules.terms.kind == QUORUM_RELEASE) {
        start_release(round);
    } else {
        struct quorum_event start = {.type = QUORUM_START, .now = rl_now()};
        sort_nodes(round, &start);
        tell(round, &start);
    }
    if (!quorum_round_over(&round->rules) && round->rules.coming)
        list(round, true);
    rl_round_unref(round);
}

void rl_round_cancel(struct rl_round *round)
{
    const struct quorum_event cancel = {.type = QUORUM_CANCEL, .now = rl_now()};
    round->decided = NULL;
    tell(round, &cancel);
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

void rl_round_stop_waiting(struct rl_round *round)
{
    quorum_time now = rl_now();
    round->references++;
    for (unsigned i = 0; i < round->locks->nodes->count && !quorum_round_over(&round->rules); i++)
        if (rl_round_is_open(round, i))
            rl_round_count_out(round, i, QUORUM_TIMED_OUT, false, "no answer before the key's ttl was over", now);
    rl_round_unref(round);
}

void rl_round_stop_reconnecting(struct rl_round *round)
{
    quorum_time now = rl_now();
    round->references++;
    for (quorum_nodes left = round->rules.coming; left && !quorum_round_over(&round->rules); left &= left - 1) {
        const struct rl_node *node = &round->locks->nodes->node[__builtin_ctz(left)];
        if (node->ready_since)
            rl_round_count_out(round, node->index, QUORUM_UNREACHABLE, false,
                               node->error[0] ? node->error : "it is being connected again", now);
    }
    rl_round_unref(round);
}

void rl_round_leave(struct rl_round *round)
{
    if (!round)
        return;
    round->decided = NULL;
    round->overdue = NULL;
    round->replied = NULL;
    round->owner = NULL;
    list(round, false);
    rl_round_unref(round);
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
        rl_round_count_out(round, node->index, usable.vote, usable.permanent, usable.reason, now);
        return;
    }
    const struct quorum_event event = {.type = QUORUM_USABLE, .now = now, .node = node->index};
    tell(round, &event);
}

/* The end of one round may end others: after a round has left the list, the walk starts again. A round handles each
 * change once. */
void rl_rounds_node_changed(struct rl_locks *locks, struct rl_node *node)
{
    struct rl_round *next;
    for (struct rl_round *round = locks->coming; round; round = next) {
        round->references++;
        node_changed(round, node);
        next = round->on_list ? round->next : locks->coming;
        rl_round_unref(round);
    }
}

void rl_round_fill(const struct rl_round *round, redlock_result *result)
{
    const struct quorum_tally *tally = &round->rules.tally;
    rl_result_count(result, tally);
    for (unsigned i = 0; i < tally->nodes; i++) {
        result->node[i].outcome = rl_result_outcome(vote_of(round, i));
        result->node[i].latency_us = round->node[i].latency_us;
        if (round->node[i].text[0])
            memcpy(result->node[i].text, round->node[i].text, sizeof result->node[i].text);
    }
}
