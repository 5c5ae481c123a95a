#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/limits.h"
#include "src/node/node.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"
#include "src/node/witnesses.h"

#define OLDEST_REDIS          5
#define FIRST_REDIS_THAT_GETS 7

/* ---------------------------------------------------------------------------------------------------------- replies */

/* One server behind two names would have two votes. A duplicate that has no vote does not cost the other name its
 * vote. */
bool rl_handshake_is_duplicate(const struct rl_node *node)
{
    const struct rl_nodes *nodes = node->nodes;
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct rl_node *other = &nodes->node[i];
        if (i != node->index && other->state == RL_NODE_READY && !rl_guard_unfit(other) && node->server.run_id[0] &&
            strcmp(other->server.run_id, node->server.run_id) == 0)
            return true;
    }
    return false;
}

/* Before 5.0 a script that reads the clock must not write. Judged before the scripts fail, because their error does not
 * name the reason. */
static void judge_version(struct rl_node *node)
{
    char *end;
    unsigned long major = strtoul(node->server.version, &end, 10);
    node->server.gets = *end == '.' && major >= FIRST_REDIS_THAT_GETS &&
                        (strcmp(node->server.name, "redis") == 0 || strcmp(node->server.name, "valkey") == 0);
    if (strcmp(node->server.name, "redis") != 0 || *end != '.' || major >= OLDEST_REDIS)
        return;
    snprintf(node->server.unfit, sizeof node->server.unfit,
             "redis %s is too old: redlock needs Redis %d.0 or later, or Valkey", node->server.version, OLDEST_REDIS);
    rl_guard_find(node, REDLOCK_FINDING_TOO_OLD, true);
}

/* A fork of Redis has a field server_name, or is one of these, and its version in a field of that name; redis_version
 * is the version of Redis that it is compatible with. */
static void take_version(struct rl_node *node, const redisReply *reply)
{
    static const char *const unnamed[] = {"redict", "dragonfly"};
    char field[sizeof node->server.name + sizeof "_version"], own[sizeof node->server.version];
    rl_reply_info(reply, "redis_version", node->server.version, sizeof node->server.version);
    rl_reply_info(reply, "server_name", node->server.name, sizeof node->server.name);
    for (size_t i = 0; i < sizeof unnamed / sizeof *unnamed && !node->server.name[0]; i++) {
        snprintf(field, sizeof field, "%s_version", unnamed[i]);
        rl_reply_info(reply, field, own, sizeof own);
        if (own[0])
            snprintf(node->server.name, sizeof node->server.name, "%s", unnamed[i]);
    }
    if (!node->server.name[0] && node->server.version[0])
        snprintf(node->server.name, sizeof node->server.name, "redis");
    snprintf(field, sizeof field, "%s_version", node->server.name);
    rl_reply_info(reply, field, own, sizeof own);
    if (own[0])
        memcpy(node->server.version, own, sizeof own);
    judge_version(node);
}

/* Redis, Valkey and Redict name the mode differently. false: a Sentinel, which has no keys; the connection has ended. */
static bool is_data_server(struct rl_node *node, const redisReply *reply)
{
    static const char *const names[] = {"redis_mode", "server_mode", "redict_mode"};
    char mode[16] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && !mode[0]; i++)
        rl_reply_info(reply, names[i], mode, sizeof mode);
    if (strcmp(mode, "sentinel") != 0)
        return true;
    rl_node_break(node, true, "it is a Sentinel, which keeps no locks");
    return false;
}

/* The part of a key that decides on its slot in a Redis Cluster: what its first {} encloses; without that, the key. */
static struct rl_text hashed_part(const char *key, bool *tagged)
{
    const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;
    *tagged = close && close > open + 1;
    return *tagged ? (struct rl_text){open + 1, (size_t)(close - open - 1)} : (struct rl_text){key, strlen(key)};
}

bool rl_handshake_tag(const redlock_options *options, struct rl_text *tag)
{
    bool prefix_tagged, marker_tagged;
    struct rl_text marker = hashed_part(options->marker_key, &marker_tagged);
    *tag = hashed_part(options->prefix, &prefix_tagged);
    return prefix_tagged && (!options->guard || rl_text_equals(*tag, marker));
}

