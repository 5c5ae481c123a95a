#include "src/node/attest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/node/guard.h"
#include "src/node/limits.h"
#include "src/node/node.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

/* The requests of a proof, in the order of sending: the reply to the marker ends it. */
enum part { TIME, REPLICATION, STATISTICS, MARKER, PARTS };

/* The marker, and for a look the evidence of the server's process ahead of it. They need not be of one moment: the node
 * executes all of them behind the grants, and evidence that has changed does not change back. Several proofs may be in
 * flight to one node: each turn that sends grants requests one. */
struct rl_proof {
    struct rl_request request[PARTS]; /* the time, if what is known of the node is old; a look's sections of INFO, the
                                         latter where keys may be evicted; the marker always */
    struct rl_proof *next;            /* in the list of spare ones */
    unsigned pending;                 /* requests */
    bool look;
    bool whole; /* the look shows the number of evicted keys, too */
    bool beats; /* it is the heartbeat */
    bool timed; /* it needs no time, or has received it */
    quorum_time time_received;
    uint64_t time_us;                        /* 0: none */
    char role[12], history[41], evicted[24]; /* as shown; "": not yet */
};

/* Of a client. Every proof requests the same, so the commands stay in their wire form. */
struct rl_proofs {
    struct rl_text command[PARTS];
    struct rl_proof *spare; /* kept for reuse */
};

static void answered(struct rl_request *request, const struct rl_answer *answer);
static const struct rl_request_type type = {.answered = answered};
static const struct rl_sender senders[PARTS] = {{&type}, {&type}, {&type}, {&type}}; /* tell the parts apart */

/* ---------------------------------------------------------------------------------------------------------- lifetime */

bool rl_attest_open(struct rl_nodes *nodes)
{
    /* Not GETRANGE, which takes a node longer. If somebody has written a huge value, the reader's limit ends the
     * connection, and the handshake reads no more than a marker's size. */
    const char *const words[PARTS][2] = {[TIME] = {"TIME"},
                                         [REPLICATION] = {"INFO", "replication"},
                                         [STATISTICS] = {"INFO", "stats"},
                                         [MARKER] = {"GET", nodes->core->options.marker_key}};
    assert(!nodes->proofs);
    if (!nodes->core->options.guard)
        return true;
    nodes->proofs = rl_allocate(&nodes->core->allocator, sizeof *nodes->proofs);
    for (unsigned part = 0; nodes->proofs && part < PARTS; part++) {
        struct rl_command command;
        bool formatted = rl_command_words(&command, words[part][0], words[part][1], NULL);
        char *copy = formatted ? rl_copy(&nodes->core->allocator, command.bytes, command.length) : NULL;
        nodes->proofs->command[part] = (struct rl_text){copy, command.length};
        rl_command_free(&command);
        if (!copy)
            return false;
    }
    return nodes->proofs;
}

void rl_attest_close(struct rl_nodes *nodes)
{
    struct rl_proofs *proofs = nodes->proofs;
    if (!proofs)
        return;
    while (proofs->spare) {
        struct rl_proof *proof = proofs->spare;
        proofs->spare = proof->next;
        rl_core_free(nodes->core, proof);
    }
    for (unsigned part = 0; part < PARTS; part++)
        rl_free(&nodes->core->allocator, (char *)(uintptr_t)proofs->command[part].bytes);
    rl_core_free(nodes->core, proofs);
}

static struct rl_proof *create(struct rl_nodes *nodes)
{
    struct rl_proof *proof = nodes->proofs->spare;
    if (proof) {
        nodes->proofs->spare = proof->next;
        return proof;
    }
    proof = rl_allocate(&nodes->core->allocator, sizeof *proof);
    for (unsigned part = 0; proof && part < PARTS; part++)
        proof->request[part].sender = &senders[part];
    return proof;
}

