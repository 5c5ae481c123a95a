#include "src/node/fanout.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "src/node/attest.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

static const struct rl_request_type requests, undos;

void rl_fanout_init(struct rl_fanout *fanout, const struct rl_fanout_type *type, struct rl_nodes *nodes,
                    struct rl_request *request, bool is_undo)
{
    assert(type->answered && type->destroy);
    *fanout = (struct rl_fanout){.sender = {is_undo ? &undos : &requests},
                                 .type = type,
                                 .nodes = nodes,
                                 .request = request,
                                 .references = 1,
                                 .stands_for = 1};
    for (unsigned i = 0; i < nodes->count; i++)
        request[i] = (struct rl_request){.sender = &fanout->sender};
}

static bool sends_undos(const struct rl_fanout *fanout)
{
    return fanout->sender.type == &undos;
}

void rl_fanout_ref(struct rl_fanout *fanout)
{
    assert(fanout->references > 0);
    fanout->references++;
}

void rl_fanout_unref(struct rl_fanout *fanout)
{
    assert(fanout->references > 0);
    if (--fanout->references == 0)
        fanout->type->destroy(fanout);
}

quorum_nodes rl_fanout_send(struct rl_fanout *fanout, quorum_nodes nodes, const struct rl_command *command)
{
    assert(fanout->references > 0 && !(nodes & ~quorum_all(fanout->nodes->count)));
    quorum_nodes failed = 0;
    if (!command->bytes)
        return nodes;
    bool proven_behind = fanout->grants && !fanout->proves_late;
    quorum_time now = rl_now();
    for (quorum_nodes left = nodes; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctz(left);
        struct rl_node *node = &fanout->nodes->node[index];
        struct rl_request *request = &fanout->request[index];
        if (proven_behind)
            rl_attest_owe(node);
        else if (sends_undos(fanout))
            rl_attest_renew_look(node, now);
        request->plain = proven_behind && fanout->plain && fanout->nodes->core->options.guard;
        request->gets = fanout->gets;
        request->use_eval = false;
        request->urgent = fanout->urgent;
        if (rl_node_send(node, request, command, now))
            fanout->references++;
        else
            failed |= quorum_node(index);
    }
    return failed;
}

void rl_fanout_keep(struct rl_fanout *fanout, unsigned node)
{
    assert(node < fanout->nodes->count && fanout->type->resend);
    fanout->references++;
    fanout->request[node].kept = true;
    rl_node_keep(&fanout->nodes->node[node], &fanout->request[node]);
}

void rl_fanout_await_proof(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node)
{
    assert(fanout->grants && fanout->type->proven);
    fanout->references++;
    rl_attest_await(node, request);
    if (fanout->proves_late)
        rl_attest_owe(node);
}

/* The sender is the beginning of a fan-out, which is not const: only static senders are. */
static struct rl_fanout *fanout_of(const struct rl_request *request)
{
    return (struct rl_fanout *)(uintptr_t)request->sender;
}

/* With the script's text NOSCRIPT is a refusal, otherwise resending would never end. */
static bool send_text(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    if (answer->kind != RL_ANSWER_REPLY || request->use_eval || !fanout->type->resend ||
        !rl_reply_is_error(answer->reply, "NOSCRIPT") || !fanout->type->resend(fanout, request, answer->node, true))
        return false;
    request->use_eval = true;
    return true;
}

static void answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_fanout *fanout = fanout_of(request);
    if (!send_text(fanout, request, answer))
        fanout->type->answered(fanout, request, answer);
    if (answer->kind != RL_ANSWER_OVERDUE)
        rl_fanout_unref(fanout);
}

static void proven(struct rl_request *request, struct rl_node *node, enum quorum_proof proof, quorum_time now)
{
    struct rl_fanout *fanout = fanout_of(request);
    fanout->type->proven(fanout, request, node, proof, now);
    rl_fanout_unref(fanout);
}

/* A kept request: its reference ends with the sending, which takes another. */
static bool send_kept(struct rl_request *request, struct rl_node *node)
{
    struct rl_fanout *fanout = fanout_of(request);
    if (!fanout->type->resend(fanout, request, node, false))
        return false;
    rl_fanout_unref(fanout);
    return true;
}

static unsigned undos_of(const struct rl_request *request)
{
    return fanout_of(request)->stands_for;
}

static const struct rl_request_type requests = {.answered = answered, .proven = proven};
static const struct rl_request_type undos = {.answered = answered, .send = send_kept, .undos = undos_of};

/* --------------------------------------------------------------------------------------------------------- the carrier */

struct rl_carrier {
    struct rl_fanout fanout; /* its references are the carrier's */
    rl_carrier_format *format;
    const char *bytes; /* the command's; NULL: no memory, or no node needs it any more */
    size_t length;
    char *copy; /* for the nodes whose turn comes later */
    quorum_nodes unsent;
    unsigned next;
    bool in_turn;
    struct rl_timer turns_end;
    unsigned count;
    struct rl_fanout **member;   /* behind the requests; each with a reference per request without its last answer */
    struct rl_request request[]; /* one per node */
};

