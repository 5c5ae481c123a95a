#include "src/node/guard.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "quorum/guard.h"
#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/node/finding.h"
#include "src/node/handshake.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

void rl_guard_command(struct rl_nodes *nodes, const struct rl_node *node, enum rl_guard_task task, bool use_eval,
                      struct rl_command *command, struct rl_guard_numbers *numbers)
{
    static const char *const tasks[] = {"look", "jumped", "trust"};
    _Static_assert(sizeof tasks / sizeof *tasks == RL_GUARD_TRUST + 1, "every task has a name");
    const redlock_options *options = &nodes->core->options;
    snprintf(numbers->max_ttl, sizeof numbers->max_ttl, "%llu",
             (unsigned long long)(nodes->guard.max_ttl / QUORUM_MILLISECOND));
    snprintf(numbers->nodes, sizeof numbers->nodes, "%u", nodes->count);
    rl_command_script(command, RL_SCRIPT_GUARD, use_eval, 1);
    rl_command_add_text(command, options->marker_key);
    rl_command_add_text(command, numbers->max_ttl);
    rl_command_add_text(command, options->deployment);
    rl_command_add_text(command, numbers->nodes);
    rl_command_add_text(command, tasks[task]);
    snprintf(numbers->nonce, sizeof numbers->nonce, "%016llx", (unsigned long long)rl_random_u64(&nodes->core->random));
    snprintf(numbers->seen, sizeof numbers->seen, "%llu", (unsigned long long)(node ? node->marker.seen_us : 0));
    rl_command_add_text(command, numbers->nonce);
    rl_command_add_text(command, node ? node->marker.nonce : "");
    rl_command_add_text(command, numbers->seen);
}

/* ------------------------------------------------------------------------------------------------------------ fitness */

void rl_guard_judge(struct rl_node *node)
{
    node->unfit = NULL;
    for (size_t i = 0; i < rl_finding_count && !node->unfit; i++)
        if (node->findings & REDLOCK_FINDINGS_UNFIT & rl_findings[i].bit)
            node->unfit = rl_findings[i].bit == REDLOCK_FINDING_TOO_OLD ? node->server.too_old : rl_findings[i].text;
}

bool rl_guard_may_take_over(const struct rl_node *node)
{
    uint32_t against = node->findings & REDLOCK_FINDINGS_UNFIT;
    return node->state == RL_NODE_READY && against == REDLOCK_FINDING_OTHER_DEPLOYMENT;
}

void rl_guard_find(struct rl_node *node, uint32_t finding, bool found)
{
    bool before = node->findings & finding;
    assert(finding && (finding & (finding - 1)) == 0); /* one bit */
    node->findings = found ? node->findings | finding : node->findings & ~finding;
    if (found && !before)
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING, "%s: %s; %s", node->address.name, redlock_finding_text(finding),
               redlock_finding_remedy(finding));
}

/* Another name that led to the same server, and had the vote, may be disconnected by now, or lead elsewhere. */
static void find_duplicate(struct rl_node *node)
{
    if (node->state == RL_NODE_READY)
        rl_guard_find(node, REDLOCK_FINDING_SAME_SERVER, rl_handshake_is_duplicate(node));
}

/* ------------------------------------------------------------------------------------------------------------- clocks */

static quorum_nodes nodes_that_answer(const struct rl_nodes *nodes)
{
    quorum_nodes answering = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (rl_node_is_ready(&nodes->node[i]))
            answering |= quorum_node(i);
    return answering;
}

/* A heartbeat, sent at once, writes the jump to the marker. The node's keys may have expired, or may expire early. */
static void handle_jump(struct rl_node *node)
{
    struct rl_nodes *nodes = node->nodes;
    node->jumped = true;
    nodes->core->statistics.node_clock_jumps++;
    rl_log(nodes->core, REDLOCK_LOG_WARNING, "%s: its clock jumped", node->address.name);
    rl_node_beat(node);
    nodes->events->node_forgot(nodes->client, node->index);
}

/* A sample of one node's clock can settle the verdict on others. */
static void note_clock(struct rl_node *node, quorum_time sent, quorum_time received, quorum_time time)
{
    struct rl_nodes *nodes = node->nodes;
    const struct quorum_clock_sample sample = {node->index, sent, received, time, nodes_that_answer(nodes)};
    struct quorum_clock_actions actions = quorum_clock_step(&nodes->clock_watch, &sample);
    if (actions.own) {
        rl_log(nodes->core, REDLOCK_LOG_ERROR, "this machine's clock stopped or jumped: all locks are lost");
        nodes->clock_stopped = rl_now();
        nodes->events->clock_stopped(nodes->client);
    }
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *other = &nodes->node[i];
        bool jumped = actions.jumped & quorum_node(i);
        other->suspect = (actions.suspect & quorum_node(i)) || jumped || (other->suspect && other->jumped);
        if (jumped)
            handle_jump(other);
        else if (actions.ask & quorum_node(i))
            rl_node_beat(other);
    }
}

