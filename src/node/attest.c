#include "src/node/attest.h"

#include <assert.h>

#include "src/core/clock.h"
#include "src/core/memory.h"
#include "src/node/guard.h"
#include "src/node/limits.h"
#include "src/node/node.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

/* A request for a proof. Several may be in flight to one node: each turn that sends grants sends one. */
struct rl_proof {
    struct rl_request request;
    struct rl_proof *next; /* in the list of spare ones */
    bool look;
};

static void answered(struct rl_request *request, const struct rl_answer *answer);
static const struct rl_request_type type = {.answered = answered};
static const struct rl_sender sender = {&type};

/* ---------------------------------------------------------------------------------------------------------- lifetime */

static struct rl_proof *create(struct rl_nodes *nodes)
{
    struct rl_proof *proof = nodes->spare_proofs;
    if (proof)
        nodes->spare_proofs = proof->next;
    else
        proof = rl_allocate(&nodes->core->allocator, sizeof *proof);
    if (proof)
        *proof = (struct rl_proof){.request.sender = &sender};
    return proof;
}

static void keep_spare(struct rl_nodes *nodes, struct rl_proof *proof)
{
    proof->next = nodes->spare_proofs;
    nodes->spare_proofs = proof;
}

void rl_attest_free_spare(struct rl_nodes *nodes)
{
    while (nodes->spare_proofs) {
        struct rl_proof *proof = nodes->spare_proofs;
        nodes->spare_proofs = proof->next;
        rl_core_free(nodes->core, proof);
    }
}

/* ----------------------------------------------------------------------------------------------------------- sending */

void rl_attest_owe(struct rl_node *node)
{
    if (node->nodes->core->options.guard)
        node->nodes->unproven |= quorum_node(node->index);
}

void rl_attest_renew_look(struct rl_node *node, quorum_time now)
{
    if (!node->nodes->core->options.guard || !quorum_attest_is_aging(&node->attest.rules, now))
        return;
    node->nodes->aging |= quorum_node(node->index);
    node->nodes->unproven |= quorum_node(node->index);
}

/* Formats the command for the first node that needs it; the same bytes go to every node. */
static bool format(const struct rl_nodes *nodes, bool look, bool use_eval, struct rl_command *command)
{
    if (command->bytes)
        return true;
    command->count = 0;
    if (look) {
        rl_command_script(command, RL_SCRIPT_ATTEST, use_eval, "1");
        rl_command_add_text(command, nodes->core->options.marker_key);
    } else {
        rl_command_add(command, "GETRANGE", 8);
        rl_command_add_text(command, nodes->core->options.marker_key);
        rl_command_add(command, "0", 1);
        rl_command_add(command, RL_LIMIT_TEXT(RL_MARKER_LAST), sizeof RL_LIMIT_TEXT(RL_MARKER_LAST) - 1);
    }
    return rl_command_format(command);
}

/* A look that decides about grants whose proof has arrived already. */
static bool send_look(struct rl_node *node, struct rl_proof *proof, bool use_eval)
{
    struct rl_command command;
    command.bytes = NULL;
    proof->look = true;
    proof->request.use_eval = use_eval;
    bool sent = format(node->nodes, true, use_eval, &command) && rl_node_send(node, &proof->request, &command);
    rl_command_free(&command);
    return sent;
}

/* If the proof cannot be requested, break the connection: its grants would wait indefinitely. */
static void prove(struct rl_node *node, struct rl_command kinds[2], quorum_time now)
{
    bool look = node->nodes->aging & quorum_node(node->index) || quorum_attest_needs_look(&node->attest.rules, now);
    struct rl_proof *proof = create(node->nodes);
    if (proof)
        proof->look = look;
    if (proof && format(node->nodes, look, false, &kinds[look]) &&
        rl_node_send_at(node, &proof->request, &kinds[look], now))
        return;
    if (proof)
        keep_spare(node->nodes, proof);
    if (rl_link_is_open(&node->link))
        rl_node_break(node, false, "no memory for the proof of its grants");
}