static void carrier_drop_bytes(struct rl_carrier *carrier)
{
    rl_core_free(carrier->fanout.nodes->core, carrier->copy);
    carrier->copy = NULL;
    carrier->bytes = NULL;
}

static void carrier_destroy(struct rl_fanout *fanout)
{
    struct rl_carrier *carrier = (struct rl_carrier *)fanout;
    rl_timer_stop(&carrier->turns_end);
    carrier_drop_bytes(carrier);
    rl_core_free(fanout->nodes->core, carrier);
}

/* A digit or an element for each member. Any other reply but an error is an answer to none. */
static bool carrier_has_parts(const struct rl_carrier *carrier, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ARRAY)
        return reply->elements == carrier->count;
    bool digits = reply->type == REDIS_REPLY_STRING && (size_t)reply->len == carrier->count;
    for (size_t i = 0; digits && i < (size_t)reply->len; i++)
        digits = reply->str[i] >= '0' && reply->str[i] <= '9';
    return digits;
}

/* The part of one member, as a node replies to a command for it alone. */
static redisReply part_of(const redisReply *reply, unsigned index)
{
    if (reply->type == REDIS_REPLY_ARRAY)
        return (redisReply){.type = REDIS_REPLY_ARRAY, .elements = 1, .element = &reply->element[index]};
    return (redisReply){.type = REDIS_REPLY_STRING, .str = &reply->str[index], .len = 1};
}

/* The member's request gets the fields of the carrier's, as if it had been sent itself. */
static void carrier_pass_on(struct rl_fanout *member, const struct rl_request *carried, const struct rl_answer *answer)
{
    struct rl_request *request = &member->request[answer->node->index];
    request->sent = carried->sent;
    request->overdue = carried->overdue;
    request->use_eval = carried->use_eval;
    member->type->answered(member, request, answer);
    if (answer->kind != RL_ANSWER_OVERDUE)
        rl_fanout_unref(member);
}

/* false: it is not sent any more, or there is no memory. */
static bool carrier_send_apart(struct rl_fanout *member, struct rl_node *node, bool use_eval)
{
    struct rl_request *request = &member->request[node->index];
    if (!member->type->resend(member, request, node, use_eval))
        return false;
    request->use_eval = use_eval;
    rl_fanout_unref(member);
    return true;
}

static void carrier_take_reply(struct rl_carrier *carrier, const struct rl_request *request,
                               const struct rl_answer *answer)
{
    enum rl_reply_error error = rl_reply_error(answer->reply);
    bool use_eval = error == RL_ERROR_NOSCRIPT;
    /* A server refuses the whole command for one key that the user may not use. */
    bool apart = use_eval || (error == RL_ERROR_NOT_PERMITTED && carrier->count > 1);
    bool has_parts = carrier_has_parts(carrier, answer->reply);
    redisReply part = {.type = REDIS_REPLY_NIL};
    if (error)
        part = *answer->reply;
    struct rl_answer passed = *answer;
    passed.reply = &part;
    for (unsigned i = 0; i < carrier->count; i++) {
        if (apart && carrier_send_apart(carrier->member[i], answer->node, use_eval))
            continue;
        if (has_parts)
            part = part_of(answer->reply, i);
        carrier_pass_on(carrier->member[i], request, &passed);
    }
}

static struct rl_node *carrier_next_node(struct rl_carrier *carrier)
{
    struct rl_nodes *nodes = carrier->fanout.nodes;
    while (!(carrier->unsent & quorum_node(carrier->next)))
        carrier->next = (carrier->next + 1) % nodes->count;
    carrier->unsent &= ~quorum_node(carrier->next);
    return &nodes->node[carrier->next];
}

/* The node does not get the command. apart: for lack of memory; each member's own request needs less. */
static void fail_on(struct rl_node *node, struct rl_fanout *const *member, unsigned count, bool apart)
{
    const struct rl_answer broken = {.kind = RL_ANSWER_BROKEN, .node = node, .now = rl_now()};
    for (unsigned i = 0; i < count; i++)
        if (!apart || !carrier_send_apart(member[i], node, false))
            carrier_pass_on(member[i], &member[i]->request[node->index], &broken);
}

/* false: the client closes, and sends only undos; or the node does not accept it. */
static bool carrier_send_to(struct rl_carrier *carrier, unsigned node)
{
    const struct rl_core *core = carrier->fanout.nodes->core;
    struct rl_command command;
    if ((core->closing || core->forked) && !sends_undos(&carrier->fanout))
        return false;
    command.bytes = (char *)(uintptr_t)carrier->bytes;
    command.length = carrier->length;
    return rl_fanout_send(&carrier->fanout, quorum_node(node), &command) == 0;
}