void rl_guard_take_time(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received)
{
    find_duplicate(node);
    rl_guard_judge(node);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return;
    unsigned long long seconds = 0, microseconds = 0;
    for (size_t i = 0; i < 2; i++)
        if (reply->element[i]->type != REDIS_REPLY_STRING || reply->element[i]->len > 15)
            return;
    if (sscanf(reply->element[0]->str, "%15llu", &seconds) != 1 ||
        sscanf(reply->element[1]->str, "%15llu", &microseconds) != 1 || seconds > UINT64_MAX / QUORUM_SECOND - 1)
        return;
    note_clock(node, sent, received, seconds * QUORUM_SECOND + microseconds * QUORUM_MICROSECOND);
}

/* ------------------------------------------------------------------------------------------------------------- marker */

static bool is_complete(const redisReply *reply)
{
    static const int types[] = {
        [RL_GUARD_RUN_ID] = REDIS_REPLY_STRING,   [RL_GUARD_ROLE] = REDIS_REPLY_STRING,
        [RL_GUARD_TIME] = REDIS_REPLY_INTEGER,    [RL_GUARD_SINCE] = REDIS_REPLY_INTEGER,
        [RL_GUARD_MAX_TTL] = REDIS_REPLY_INTEGER, [RL_GUARD_NODES] = REDIS_REPLY_INTEGER,
        [RL_GUARD_WHY] = REDIS_REPLY_STRING,      [RL_GUARD_DEPLOYMENT] = REDIS_REPLY_STRING,
        [RL_GUARD_POLICY] = REDIS_REPLY_STRING,   [RL_GUARD_NONCE] = REDIS_REPLY_STRING,
        [RL_GUARD_SHOWN] = REDIS_REPLY_STRING,
    };
    _Static_assert(sizeof types / sizeof *types == RL_GUARD_ELEMENTS, "every element has a type");
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != RL_GUARD_ELEMENTS)
        return false;
    for (unsigned i = 0; i < RL_GUARD_ELEMENTS; i++)
        if (reply->element[i]->type != types[i] || (types[i] == REDIS_REPLY_INTEGER && reply->element[i]->integer < 0))
            return false;
    return reply->element[RL_GUARD_TIME]->integer < INT64_MAX / 1000 &&
           reply->element[RL_GUARD_SINCE]->integer < INT64_MAX / 1000000 &&
           reply->element[RL_GUARD_MAX_TTL]->integer < INT64_MAX / 1000000;
}