void rl_attest_send(struct rl_nodes *nodes)
{
    struct rl_command kinds[2]; /* the marker alone, a look */
    if (!nodes->unproven)
        return;
    kinds[false].bytes = kinds[true].bytes = NULL;
    quorum_time now = rl_now();
    while (nodes->unproven) {
        struct rl_node *node = &nodes->node[__builtin_ctz(nodes->unproven)];
        nodes->unproven &= nodes->unproven - 1;
        if (rl_node_is_ready(node))
            prove(node, kinds, now);
    }
    nodes->aging = 0;
    rl_command_free(&kinds[false]);
    rl_command_free(&kinds[true]);
}

/* ----------------------------------------------------------------------------------------------------------- waiting */

void rl_attest_await(struct rl_request *request)
{
    assert(rl_node_is_ready(request->node));
    struct rl_attest *attest = &request->node->attest;
    request->next = NULL;
    *(attest->first ? &attest->last->next : &attest->first) = request;
    attest->last = request;
    if (!attest->punctual)
        attest->punctual = request;
}

static struct rl_request *take_first(struct rl_attest *attest)
{
    struct rl_request *request = attest->first;
    assert(request);
    attest->first = request->next;
    if (attest->punctual == request)
        attest->punctual = request->next;
    return request;
}

void rl_attest_end(struct rl_node *node, quorum_time now)
{
    const struct rl_answer broken = {.kind = RL_ANSWER_BROKEN, .now = now};
    while (node->attest.first) {
        struct rl_request *request = take_first(&node->attest);
        request->sender->type->answered(request, &broken);
    }
}

/* Count the waiting grants as timed out. They stay on the list, because the proof may still arrive. */
static void report_overdue(struct rl_node *node, quorum_time now)
{
    const struct rl_answer overdue = {.kind = RL_ANSWER_OVERDUE, .now = now};
    while (node->attest.punctual) {
        struct rl_request *request = node->attest.punctual;
        node->attest.punctual = request->next;
        if (request->overdue)
            continue;
        request->overdue = true;
        request->sender->type->answered(request, &overdue);
    }
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* Replies on one connection arrive in order, so every grant on the list was executed before this proof. */
static void settle(struct rl_node *node, enum quorum_proof proof, quorum_time now)
{
    while (node->attest.first) {
        struct rl_request *request = take_first(&node->attest);
        const struct rl_request_type *waiting = request->sender->type;
        (request->plain ? waiting->granted : waiting->attested)(request, proof, now);
    }
}

static enum quorum_proof judge(struct rl_node *node, const struct rl_proof *proof, const struct rl_answer *answer)
{
    if (answer->reply->type != REDIS_REPLY_STRING)
        return QUORUM_NOT_PROVEN;
    const struct quorum_shown shown = {.look = proof->look,
                                       .sent = proof->request.sent,
                                       .received = answer->now,
                                       .bytes = answer->reply->str,
                                       .size = (size_t)answer->reply->len};
    return quorum_attest_prove(&node->attest.rules, &shown);
}

/* true: the proof was requested again. */
static bool take_reply(struct rl_node *node, struct rl_proof *proof, const struct rl_answer *answer)
{
    if (proof->look && !proof->request.use_eval && rl_reply_is_error(answer->reply, "NOSCRIPT") &&
        send_look(node, proof, true))
        return true;
    enum quorum_proof proven = judge(node, proof, answer);
    if (proven == QUORUM_LOOK_AGAIN) {
        if (send_look(node, proof, false))
            return true;
        proven = QUORUM_NOT_PROVEN;
    }
    if (proven != QUORUM_PROVEN)
        rl_guard_doubt(node);
    settle(node, proven, answer->now);
    return false;
}

static void answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_proof *proof = (struct rl_proof *)(void *)request;
    struct rl_node *node = request->node;
    if (answer->kind == RL_ANSWER_OVERDUE) {
        report_overdue(node, answer->now);
        return;
    }
    if (answer->kind == RL_ANSWER_REPLY && take_reply(node, proof, answer))
        return;
    if (answer->kind != RL_ANSWER_REPLY)
        rl_attest_end(node, answer->now);
    keep_spare(node->nodes, proof);
}