static void keep_spare(struct rl_nodes *nodes, struct rl_proof *proof)
{
    assert(proof->pending == 0);
    proof->next = nodes->proofs->spare;
    nodes->proofs->spare = proof;
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

/* false: a part may have been sent. */
static bool send_all(struct rl_node *node, struct rl_proof *proof, enum quorum_attest_occasion occasion,
                     quorum_time now)
{
    quorum_time sampled = node->nodes->clock_watch->node[node->index].last_sent;
    const struct quorum_attest_needs needs = quorum_attest_needs(&node->attest.rules, occasion, sampled, now);
    const bool needed[PARTS] = {needs.time, needs.look, needs.evicted, true};
    proof->look = needs.look;
    proof->whole = needs.evicted && needs.time;
    proof->timed = !needs.time;
    proof->time_us = 0;
    proof->role[0] = proof->history[0] = '\0';
    strcpy(proof->evicted, needs.evicted ? "" : "-");
    for (unsigned part = 0; part < PARTS; part++) {
        const struct rl_text *command = &node->nodes->proofs->command[part];
        if (needed[part] && !rl_flight_send(&node->flight, &proof->request[part], command->bytes, command->size, now))
            return false;
        proof->pending += needed[part];
    }
    return true;
}

/* false: no memory, or the connection does not accept it. */
static bool request_proof(struct rl_node *node, enum quorum_attest_occasion occasion, quorum_time now)
{
    struct rl_proof *proof = create(node->nodes);
    if (!proof)
        return false;
    proof->beats = occasion == QUORUM_FOR_BEAT;
    bool sent = send_all(node, proof, occasion, now);
    if (!sent && proof->pending == 0)
        keep_spare(node->nodes, proof);
    return sent;
}

bool rl_attest_beat(struct rl_node *node)
{
    return request_proof(node, QUORUM_FOR_BEAT, rl_now());
}

void rl_attest_send(struct rl_nodes *nodes)
{
    if (!nodes->unproven)
        return;
    quorum_time now = rl_now();
    while (nodes->unproven) {
        struct rl_node *node = &nodes->node[__builtin_ctz(nodes->unproven)];
        nodes->unproven &= nodes->unproven - 1;
        bool aging = nodes->aging & quorum_node(node->index);
        /* If the proof cannot be requested, break the connection: its grants would wait indefinitely. */
        if (rl_node_is_ready(node) && !request_proof(node, aging ? QUORUM_FOR_LOOK : QUORUM_FOR_GRANT, now) &&
            rl_link_is_open(&node->link))
            rl_node_break(node, false, "no memory for the proof of its grants");
    }
    nodes->aging = 0;
}

/* ----------------------------------------------------------------------------------------------------------- waiting */

void rl_attest_await(struct rl_node *node, struct rl_request *request)
{
    assert(rl_node_is_ready(node));
    struct rl_attest *attest = &node->attest;
    rl_requests_append(&attest->waiting, request);
    if (!attest->punctual)
        attest->punctual = request;
}

static struct rl_request *take_first(struct rl_attest *attest)
{
    struct rl_request *request = rl_requests_take(&attest->waiting);
    if (attest->punctual == request)
        attest->punctual = request->next;
    return request;
}

void rl_attest_end(struct rl_node *node, quorum_time now)
{
    while (node->attest.waiting.first)
        rl_request_answer(take_first(&node->attest), node, RL_ANSWER_BROKEN, now, NULL);
}

/* Count the waiting grants as timed out. They stay on the list, because the proof may still arrive. */
static void report_overdue(struct rl_node *node, quorum_time now)
{
    while (node->attest.punctual) {
        struct rl_request *request = node->attest.punctual;
        node->attest.punctual = request->next;
        if (request->overdue)
            continue;
        request->overdue = true;
        rl_request_answer(request, node, RL_ANSWER_OVERDUE, now, NULL);
    }
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* Replies on one connection arrive in order, so every grant on the list was executed before this proof. */
static void settle(struct rl_node *node, enum quorum_proof proof, quorum_time now)
{
    while (node->attest.waiting.first) {
        struct rl_request *request = take_first(&node->attest);
        request->sender->type->proven(request, node, proof, now);
    }
}

size_t rl_attest_evidence(char text[static QUORUM_SHOWN_MAX], const char *role, const char *history,
                          const char *evicted)
{
    return (size_t)snprintf(text, QUORUM_SHOWN_MAX, "%s %s %s\n", role, history, evicted);
}

/* Evidence, a newline, and the marker. Where no keys may be evicted, the judged evidence has no number, and the one that
 * was read must not have changed. Returns its size; 0: it is too long. */
static size_t show(const struct rl_attest *attest, const struct rl_proof *proof, const redisReply *marker,
                   char text[static QUORUM_SHOWN_MAX])
{
    _Static_assert(sizeof proof->role + sizeof proof->history + sizeof proof->evicted < QUORUM_SHOWN_MAX,
                   "the evidence fits");
    bool unchanged = !attest->rules.always_look && strcmp(proof->evicted, attest->evicted) == 0;
    size_t size = rl_attest_evidence(text, proof->role, proof->history, unchanged ? "-" : proof->evicted);
    if ((size_t)marker->len > QUORUM_SHOWN_MAX - size)
        return 0;
    memcpy(text + size, marker->str, (size_t)marker->len);
    return size + (size_t)marker->len;
}

/* A plain grant is a write. A script may have found a key that its own client had set before. */
static quorum_time last_write(const struct rl_attest *attest)
{
    return attest->waiting.first && attest->waiting.last->plain ? attest->waiting.last->sent : 0;
}

static enum quorum_proof judge(struct rl_node *node, const struct rl_proof *proof, const struct rl_answer *answer)
{
    char text[QUORUM_SHOWN_MAX];
    const redisReply *marker = answer->reply;
    if (marker->type != REDIS_REPLY_STRING || !proof->timed)
        return QUORUM_NOT_PROVEN;
    struct quorum_shown shown = {.look = proof->look,
                                 .whole = proof->whole,
                                 .sent = proof->request[proof->look ? REPLICATION : MARKER].sent,
                                 .received = answer->now,
                                 .wrote = last_write(&node->attest),
                                 .bytes = proof->look ? text : marker->str,
                                 .size = proof->look ? show(&node->attest, proof, marker, text) : (size_t)marker->len};
    return quorum_attest_prove(&node->attest.rules, &shown);
}

/* A heartbeat without a look proves no grant: the proofs of those before it are on their way. */
static void take_beat(struct rl_node *node, const struct rl_proof *proof, const struct rl_answer *answer)
{
    const redisReply *marker = answer->reply;
    bool same = marker->type == REDIS_REPLY_STRING && proof->timed &&
                quorum_attest_is_marker(&node->attest.rules, marker->str, (size_t)marker->len);
    if (same && proof->time_us)
        rl_guard_take_time(node, proof->time_us, proof->request[TIME].sent, proof->time_received);
    rl_node_beat_answered(node, same, proof->request[MARKER].sent, answer->now);
}

static void take_marker(struct rl_node *node, struct rl_proof *proof, const struct rl_answer *answer)
{
    if (proof->beats && !proof->look && !node->attest.refused && !rl_reply_is_forbidden(answer->reply)) {
        take_beat(node, proof, answer);
        return;
    }
    enum quorum_proof proven = judge(node, proof, answer);
    /* The look decides about grants whose proof has arrived already. */
    if (proven == QUORUM_LOOK_AGAIN) {
        if (send_all(node, proof, QUORUM_FOR_LOOK, rl_now()))
            return;
        proven = QUORUM_NOT_PROVEN;
    }
    if (proven == QUORUM_PROVEN && proof->time_us) /* of the same server as the samples before */
        rl_guard_take_time(node, proof->time_us, proof->request[TIME].sent, proof->time_received);
    if (rl_reply_is_forbidden(answer->reply) != node->attest.refused) {
        node->attest.refused = !node->attest.refused;
        rl_guard_find(node, REDLOCK_FINDING_NOT_PERMITTED, node->attest.refused);
    }
    if (proven != QUORUM_PROVEN && !proof->beats)
        rl_guard_doubt(node);
    settle(node, proven, answer->now);
    if (proof->beats)
        rl_node_beat_answered(node, proven == QUORUM_PROVEN || node->attest.refused, proof->request[MARKER].sent,
                              answer->now);
}

static void take_part(struct rl_proof *proof, enum part part, const struct rl_answer *answer)
{
    const redisReply *reply = answer->reply;
    if (part == TIME) {
        proof->timed = rl_guard_parse_time(reply, &proof->time_us);
        proof->time_received = answer->now;
    } else if (part == REPLICATION) {
        rl_reply_info(reply, "role", proof->role, sizeof proof->role);
        rl_reply_info(reply, "master_replid", proof->history, sizeof proof->history);
    } else if (part == STATISTICS) {
        rl_reply_info(reply, "evicted_keys", proof->evicted, sizeof proof->evicted);
    }
}

static void answered(struct rl_request *request, const struct rl_answer *answer)
{
    enum part part = (enum part)(request->sender - senders);
    struct rl_proof *proof = (struct rl_proof *)(void *)(request - part);
    struct rl_node *node = answer->node;
    bool replied = answer->kind == RL_ANSWER_REPLY;
    if (answer->kind == RL_ANSWER_OVERDUE) {
        if (part == MARKER) /* it is the last one to be overdue */
            report_overdue(node, answer->now);
        return;
    }
    proof->pending--;
    if (part == MARKER && replied)
        take_marker(node, proof, answer);
    else if (part == MARKER)
        rl_attest_end(node, answer->now);
    else if (replied && proof->pending > 0) /* 0: the marker could not be sent behind it */
        take_part(proof, part, answer);
    if (proof->pending == 0)
        keep_spare(node->nodes, proof);
}