/* Judged before any script with several keys: after a command that crosses slots, Valkey 9.1 refuses every script. */
static void take_cluster(struct rl_node *node, const redisReply *reply)
{
    char enabled[4];
    struct rl_text tag;
    rl_reply_info(reply, "cluster_enabled", enabled, sizeof enabled);
    rl_guard_find(node, REDLOCK_FINDING_CLUSTER,
                  strcmp(enabled, "1") == 0 && !rl_handshake_tag(&node->nodes->core->options, &tag));
}

static void take_persistence(struct rl_node *node, const redisReply *reply)
{
    char aof[8];
    rl_reply_info(reply, "aof_enabled", aof, sizeof aof);
    if (aof[0])
        node->facts.append_only = strcmp(aof, "1") == 0;
    if (aof[0] && strcmp(aof, "1") != 0 && !node->nodes->core->options.guard)
        node->findings |= REDLOCK_FINDING_NOT_PERSISTENT;
}

static void take(struct rl_node *node, unsigned step, const redisReply *reply)
{
    if (step == RL_STEP_CLIENT_ID)
        node->server.client_id = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    else if (step == RL_STEP_SERVER)
        take_version(node, reply);
    else if (step == RL_STEP_CLUSTER)
        take_cluster(node, reply);
    else if (step == RL_STEP_PERSISTENCE)
        take_persistence(node, reply);
    else if (reply->type == REDIS_REPLY_ERROR)
        rl_log(node->nodes->core, REDLOCK_LOG_DEBUG, "%s: handshake step %u: %.80s", node->name, step, reply->str);
}

/* The server sends this at accept, so it counts as the reply to the first command. */
static bool has_too_many_clients(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "ERR max number of clients", 25) == 0;
}

/* Errors that make the connection useless. Other errors concern one step, which the node can do without. A busy server
 * does not report its run_id, without which one server under two names would have two votes. */
static bool is_fatal(unsigned step, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR &&
           (step == RL_STEP_AUTH || step == RL_STEP_SELECT || rl_reply_is_error(reply, "NOAUTH") ||
            rl_reply_is_error(reply, "DENIED") || has_too_many_clients(reply) ||
            (step == RL_STEP_SERVER && rl_reply_is_error(reply, "BUSY")));
}

/* A Sentinel knows no SELECT, and expects no password. The reply to INFO, which follows, tells it from a server. */
static bool may_be_of_sentinel(unsigned step, const redisReply *reply)
{
    enum rl_reply_error error = rl_reply_error(reply);
    return step == RL_STEP_AUTH ? error == RL_ERROR_CREDENTIALS
                                : step == RL_STEP_SELECT && error == RL_ERROR_UNKNOWN_COMMAND;
}

/* A server with a renamed AUTH quotes the password: "ERR unknown command 'AUTH', with args beginning with: ...". */
static void hide_arguments(char *text)
{
    char *quoted = strstr(text, ", with args");
    if (quoted)
        *quoted = '\0';
}

/* A proxy may refuse SELECT with any text; the one of a missing right says what to do. */
static void name_database(char refusal[RL_NODE_TEXT_SIZE])
{
    char text[RL_NODE_TEXT_SIZE];
    memcpy(text, refusal, sizeof text);
    snprintf(refusal, RL_NODE_TEXT_SIZE, "no SELECT; use database 0: %.60s", text);
}

static bool ask(struct rl_node *node, enum rl_handshake_step step, struct rl_command *command);

/* The last reply has arrived. */
static void finish(struct rl_node *node)
{
    if (node->state == RL_NODE_READY) {
        rl_node_beat_answered(node, true, node->reading.sent, node->reading.received);
        return;
    }
    /* Not earlier, because the other node may have become ready after this one's reply to INFO. */
    if (!rl_guard_unfit(node) && rl_handshake_is_duplicate(node))
        node->findings |= REDLOCK_FINDING_SAME_SERVER;
    rl_node_ready(node);
}

/* Not inlined, like the functions below that send a command: a thread's stack keeps the pages of the deepest call, and
 * commands are large. */
