#include "src/node/guard.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "quorum/guard.h"
#include "src/core/result.h"
#include "src/node/attest.h"
#include "src/node/handshake.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"
#include "src/node/witnesses.h"

/* ------------------------------------------------------------------------------------------------------------ fitness */

const char *rl_guard_explain_unfit(const struct rl_node *node)
{
    uint32_t finding = rl_finding_first(node->findings & REDLOCK_FINDINGS_UNFIT);
    if (finding & (REDLOCK_FINDING_TOO_OLD | REDLOCK_FINDING_HIDDEN))
        return node->server.unfit;
    return redlock_finding_text(finding);
}

bool rl_guard_unfit_is_permanent(const struct rl_node *node)
{
    uint32_t passing = node->witnesses ? REDLOCK_FINDING_REPLICA : 0;
    return node->findings & REDLOCK_FINDINGS_UNFIT & ~passing;
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
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING, "%s: %s; %s", node->name, redlock_finding_text(finding),
               redlock_finding_remedy(finding));
}

/* Another name that led to the same server, and had the vote, may be disconnected by now, or lead elsewhere. */
static void find_duplicate(struct rl_node *node)
{
    if (node->state == RL_NODE_READY)
        rl_guard_find(node, REDLOCK_FINDING_SAME_SERVER, rl_handshake_is_duplicate(node));
}

/* ------------------------------------------------------------------------------------------------------------- clocks */

/* A heartbeat, sent at once, writes the jump to the marker. The node's keys may have expired, or may expire early. */
static void handle_jump(struct rl_node *node)
{
    struct rl_nodes *nodes = node->nodes;
    node->jumped = true;
    nodes->core->statistics.node_clock_jumps++;
    rl_log(nodes->core, REDLOCK_LOG_WARNING, "%s: its clock jumped", node->name);
    rl_node_beat(node);
    nodes->events->node_lacks(nodes->locks, node->index, true);
}

