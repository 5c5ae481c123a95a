#include "src/node/carrier.h"

#include <assert.h>
#include <string.h>

#include "src/core/core.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

struct rl_carrier {
    struct rl_fanout fanout; /* its references are the carrier's */
    rl_carrier_format *format;
    unsigned count;
    struct rl_fanout *member[RL_CARRIER_MOST]; /* each with a reference per request in flight */
    struct rl_request request[];               /* one per node */
};

static void destroy(struct rl_fanout *fanout)
{
    rl_core_free(fanout->nodes->core, fanout);
}

static bool is_divisible(const struct rl_carrier *carrier, const redisReply *reply)
{
    if (!reply || reply->type != REDIS_REPLY_STRING || (size_t)reply->len != carrier->count)
        return false;
    for (unsigned i = 0; i < carrier->count; i++)
        if (reply->str[i] < '0' || reply->str[i] > '9')
            return false;
    return true;
}

/* The member's request gets the fields of the carrier's, as if it had been sent itself. */
static void pass_on(struct rl_fanout *member, const struct rl_request *carried, const struct rl_answer *answer)
{
    struct rl_request *request = &member->request[answer->node->index];
    request->sent = carried->sent;
    request->overdue = carried->overdue;
    request->use_eval = carried->use_eval;
    member->type->answered(member, request, answer);
    if (answer->kind != RL_ANSWER_OVERDUE)
        rl_fanout_unref(member);
}

/* A server refuses the whole command for one key that the user may not use. */
static bool is_refused_for_one(const struct rl_answer *answer)
{
    return answer->reply && rl_reply_error(answer->reply) == RL_ERROR_NOT_PERMITTED;
}

/* false: no memory. */
static bool send_apart(struct rl_fanout *member, struct rl_node *node)
{
    if (!member->type->resend(member, &member->request[node->index], node, false))
        return false;
    rl_fanout_unref(member);
    return true;
}

static void answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_carrier *carrier = (struct rl_carrier *)fanout;
    assert(answer->kind != RL_ANSWER_DROPPED); /* the members are kept, each by itself */
    redisReply digit = {.type = REDIS_REPLY_INTEGER};
    struct rl_answer part = *answer;
    bool divisible = is_divisible(carrier, answer->reply), apart = is_refused_for_one(answer);
    if (divisible)
        part.reply = &digit;
    for (unsigned i = 0; i < carrier->count; i++) {
        if (divisible)
            digit.integer = answer->reply->str[i] - '0';
        if (!apart || !send_apart(carrier->member[i], answer->node))
            pass_on(carrier->member[i], request, &part);
    }
}

static quorum_nodes send(struct rl_carrier *carrier, quorum_nodes nodes, bool use_eval)
{
    struct rl_command command;
    command.count = 0;
    command.bytes = NULL;
    quorum_nodes failed = nodes;
    if (carrier->format(carrier->member, carrier->count, use_eval, &command))
        failed = rl_fanout_send(&carrier->fanout, nodes, &command);
    rl_command_free(&command);
    return failed;
}

static bool resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    (void)request;
    return send((struct rl_carrier *)fanout, quorum_node(node->index), use_eval) == 0;
}

static unsigned undos(const struct rl_fanout *fanout)
{
    return ((const struct rl_carrier *)fanout)->count;
}

static const struct rl_fanout_type type = {.answered = answered, .resend = resend, .undos = undos, .destroy = destroy};

quorum_nodes rl_carrier_send(struct rl_fanout *const *member, unsigned count, quorum_nodes nodes,
                             rl_carrier_format *format)
{
    assert(count >= 1 && count <= RL_CARRIER_MOST);
    struct rl_nodes *all = member[0]->nodes;
    struct rl_carrier *carrier = rl_core_allocate(all->core, sizeof *carrier + all->count * sizeof(struct rl_request));
    if (!carrier)
        return nodes;
    rl_fanout_init(&carrier->fanout, &type, all, carrier->request, true);
    carrier->format = format;
    carrier->count = count;
    memcpy(carrier->member, member, count * sizeof *member);
    quorum_nodes failed = send(carrier, nodes, false);
    for (quorum_nodes left = nodes & ~failed; left; left &= left - 1)
        for (unsigned i = 0; i < count; i++)
            rl_fanout_ref(member[i]);
    rl_fanout_unref(&carrier->fanout);
    return failed;
}