static __attribute__((noinline)) bool ask_write(struct rl_node *node)
{
    struct rl_command command;
    rl_command_init(&command);
    rl_guard_write(node, &command);
    bool sent = ask(node, RL_STEP_WRITE, &command);
    rl_command_free(&command);
    return sent;
}

static void go_on(struct rl_node *node, enum rl_guard_outcome outcome)
{
    bool sent = outcome == RL_GUARD_WRITES ? ask_write(node) : outcome == RL_GUARD_DONE;
    if (outcome == RL_GUARD_CHANGED)
        sent = rl_handshake_read(node);
    if (!sent && rl_link_is_open(&node->link))
        rl_node_break(node, false, "no memory for the guard");
    else if (outcome == RL_GUARD_DONE)
        finish(node);
}

static void step_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_node *node = answer->node;
    unsigned step = (unsigned)(request - node->handshake.steps);
    assert(step < RL_STEPS);
    if (answer->kind != RL_ANSWER_REPLY || !rl_link_is_open(&node->link))
        return; /* overdue: the connect timeout decides; broken: the end of the connection is handled elsewhere */
    char *refusal = node->handshake.refusal;
    if (!refusal[0] && is_fatal(step, answer->reply)) {
        rl_reply_text(answer->reply, refusal, sizeof node->handshake.refusal);
        hide_arguments(refusal);
        if (step == RL_STEP_SELECT && rl_reply_error(answer->reply) != RL_ERROR_NOT_PERMITTED)
            name_database(refusal);
        if (!may_be_of_sentinel(step, answer->reply)) {
            bool permanent = !has_too_many_clients(answer->reply) && !rl_reply_is_unavailable(answer->reply);
            rl_node_break(node, permanent, "handshake: %.80s", refusal);
            return;
        }
    }
    assert(node->handshake.steps_left > 0);
    if (step == RL_STEP_WRITE) {
        node->handshake.steps_left--;
        go_on(node, rl_guard_take_written(node, answer->reply, answer->now));
        return;
    }
    if (step == RL_STEP_SERVER && !is_data_server(node, answer->reply))
        return;
    if (refusal[0]) {
        if (step == RL_STEP_SERVER)
            rl_node_break(node, true, "handshake: %.80s", refusal);
        return;
    }
    take(node, step, answer->reply);
    if (step >= RL_STEP_SERVER &&
        !rl_guard_take_fact(node, (enum rl_handshake_step)step, answer->reply, request->sent, answer->now))
        return; /* the connection has ended */
    if (--node->handshake.steps_left == 0)
        go_on(node, rl_guard_judge_facts(node));
}

/* --------------------------------------------------------------------------------------------------------- requests */

static bool ask(struct rl_node *node, enum rl_handshake_step step, struct rl_command *command)
{
    static const struct rl_request_type type = {.answered = step_answered};
    static const struct rl_sender sender = {&type};
    struct rl_request *request = &node->handshake.steps[step];
    request->sender = &sender;
    bool sent =
        rl_command_format(command) && rl_flight_send(&node->flight, request, command->bytes, command->length, rl_now());
    node->handshake.steps_left += sent;
    return sent;
}

/* Not inlined, like those that follow: see ask_write(). */
static __attribute__((noinline)) bool ask_auth(struct rl_node *node)
{
    struct rl_command command = {0};
    int authenticates = rl_attempts_auth(&node->nodes->core->options, node->address, &command, node->facts.user);
    if (authenticates < 0)
        rl_node_break(node, false, "the credentials callback returned an error");
    bool asked = authenticates > 0 ? ask(node, RL_STEP_AUTH, &command) : authenticates == 0;
    rl_attempts_auth_free(&command);
    return asked;
}