/* By the marker's `why`; the last text is for all others. */
static const char *reason(const redisReply *why)
{
    static const struct {
        const char *why;
        const char *text;
    } reasons[] = {
        {"restarted", "the server restarted, or another took over"}, {"jumped", "its clock jumped"},
        {"copied", "it was a replica, or was failed over"},          {"evicted", "it evicted keys"},
        {"replaced", "its data was replaced by older data"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (rl_reply_is_text(why, reasons[i].why))
            return reasons[i].text;
    return "it is new, or was flushed";
}

/* A marker with a later start: the node may have lost locks. A trusted marker (0) starts no quarantine. */
static void note_since(struct rl_node *node, uint64_t since)
{
    bool forgot = node->marker.known && since && since != node->marker.since;
    node->marker.known = true;
    node->marker.since = since;
    if (forgot && node->state == RL_NODE_READY)
        node->nodes->events->node_forgot(node->nodes->client, node->index);
    else if (forgot)
        node->forgot = true; /* its locks are renewed after the handshake */
}

/* Logs and counts the beginning and the end. */
static void note_quarantine(struct rl_node *node, quorum_time now)
{
    quorum_duration left = quorum_time_until(rl_guard_free_at(node), now);
    if (node->quarantine.on == (left > 0))
        return;
    node->quarantine.on = left > 0;
    node->nodes->core->statistics.quarantines += left > 0;
    node->statistics.quarantines += left > 0;
    rl_log(node->nodes->core, left ? REDLOCK_LOG_WARNING : REDLOCK_LOG_INFO,
           left ? "%s: in quarantine for %.1f s: %s" : "%s: out of quarantine", node->address.name, (double)left / 1e9,
           node->quarantine.why);
}

/* Where the largest max_ttl is missing, a heartbeat, sent at once, writes it: the node that knows it may be the next one
 * to forget. */
static void take_max_ttl(struct rl_node *node, const redisReply *reply, quorum_time now)
{
    struct rl_nodes *nodes = node->nodes;
    quorum_duration max_ttl = (quorum_duration)reply->element[RL_GUARD_MAX_TTL]->integer * QUORUM_MILLISECOND;
    if (node->findings & (REDLOCK_FINDING_OTHER_DEPLOYMENT | REDLOCK_FINDING_MARKER_TAKEN))
        return;
    if (max_ttl < nodes->guard.max_ttl)
        rl_node_beat(node); /* another node's reply came after this request */
    if (!quorum_guard_learn(&nodes->guard, max_ttl))
        return;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *other = &nodes->node[i];
        if (other != node && rl_node_is_ready(other)) {
            note_quarantine(other, now);
            rl_node_beat(other);
        }
    }
}

static void set_quarantine(struct rl_node *node, const redisReply *reply, quorum_time received)
{
    uint64_t since = (uint64_t)reply->element[RL_GUARD_SINCE]->integer;
    take_max_ttl(node, reply, received);
    quorum_guard_read(&node->nodes->guard, node->index, since * QUORUM_MILLISECOND,
                      (quorum_time)reply->element[RL_GUARD_TIME]->integer * QUORUM_MICROSECOND, received);
    /* Where the marker cannot be written, its start differs at each heartbeat. */
    if (!(node->findings & (REDLOCK_FINDING_FULL | REDLOCK_FINDING_MARKER_TAKEN | REDLOCK_FINDING_REPLICA)))
        note_since(node, since);
    node->quarantine.why = reason(reply->element[RL_GUARD_WHY]);
    note_quarantine(node, received);
}

static void take_run_id(struct rl_node *node, const redisReply *field)
{
    char run_id[RL_RUN_ID_SIZE] = "";
    for (size_t i = 0; i < (size_t)field->len && i + 1 < sizeof run_id; i++)
        run_id[i] = field->str[i] > ' ' && field->str[i] < 127 ? field->str[i] : '?';
    bool changed = node->state == RL_NODE_READY && strcmp(run_id, node->server.run_id) != 0;
    memcpy(node->server.run_id, run_id, sizeof run_id);
    if (node->server.last_run_id[0] && strcmp(run_id, node->server.last_run_id) != 0) {
        /* It may be another machine with another clock, and earlier markers cannot be compared with it. */
        quorum_clock_forget(&node->nodes->clock_watch, node->index);
        node->marker.nonce[0] = '\0';
        node->marker.seen_us = 0;
    }
    if (!changed)
        return;
    /* Another server replies on the same connection: a proxy has switched. */
    memcpy(node->server.last_run_id, run_id, sizeof run_id);
    node->server.client_id = 0; /* the connection has another ID there */
    node->nodes->events->node_forgot(node->nodes->client, node->index);
}

static void copy_word(char *to, size_t size, const redisReply *field)
{
    size_t used = 0;
    for (size_t i = 0; i < (size_t)field->len && used + 1 < size; i++)
        to[used++] = field->str[i] > ' ' && field->str[i] < 127 ? field->str[i] : '?';
    to[used] = '\0';
}

static void take_marker(struct rl_facts *facts, const redisReply *reply)
{
    long long max_ttl = reply->element[RL_GUARD_MAX_TTL]->integer, nodes = reply->element[RL_GUARD_NODES]->integer;
    facts->marker_max_ttl_ms = max_ttl > UINT32_MAX ? UINT32_MAX : (uint32_t)max_ttl;
    facts->marker_nodes = nodes > UINT32_MAX ? UINT32_MAX : (uint32_t)nodes;
    copy_word(facts->marker_why, sizeof facts->marker_why, reply->element[RL_GUARD_WHY]);
    copy_word(facts->marker_deployment, sizeof facts->marker_deployment, reply->element[RL_GUARD_DEPLOYMENT]);
}

static void take_shown(struct rl_node *node, const redisReply *reply, quorum_time sent)
{
    const redisReply *shown = reply->element[RL_GUARD_SHOWN];
    const char *end = memchr(shown->str, '\n', (size_t)shown->len);
    size_t evidence = end ? (size_t)(end - shown->str) + 1 : 0;
    copy_word(node->facts.maxmemory_policy, sizeof node->facts.maxmemory_policy, reply->element[RL_GUARD_POLICY]);
    rl_guard_find(node, REDLOCK_FINDING_EVICTING, rl_guard_evicts(node));
    node->attest.rules.always_look = rl_guard_evicts(node);
    quorum_attest_judged(&node->attest.rules, shown->str, (size_t)shown->len, evidence, sent);
    if (evidence == 0)
        return; /* the marker is not of this deployment */
    copy_word(node->marker.nonce, sizeof node->marker.nonce, reply->element[RL_GUARD_NONCE]);
    node->marker.seen_us = (uint64_t)reply->element[RL_GUARD_TIME]->integer;
}

bool rl_guard_evicts(const struct rl_node *node)
{
    return node->facts.maxmemory_policy[0] && strcmp(node->facts.maxmemory_policy, "noeviction") != 0;
}

void rl_guard_doubt(struct rl_node *node)
{
    if (node->attest.rules.size)
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING, "%s: its marker changed: its last grants do not count",
               node->address.name);
    quorum_attest_forget(&node->attest.rules);
    rl_node_beat(node);
}