/* Sends the same bytes to the next node, or to all that are left. */
static void carrier_send_on(struct rl_carrier *carrier)
{
    while (carrier->unsent) {
        struct rl_node *node = carrier_next_node(carrier);
        if (!carrier_send_to(carrier, node->index))
            fail_on(node, carrier->member, carrier->count, !carrier->bytes);
        else if (carrier->in_turn)
            return;
    }
    carrier_drop_bytes(carrier);
}

static void carrier_on_turns_end(struct rl_timer *timer)
{
    struct rl_carrier *carrier = (struct rl_carrier *)(void *)((char *)timer - offsetof(struct rl_carrier, turns_end));
    rl_fanout_ref(&carrier->fanout);
    carrier->in_turn = false;
    carrier_send_on(carrier);
    rl_fanout_unref(&carrier->fanout);
}

static void carrier_on_answer(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_carrier *carrier = (struct rl_carrier *)fanout;
    assert(answer->kind != RL_ANSWER_DROPPED); /* the members are kept, each by itself */
    bool was_overdue = request->overdue && answer->kind != RL_ANSWER_OVERDUE;
    if (answer->kind == RL_ANSWER_REPLY)
        carrier_take_reply(carrier, request, answer);
    else
        for (unsigned i = 0; i < carrier->count; i++)
            carrier_pass_on(carrier->member[i], request, answer);
    if (!was_overdue)
        carrier_send_on(carrier);
}

/* Sends the script's text for all members at once, or the node would never learn a script that only carriers use. Only
 * undos are all sent again in any case. */
static bool carrier_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    (void)request;
    struct rl_carrier *carrier = (struct rl_carrier *)fanout;
    struct rl_command command;
    if (!sends_undos(fanout))
        return false;
    rl_command_init(&command);
    carrier->format(carrier->member, carrier->count, use_eval, &command);
    bool sent = rl_fanout_send(fanout, quorum_node(node->index), &command) == 0;
    rl_command_free(&command);
    return sent;
}

static const struct rl_fanout_type carrier_type = {
    .answered = carrier_on_answer, .resend = carrier_resend, .destroy = carrier_destroy};

/* NULL: no memory. */
static struct rl_carrier *carrier_create(struct rl_fanout *const *member, unsigned count, quorum_nodes to)
{
    struct rl_nodes *nodes = member[0]->nodes;
    size_t members = count * sizeof *member;
    struct rl_carrier *carrier =
        rl_core_allocate(nodes->core, sizeof *carrier + nodes->count * sizeof *carrier->request + members);
    if (!carrier)
        return NULL;
    memset(carrier, 0, sizeof *carrier);
    rl_fanout_init(&carrier->fanout, &carrier_type, nodes, carrier->request, sends_undos(member[0]));
    carrier->fanout.urgent = member[0]->urgent;
    carrier->fanout.stands_for = count;
    carrier->unsent = to;
    carrier->count = count;
    carrier->member = (struct rl_fanout **)(void *)&carrier->request[nodes->count];
    memcpy(carrier->member, member, members);
    return carrier;
}

/* The turns have an end, because the timeout of a node with a backlog starts again with each of its replies. Without
 * memory for the copy there are none. */
static void carrier_begin_turns(struct rl_carrier *carrier, const struct rl_carrier_turns *turns)
{
    struct rl_core *core = carrier->fanout.nodes->core;
    carrier->next = turns->first % carrier->fanout.nodes->count;
    if (turns->end > 0 && carrier->bytes)
        carrier->copy = rl_core_allocate(core, carrier->length);
    if (!carrier->copy)
        return;
    memcpy(carrier->copy, carrier->bytes, carrier->length);
    carrier->bytes = carrier->copy;
    carrier->in_turn = true;
    carrier->turns_end.fire = carrier_on_turns_end;
    rl_timer_set(&core->timers, &carrier->turns_end, quorum_time_add(rl_now(), turns->end));
}

void rl_carrier_send(struct rl_fanout *const *member, unsigned count, quorum_nodes nodes, rl_carrier_format *format,
                     const struct rl_carrier_turns *turns)
{
    assert(count >= 1 && count <= RL_CARRIER_MOST && nodes);
    struct rl_carrier *carrier = carrier_create(member, count, nodes);
    struct rl_command command;
    for (quorum_nodes left = nodes; left; left &= left - 1)
        for (unsigned i = 0; i < count; i++)
            rl_fanout_ref(member[i]);
    for (quorum_nodes left = carrier ? 0 : nodes; left; left &= left - 1)
        fail_on(&member[0]->nodes->node[__builtin_ctz(left)], member, count, true);
    if (!carrier)
        return;
    rl_command_init(&command);
    carrier->format = format;
    format(member, count, false, &command);
    carrier->bytes = command.bytes;
    carrier->length = command.length;
    carrier_begin_turns(carrier, turns);
    carrier_send_on(carrier);
    rl_command_free(&command);
    rl_fanout_unref(&carrier->fanout);
}