static __attribute__((noinline)) bool ask_step(struct rl_node *node, enum rl_handshake_step step)
{
    const redlock_options *options = &node->nodes->core->options;
    int64_t database = node->address->database >= 0 ? node->address->database : options->database;
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)database);
    const char *const words[RL_STEPS][4] = {
        [RL_STEP_SELECT] = {database ? "SELECT" : NULL, number},
        [RL_STEP_NAME] = {options->client_name[0] ? "CLIENT" : NULL, "SETNAME", options->client_name},
        [RL_STEP_CLIENT_ID] = {"CLIENT", "ID"},
        [RL_STEP_CLUSTER] = {"INFO", "cluster"},
        [RL_STEP_PERSISTENCE] = {"INFO", "persistence"},
        [RL_STEP_SERVER] = {"INFO", "server"},
        [RL_STEP_REPLICATION] = {"INFO", "replication"},
        [RL_STEP_MEMORY] = {"INFO", "memory"},
        [RL_STEP_STATISTICS] = {"INFO", "stats"},
        [RL_STEP_COMMANDS] = {"INFO", "commandstats"},
        [RL_STEP_MARKER] = {"GETRANGE", options->marker_key, "0", RL_LIMIT_TEXT(RL_MARKER_LAST)},
        [RL_STEP_TIME] = {"TIME"},
    };
    const char *const *word = words[step];
    struct rl_command command;
    if (!word[0])
        return true;
    bool asked = rl_command_words(&command, word[0], word[1], word[2], word[3], NULL) && ask(node, step, &command);
    rl_command_free(&command);
    return asked;
}

static bool ask_steps(struct rl_node *node, enum rl_handshake_step first, enum rl_handshake_step last)
{
    bool asked = true;
    for (unsigned step = first; asked && step <= last; step++)
        asked = ask_step(node, (enum rl_handshake_step)step);
    return asked;
}

bool rl_handshake_read(struct rl_node *node)
{
    assert(node->handshake.steps_left == 0 || node->state == RL_NODE_CONNECTING);
    rl_guard_begin(node);
    return ask_steps(node, RL_STEP_SERVER, node->nodes->core->options.guard ? RL_STEP_TIME : RL_STEP_MEMORY);
}

bool rl_handshake_start(struct rl_node *node)
{
    assert(node->state == RL_NODE_CONNECTING);
    node->handshake.steps_left = 0;
    node->handshake.refusal[0] = '\0';
    node->server.client_id = 0;
    node->findings &= RL_FINDINGS_WITNESSES;
    node->attest.refused = false;
    node->facts = (struct rl_facts){.append_only = -1, .snapshots = -1};
    if (node->lacking)
        node->lacking[0] = '\0';
    return ask_auth(node) && ask_steps(node, RL_STEP_SELECT, RL_STEP_PERSISTENCE) && rl_handshake_read(node);
}

/* ------------------------------------------------------------------------------------------------ stale connections */

static void kill_answered(struct rl_request *request, const struct rl_answer *answer)
{
    struct rl_node *node = answer->node;
    if (answer->kind != RL_ANSWER_REPLY || rl_reply_is_unavailable(answer->reply))
        return; /* still stale: the next connection retries, or the next heartbeat's reply */
    node->handshake.stale.link[request - node->handshake.kill].client_id = 0;
    if (rl_reply_error(answer->reply) == RL_ERROR_NOT_PERMITTED)
        rl_log(
            node->nodes->core, REDLOCK_LOG_WARNING,
            "%s: the user lacks CLIENT KILL, so requests on a broken connection may be executed after their undo; add +client|kill",
            node->name);
}

static void kill_link(struct rl_node *node, unsigned link)
{
    static const struct rl_request_type type = {.answered = kill_answered};
    static const struct rl_sender sender = {&type};
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)node->handshake.stale.link[link].client_id);
    struct rl_command command;
    node->handshake.kill[link].sender = &sender;
    if (rl_command_words(&command, "CLIENT", "KILL", "ID", id, NULL))
        rl_flight_send(&node->flight, &node->handshake.kill[link], command.bytes, command.length, rl_now());
    rl_command_free(&command);
}

void rl_handshake_settle(struct rl_node *node)
{
    assert(node->state == RL_NODE_READY);
    const struct rl_stale_links *stale = &node->handshake.stale;
    /* Another server process has none of these connections, and may assign their IDs to other clients. */
    for (unsigned i = 0; node->server.run_id[0] && i < RL_STALE_LINKS_MAX; i++)
        if (stale->link[i].client_id && strcmp(node->server.run_id, stale->link[i].run_id) == 0)
            kill_link(node, i);
}