static bool refused(struct rl_node *node, const redisReply *reply)
{
    char text[RL_NODE_TEXT_SIZE];
    quorum_attest_forget(&node->attest.rules);
    rl_reply_text(reply, text, sizeof text);
    enum rl_reply_error error = rl_reply_error(reply);
    if (error == RL_ERROR_NOT_PERMITTED || error == RL_ERROR_UNKNOWN_COMMAND) {
        rl_guard_find(node, REDLOCK_FINDING_NOT_PERMITTED, true);
        rl_guard_judge(node);
        return true; /* a valid reply: the node is unfit */
    }
    rl_node_break(node, rl_reply_error_is_permanent(error), "the guard: %.80s", text[0] ? text : "unexpected reply");
    return false;
}

bool rl_guard_take_reply(struct rl_node *node, const redisReply *reply, quorum_time sent, quorum_time received)
{
    const redlock_options *options = &node->nodes->core->options;
    /* The scripts of an old server fail, and a cluster may keep the marker's slot elsewhere: the node stays unfit. */
    if (!is_complete(reply))
        return node->findings & (REDLOCK_FINDING_TOO_OLD | REDLOCK_FINDING_CLUSTER) || refused(node, reply);
    take_run_id(node, reply->element[RL_GUARD_RUN_ID]);
    find_duplicate(node);
    rl_guard_find(node, REDLOCK_FINDING_NOT_PERMITTED, false);
    rl_guard_find(node, REDLOCK_FINDING_REPLICA, !rl_reply_is_text(reply->element[RL_GUARD_ROLE], "master"));
    rl_guard_find(node, REDLOCK_FINDING_MARKER_TAKEN, rl_reply_is_text(reply->element[RL_GUARD_WHY], "taken"));
    rl_guard_find(node, REDLOCK_FINDING_FULL, rl_reply_is_text(reply->element[RL_GUARD_WHY], "full"));
    rl_guard_find(node, REDLOCK_FINDING_OTHER_DEPLOYMENT,
                  !rl_reply_is_text(reply->element[RL_GUARD_DEPLOYMENT], options->deployment) ||
                      reply->element[RL_GUARD_NODES]->integer != node->nodes->count);
    rl_guard_find(node, REDLOCK_FINDING_OTHER_MAX_TTL,
                  reply->element[RL_GUARD_MAX_TTL]->integer != options->max_ttl_ms);
    rl_guard_judge(node);
    set_quarantine(node, reply, received);
    take_marker(&node->facts, reply);
    take_shown(node, reply, sent);
    note_clock(node, sent, received, (quorum_time)reply->element[RL_GUARD_TIME]->integer * QUORUM_MICROSECOND);
    return true;
}

quorum_time rl_guard_free_at(const struct rl_node *node)
{
    return node->nodes->guard.node[node->index].end;
}

quorum_duration rl_guard_withholds(const struct rl_node *node, quorum_time now)
{
    if (!node->nodes->core->options.guard)
        return 0;
    return node->suspect ? QUORUM_NEVER : quorum_time_until(rl_guard_free_at(node), now);
}

const char *rl_guard_objection(struct rl_node *node, quorum_time now)
{
    if (!node->nodes->core->options.guard)
        return NULL;
    if (node->suspect)
        return "its clock or this machine's clock jumped";
    if (node->findings & REDLOCK_FINDING_FULL)
        return "full: its marker cannot be written; raise maxmemory, or free memory";
    if (!node->attest.rules.size)
        return "its marker changed; the client reads it again";
    if (rl_guard_free_at(node) <= now)
        return NULL;
    snprintf(node->quarantine.text, sizeof node->quarantine.text, "in quarantine for %.1f s: %s",
             (double)(rl_guard_free_at(node) - now) / 1e9, node->quarantine.why);
    return node->quarantine.text;
}
