#include "src/node/carrier.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "src/node/nodes.h"
#include "src/node/reply.h"

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
    rl_timer_stop(&fanout->nodes->core->timers, &carrier->turns_end);
    carrier_drop_bytes(carrier);
    rl_core_free(fanout->nodes->core, carrier);
}

/* ----------------------------------------------------------------------------------------------------------- answers */

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

/* ----------------------------------------------------------------------------------------------------------- sending */

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
    if ((core->closing || core->forked) && !rl_fanout_is_undo(&carrier->fanout))
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
    if (!rl_fanout_is_undo(fanout))
        return false;
    rl_command_init(&command);
    carrier->format(carrier->member, carrier->count, use_eval, &command);
    bool sent = rl_fanout_send(fanout, quorum_node(node->index), &command) == 0;
    rl_command_free(&command);
    return sent;
}

static unsigned carrier_undos(const struct rl_fanout *fanout)
{
    return ((const struct rl_carrier *)fanout)->count;
}

static const struct rl_fanout_type carrier_type = {
    .answered = carrier_on_answer, .resend = carrier_resend, .undos = carrier_undos, .destroy = carrier_destroy};

/* ---------------------------------------------------------------------------------------------------------- creating */

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
    rl_fanout_init(&carrier->fanout, &carrier_type, nodes, carrier->request, rl_fanout_is_undo(member[0]));
    carrier->fanout.urgent = member[0]->urgent;
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