/* A sample of one node's clock can settle the verdict on others. */
static void note_clock(struct rl_node *node, quorum_time sent, quorum_time received, quorum_time time)
{
    struct rl_nodes *nodes = node->nodes;
    const struct quorum_clock_sample sample = {node->index, sent, received, time, rl_nodes_ready(nodes)};
    struct quorum_clock_actions actions = quorum_clock_step(nodes->clock_watch, &sample);
    if (actions.own) {
        rl_log(nodes->core, REDLOCK_LOG_ERROR, "this machine's clock stopped or jumped: all locks are lost");
        nodes->clock_stopped = rl_now();
        nodes->events->clock_stopped(nodes->locks);
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

bool rl_guard_parse_time(const redisReply *reply, uint64_t *time_us)
{
    unsigned long long seconds = 0, microseconds = 0;
    if (!rl_reply_has(reply, 2))
        return false;
    for (size_t i = 0; i < 2; i++)
        if (reply->element[i]->type != REDIS_REPLY_STRING || reply->element[i]->len > 15)
            return false;
    if (sscanf(reply->element[0]->str, "%15llu", &seconds) != 1 ||
        sscanf(reply->element[1]->str, "%15llu", &microseconds) != 1 || seconds > INT64_MAX / QUORUM_SECOND - 1 ||
        microseconds >= 1000000)
        return false;
    *time_us = seconds * 1000000 + microseconds;
    return true;
}

void rl_guard_take_time(struct rl_node *node, uint64_t time_us, quorum_time sent, quorum_time received)
{
    find_duplicate(node);
    note_clock(node, sent, received, time_us * QUORUM_MICROSECOND);
}

/* ------------------------------------------------------------------------------------------------------------- marker */

/* By the marker's `why`; the last text is for all others. */
static const char *reason(const char *why)
{
    static const struct {
        const char *why;
        const char *text;
    } reasons[] = {
        {"restarted", "the server restarted, or another took over"},
        {"jumped", "its clock jumped"},
        {"copied", "it was a replica, or was failed over"},
        {"promoted", "it became the master"},
        {"evicted", "it evicted keys"},
        {"replaced", "its data was replaced by older data"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(why, reasons[i].why) == 0)
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
        node->nodes->events->node_lacks(node->nodes->locks, node->index, true);
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
           left ? "%s: in quarantine for %.1f s: %s" : "%s: out of quarantine", node->name, (double)left / 1e9,
           node->quarantine.why);
}

/* Where the largest max_ttl is missing, a heartbeat, sent at once, writes it: the node that knows it may be the next one
 * to forget. */
static void take_max_ttl(struct rl_node *node, const struct quorum_marker *marker, quorum_time now)
{
    struct rl_nodes *nodes = node->nodes;
    quorum_duration max_ttl = marker->max_ttl * QUORUM_MILLISECOND;
    if (node->findings & (REDLOCK_FINDING_OTHER_DEPLOYMENT | REDLOCK_FINDING_MARKER_TAKEN))
        return;
    if (max_ttl < nodes->guard->max_ttl)
        rl_node_beat(node); /* another node's reply came after this request */
    if (!quorum_guard_learn(nodes->guard, max_ttl, now))
        return;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *other = &nodes->node[i];
        if (other != node && rl_node_is_ready(other)) {
            note_quarantine(other, now);
            rl_node_beat(other);
        }
    }
}

/* The marker as it was read or written, with the evidence read ahead of it, is what proofs must show. */
static void judge_marker(struct rl_node *node, const struct quorum_marker *marker)
{
    struct rl_reading *reading = &node->reading;
    char shown[QUORUM_SHOWN_MAX];
    rl_guard_find(node, REDLOCK_FINDING_OTHER_DEPLOYMENT,
                  strcmp(marker->deployment, node->nodes->core->options.deployment) != 0 ||
                      marker->nodes != node->nodes->count);
    rl_guard_find(node, REDLOCK_FINDING_OTHER_MAX_TTL, marker->max_ttl != node->nodes->core->options.max_ttl_ms);
    take_max_ttl(node, marker, reading->received);
    quorum_guard_read(node->nodes->guard, node->index, marker->since * QUORUM_MILLISECOND,
                      reading->time * QUORUM_MICROSECOND, reading->received);
    /* Where the marker cannot be written, its start differs at each reading. */
    bool is_in_place =
        !(node->findings & (REDLOCK_FINDING_FULL | REDLOCK_FINDING_MARKER_TAKEN | REDLOCK_FINDING_REPLICA));
    if (is_in_place)
        note_since(node, marker->since);
    node->quarantine.why = reason(marker->why);
    note_quarantine(node, reading->received);
    node->facts.marker = *marker;
    if (!is_in_place || node->findings & REDLOCK_FINDING_OTHER_DEPLOYMENT)
        return;
    size_t evidence =
        rl_attest_evidence(shown, reading->role, reading->replid, rl_guard_evicts(node) ? reading->evicted : "-");
    memcpy(shown + evidence, reading->text, reading->size);
    node->attest.rules.always_look = rl_guard_evicts(node);
    memcpy(node->attest.evicted, reading->evicted, sizeof node->attest.evicted);
    quorum_attest_judged(&node->attest.rules, shown, evidence + reading->size, evidence, reading->sent);
    memcpy(node->marker.nonce, marker->nonce, sizeof node->marker.nonce);
    node->marker.seen_us = reading->time;
}

/* ------------------------------------------------------------------------------------------------------------ reading */

/* Facts and evidence stay until the replies replace them: redlock_trust() needs them meanwhile. */
void rl_guard_begin(struct rl_node *node)
{
    struct rl_reading *reading = &node->reading;
    reading->jumped = node->jumped;
    reading->not_permitted = reading->unreadable = false;
    reading->hidden = NULL;
}

/* The samples of the clock are those of the server that was read last. It need not have been ready: the handshake takes
 * a sample, and may then fail. A server that hides its run_id may be another one each time. */
static void take_run_id(struct rl_node *node, const char *run_id)
{
    struct rl_server *server = &node->server;
    bool changed = strcmp(run_id, server->run_id) != 0;
    if (changed || !run_id[0]) {
        /* It may be another machine with another clock, and earlier markers cannot be compared with it. */
        quorum_clock_forget(node->nodes->clock_watch, node->index);
        node->marker.nonce[0] = '\0';
        node->marker.seen_us = 0;
    }
    snprintf(server->run_id, sizeof server->run_id, "%s", run_id);
    if (!changed || node->state != RL_NODE_READY)
        return;
    /* Another server replies on the same connection: a proxy has switched. */
    memcpy(server->last_run_id, server->run_id, sizeof server->last_run_id);
    server->client_id = 0; /* the connection has another ID there */
    node->nodes->events->node_lacks(node->nodes->locks, node->index, true);
}

/* A field of INFO. Without the guard a missing one does not matter. */
static void take_field(struct rl_node *node, const redisReply *reply, const char *field, char *value, size_t size)
{
    rl_reply_info(reply, field, value, size);
    if (!value[0] && !node->reading.hidden)
        node->reading.hidden = field;
}

static void take_replication(struct rl_node *node, const redisReply *reply)
{
    struct rl_reading *reading = &node->reading;
    char *history = reading->facts.history;
    take_field(node, reply, "role", reading->role, sizeof reading->role);
    take_field(node, reply, "master_replid", reading->replid, sizeof reading->replid);
    take_field(node, reply, "master_replid2", history, sizeof reading->facts.history);
    if (strspn(history, "0") == strlen(history))
        memcpy(history, "0", sizeof "0");
    rl_guard_find(node, REDLOCK_FINDING_REPLICA, strcmp(reading->role, "slave") == 0);
}

static void take_memory(struct rl_node *node, const redisReply *reply)
{
    char *policy = node->facts.maxmemory_policy;
    take_field(node, reply, "maxmemory_policy", policy, sizeof node->facts.maxmemory_policy);
    rl_guard_find(node, REDLOCK_FINDING_EVICTING, rl_guard_evicts(node));
    node->reading.facts.evicts = rl_guard_evicts(node);
}

/* A server that has executed no SWAPDB does not list it. */
static void take_swaps(struct rl_node *node, const redisReply *reply)
{
    char calls[64];
    unsigned long long swaps = 0;
    rl_reply_info(reply, "cmdstat_swapdb", calls, sizeof calls);
    node->reading.facts.swaps = sscanf(calls, "calls=%18llu", &swaps) == 1 ? swaps : 0;
}

static void take_text(struct rl_node *node, const redisReply *reply)
{
    struct rl_reading *reading = &node->reading;
    if (reply->type != REDIS_REPLY_STRING || reply->len > (long long)sizeof reading->text) {
        reading->unreadable = true;
        return;
    }
    reading->size = (uint16_t)reply->len;
    memcpy(reading->text, reply->str, (size_t)reply->len);
}

/* An error about the server's present state: the connection is of no use. Another one to INFO or TIME hides a fact. */
static bool ends_reading(struct rl_node *node, enum rl_handshake_step step, const redisReply *reply)
{
    char text[RL_NODE_TEXT_SIZE];
    enum rl_reply_error error = rl_reply_error(reply);
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    if (rl_reply_is_forbidden(reply)) {
        node->reading.not_permitted = true;
        return false;
    }
    if (node->findings & (REDLOCK_FINDING_TOO_OLD | REDLOCK_FINDING_CLUSTER))
        return false; /* a cluster may keep the marker's slot elsewhere */
    if (step == RL_STEP_MARKER ? error == RL_ERROR_WRONGTYPE : !rl_reply_is_unavailable(reply))
        return false;
    rl_reply_text(reply, text, sizeof text);
    rl_node_break(node, rl_reply_error_is_permanent(error), "the guard: %.80s", text);
    return true;
}

bool rl_guard_take_fact(struct rl_node *node, enum rl_handshake_step step, const redisReply *reply, quorum_time sent,
                        quorum_time received)
{
    struct rl_reading *reading = &node->reading;
    unsigned long long evicted = 0;
    if (node->nodes->core->options.guard && ends_reading(node, step, reply))
        return false;
    if (step == RL_STEP_SERVER) {
        take_field(node, reply, "run_id", reading->facts.run_id, sizeof reading->facts.run_id);
        take_run_id(node, reading->facts.run_id); /* before its clock is compared */
    } else if (step == RL_STEP_REPLICATION) {
        reading->sent = sent;
        take_replication(node, reply);
    } else if (step == RL_STEP_MEMORY) {
        take_memory(node, reply);
    } else if (step == RL_STEP_STATISTICS) {
        take_field(node, reply, "evicted_keys", reading->evicted, sizeof reading->evicted);
        if (sscanf(reading->evicted, "%18llu", &evicted) == 1)
            reading->facts.evicted = evicted;
    } else if (step == RL_STEP_COMMANDS) {
        take_swaps(node, reply);
    } else if (step == RL_STEP_MARKER) {
        take_text(node, reply);
    } else if (step == RL_STEP_TIME) {
        reading->received = received;
        if (rl_guard_parse_time(reply, &reading->time))
            rl_guard_take_time(node, reading->time, sent, received);
        else if (!reading->hidden)
            reading->hidden = "TIME";
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ writing */

static void format(const struct rl_node *node, struct rl_text judged, struct quorum_marker *marker, bool use_eval,
                   struct rl_command *command)
{
    struct rl_nodes *nodes = node->nodes;
    const struct quorum_marker_facts *facts = &marker->facts;
    const redlock_options *options = &nodes->core->options;
    char text[160];
    snprintf(text, sizeof text, "%s %s %s%llu %llu", facts->run_id, facts->history, facts->evicts ? "e" : "",
             (unsigned long long)facts->evicted,
             (unsigned long long)(facts->term * QUORUM_MARKER_TERM + facts->swaps % QUORUM_MARKER_TERM));
    snprintf(marker->nonce, sizeof marker->nonce, "%016llx", (unsigned long long)rl_random_u64(&nodes->core->random));
    rl_command_script(command, RL_SCRIPT_GUARD, use_eval, 1);
    rl_command_add_text(command, options->marker_key);
    rl_command_add(command, judged.bytes, judged.size);
    rl_command_add_text(command, text);
    if (marker->since == QUORUM_MARKER_NOW)
        rl_command_add_text(command, "");
    else
        rl_command_add_number(command, marker->since);
    rl_command_add_number(command, marker->max_ttl);
    rl_command_add_number(command, marker->nodes);
    rl_command_add_text(command, marker->why);
    rl_command_add_text(command, marker->nonce);
    rl_command_add_text(command, options->deployment);
}

void rl_guard_trust(const struct rl_node *node, bool use_eval, struct rl_command *command)
{
    struct quorum_marker marker = {.facts = node->reading.facts,
                                   .since = QUORUM_TRUSTED,
                                   .max_ttl = node->nodes->guard->max_ttl / QUORUM_MILLISECOND,
                                   .nodes = node->nodes->count,
                                   .why = "trusted"};
    format(node, (struct rl_text){"*", 1}, &marker, use_eval, command);
}

void rl_guard_write(struct rl_node *node, struct rl_command *command)
{
    struct rl_reading *reading = &node->reading;
    format(node, (struct rl_text){reading->text, reading->size}, &reading->written, true, command);
}

static void judge_fitness(struct rl_node *node)
{
    const struct rl_reading *reading = &node->reading;
    rl_guard_find(node, REDLOCK_FINDING_NOT_PERMITTED, reading->not_permitted || node->attest.refused);
    if (reading->hidden && !reading->not_permitted)
        snprintf(node->server.unfit, sizeof node->server.unfit, "%s %s: %s",
                 redlock_finding_text(REDLOCK_FINDING_HIDDEN), reading->hidden,
                 redlock_finding_remedy(REDLOCK_FINDING_HIDDEN));
    rl_guard_find(node, REDLOCK_FINDING_HIDDEN, reading->hidden && !reading->not_permitted);
}

enum rl_guard_outcome rl_guard_judge_facts(struct rl_node *node)
{
    struct rl_nodes *nodes = node->nodes;
    struct rl_reading *reading = &node->reading;
    struct quorum_marker *marker = &reading->written;
    reading->facts.term = node->term;
    find_duplicate(node);
    if (!nodes->core->options.guard)
        return RL_GUARD_DONE;
    quorum_attest_forget(&node->attest.rules);
    judge_fitness(node);
    if (node->findings & (REDLOCK_FINDING_NOT_PERMITTED | REDLOCK_FINDING_HIDDEN))
        return RL_GUARD_DONE;
    const struct quorum_marker_view view = {.facts = &reading->facts,
                                            .time = reading->time,
                                            .seen_nonce = node->marker.nonce,
                                            .seen = node->marker.seen_us,
                                            .jumped = reading->jumped,
                                            .max_ttl = nodes->guard->max_ttl / QUORUM_MILLISECOND,
                                            .nodes = nodes->count,
                                            .deployment = nodes->core->options.deployment};
    enum quorum_marker_verdict verdict = quorum_marker_judge(&view, reading->text, reading->size, marker);
    if (reading->unreadable)
        verdict = QUORUM_MARKER_TAKEN;
    rl_guard_find(node, REDLOCK_FINDING_MARKER_TAKEN, verdict == QUORUM_MARKER_TAKEN);
    if (verdict == QUORUM_MARKER_TAKEN)
        *marker = (struct quorum_marker){
            .since = reading->time / 1000, .max_ttl = view.max_ttl, .nodes = view.nodes, .why = "taken"};
    if (verdict == QUORUM_MARKER_TAKEN)
        snprintf(marker->deployment, sizeof marker->deployment, "%s", view.deployment);
    bool may_write = !(node->findings & (REDLOCK_FINDING_REPLICA | REDLOCK_FINDING_CLUSTER | REDLOCK_FINDING_TOO_OLD));
    if (verdict == QUORUM_MARKER_WRITE && may_write)
        return RL_GUARD_WRITES;
    rl_guard_find(node, REDLOCK_FINDING_FULL, false);
    marker->since = marker->since == QUORUM_MARKER_NOW ? reading->time / 1000 : marker->since;
    judge_marker(node, marker);
    return RL_GUARD_DONE;
}

static bool is_written(const redisReply *reply)
{
    return rl_reply_has(reply, RL_GUARD_ELEMENTS) && reply->element[RL_GUARD_TIME]->type == REDIS_REPLY_INTEGER &&
           reply->element[RL_GUARD_TIME]->integer >= 0 && reply->element[RL_GUARD_TIME]->integer < INT64_MAX / 1000 &&
           reply->element[RL_GUARD_MARKER]->type == REDIS_REPLY_STRING;
}

static void take_written(struct rl_node *node, const redisReply *reply, quorum_time received,
                         const struct quorum_marker *marker)
{
    node->reading.time = (uint64_t)reply->element[RL_GUARD_TIME]->integer;
    node->reading.received = received;
    take_text(node, reply->element[RL_GUARD_MARKER]);
    judge_marker(node, marker);
}

enum rl_guard_outcome rl_guard_take_written(struct rl_node *node, const redisReply *reply, quorum_time received)
{
    struct rl_reading *reading = &node->reading;
    struct quorum_marker marker;
    bool full = rl_reply_is_error(reply, "OOM");
    rl_guard_find(node, REDLOCK_FINDING_FULL, full);
    if (full) {
        reading->written.since = reading->time / 1000;
        judge_marker(node, &reading->written);
        return RL_GUARD_DONE;
    }
    if (rl_reply_is_forbidden(reply)) {
        rl_guard_find(node, REDLOCK_FINDING_NOT_PERMITTED, true);
        return RL_GUARD_DONE;
    }
    if (rl_reply_is_error(reply, "READONLY"))
        return RL_GUARD_CHANGED; /* it has become a replica */
    if (!is_written(reply)) {
        char text[RL_NODE_TEXT_SIZE];
        rl_reply_text(reply, text, sizeof text);
        rl_node_break(node, rl_reply_error_is_permanent(rl_reply_error(reply)), "the guard: %.80s",
                      text[0] ? text : "unexpected reply");
        return RL_GUARD_BROKEN;
    }
    const redisReply *text = reply->element[RL_GUARD_MARKER];
    if (!quorum_marker_parse(&marker, text->str, (size_t)text->len) ||
        strcmp(marker.nonce, reading->written.nonce) != 0)
        return RL_GUARD_CHANGED;
    if (reading->jumped)
        node->jumped = node->suspect = false;
    take_written(node, reply, received, &marker);
    return RL_GUARD_DONE;
}

void rl_guard_take_trusted(struct rl_node *node, const redisReply *reply, quorum_time received)
{
    struct quorum_marker marker;
    if (node->handshake.steps_left > 0 || !is_written(reply) ||
        !quorum_marker_parse(&marker, reply->element[RL_GUARD_MARKER]->str,
                             (size_t)reply->element[RL_GUARD_MARKER]->len)) {
        rl_node_beat(node);
        return;
    }
    take_written(node, reply, received, &marker);
}

/* ----------------------------------------------------------------------------------------------------------- verdicts */

bool rl_guard_evicts(const struct rl_node *node)
{
    return node->facts.maxmemory_policy[0] && strcmp(node->facts.maxmemory_policy, "noeviction") != 0;
}

void rl_guard_doubt(struct rl_node *node)
{
    if (node->attest.rules.size && node->attest.waiting.first)
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING, "%s: its marker changed: its last grants do not count",
               node->name);
    quorum_attest_forget(&node->attest.rules);
    rl_node_beat(node);
}

quorum_time rl_guard_free_at(const struct rl_node *node)
{
    return node->nodes->guard->node[node->index].end;
}

quorum_duration rl_guard_withholds(const struct rl_node *node, quorum_time now)
{
    if (!node->nodes->core->options.guard)
        return 0;
    return node->suspect ? QUORUM_NEVER : quorum_time_until(rl_guard_free_at(node), now);
}

const char *rl_guard_objection(struct rl_node *node, quorum_time now)
{
    const char *unfit = rl_guard_unfit(node);
    if (unfit || !node->nodes->core->options.guard)
        return unfit;
    if (!rl_node_is_confirmed(node, now))
        return rl_witnesses_explain(node->witnesses, now);
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
