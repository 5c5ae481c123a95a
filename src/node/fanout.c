#include "src/node/fanout.h"

#include <assert.h>

#include "src/node/attest.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

static const struct rl_request_type requests, undos;

void rl_fanout_init(struct rl_fanout *fanout, const struct rl_fanout_type *type, struct rl_nodes *nodes,
                    struct rl_request *request, bool is_undo)
{
    assert(type->answered && type->destroy);
    *fanout = (struct rl_fanout){
        .sender = {is_undo ? &undos : &requests}, .type = type, .nodes = nodes, .request = request, .references = 1};
    for (unsigned i = 0; i < nodes->count; i++)
        request[i] = (struct rl_request){.sender = &fanout->sender};
}

bool rl_fanout_is_undo(const struct rl_fanout *fanout)
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
        else if (rl_fanout_is_undo(fanout))
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
    const struct rl_fanout *fanout = fanout_of(request);
    return fanout->type->undos ? fanout->type->undos(fanout) : 1;
}

static const struct rl_request_type requests = {.answered = answered, .proven = proven};
static const struct rl_request_type undos = {.answered = answered, .send = send_kept, .undos = undos_of};
