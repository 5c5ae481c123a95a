/*
 * Inspect: finds the user's missing rights on each node. It tries every command that the library sends or uses in a
 * script, in a form without effect: a server checks permissions before arguments. (ACL DRYRUN is for administrators.)
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/client/inspect.h"
#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/lock/round_command.h"
#include "src/node/fanout.h"
#include "src/node/guard.h"
#include "src/node/reply.h"

/* Placeholders in the probes, for keys of the resource, for a key that does not exist, and so on. */
#define LOCK           "$lock"
#define QUEUE          "$queue"
#define ALIVE          "$alive"
#define NOBODYS        "$nobodys"
#define MARKER         "$marker"
#define CHANNEL        "$channel"
#define NAME           "$name"

#define HELPER_KEYS    ":redlock:*"     /* behind the resource's key */
#define NOBODYS_SUFFIX ":redlock:probe" /* fits in RL_SUFFIX_MAX */
#define NO_SCRIPT      "0000000000000000000000000000000000000000"
#define NO_NUMBER      "?"

enum purpose { TO_WORK, FOR_THE_GUARD, TO_KNOW };

static const struct probe {
    const char *rule; /* the ACL rule that permits it */
    const char *word[6];
    enum purpose purpose;
} probes[] = {
    {"time", {"TIME"}, TO_WORK}, /* first: its latency is the round trip */
    {"info", {"INFO", "server"}, TO_WORK},
    {"client|setname", {"CLIENT", "SETNAME", NAME}, TO_WORK},
    {"client|id", {"CLIENT", "ID"}, TO_WORK},
    {"client|kill", {"CLIENT", "KILL", "ID", "0"}, TO_WORK},
    {"script|load", {"SCRIPT", "LOAD", "return 1"}, TO_WORK},
    {"evalsha", {"EVALSHA", NO_SCRIPT, "0"}, TO_WORK},
    {"eval", {"EVAL", "return 1", "0"}, TO_WORK},
    {"get", {"GET", LOCK}, TO_WORK},
    {"mget", {"MGET", LOCK}, TO_WORK},
    {"set", {"SET", LOCK, "x", "NX", "XX"}, TO_WORK},
    {"exists", {"EXISTS", LOCK}, TO_WORK},
    {"pttl", {"PTTL", LOCK}, TO_WORK},
    {"pexpire", {"PEXPIRE", LOCK, NO_NUMBER}, TO_WORK},
    {"del", {"DEL", NOBODYS}, TO_WORK},
    {"zadd", {"ZADD", QUEUE, NO_NUMBER, "m"}, TO_WORK},
    {"zrem", {"ZREM", QUEUE, ""}, TO_WORK},
    {"zrange", {"ZRANGE", QUEUE, "0", "0"}, TO_WORK},
    {"zrangebyscore", {"ZRANGEBYSCORE", QUEUE, NO_NUMBER, NO_NUMBER}, TO_WORK},
    {"zscore", {"ZSCORE", QUEUE, ""}, TO_WORK},
    {"hmget", {"HMGET", ALIVE, ""}, TO_WORK},
    {"hset", {"HSET", ALIVE, "f", "v", "g"}, TO_WORK},
    {"hdel", {"HDEL", ALIVE, ""}, TO_WORK},
    {"publish", {"PUBLISH", CHANNEL, ""}, TO_WORK},
    {"getrange", {"GETRANGE", MARKER, "0", "0"}, FOR_THE_GUARD},
    {"set", {"SET", MARKER, "x", "NX", "XX"}, FOR_THE_GUARD},
    {"config|get", {"CONFIG", "GET", "appendfsync"}, TO_KNOW},
    {"config|get", {"CONFIG", "GET", "save"}, TO_KNOW},
};
#define PROBES (sizeof probes / sizeof *probes)

struct inspect;
struct inquiry;

/* One probe, on every node. */
struct probing {
    struct rl_fanout fanout;
    struct inquiry *inquiry;
    const struct probe *probe;
};

/* The probes. Replies may arrive after the operation has ended. */
struct inquiry {
    redlock_client *client;
    struct inspect *inspect; /* NULL: it has ended */
    unsigned left;           /* probes that still have references */
    struct probing probing[PROBES];
    struct rl_request request[]; /* by probe and node */
};

struct inspect {
    struct rl_operation base;
    struct inquiry *inquiry;
    quorum_nodes asked;
    unsigned left[REDLOCK_NODES_MAX]; /* replies that have not arrived */
    uint32_t latency_us[REDLOCK_NODES_MAX];
    struct quorum_tally tally;
    char text[REDLOCK_NODES_MAX][RL_NODE_TEXT_SIZE];
    char refusal[REDLOCK_NODES_MAX][RL_NODE_TEXT_SIZE]; /* of new locks, although the user may set the key */
};

/* --------------------------------------------------------------------------------------------------- missing rights */

static bool has_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *found = strstr(text, word); found; found = strstr(found + 1, word))
        if ((found == text || found[-1] == ' ') && (found[size] == '\0' || found[size] == ' '))
            return true;
    return false;
}

/* Stands for rules that do not fit: a rule that is cut is another rule. The second one for helper keys, without whose
 * rights locks work. */
#define MORE         "(more)"
#define MORE_HELPERS MORE HELPER_KEYS

static void add_rule(struct rl_facts *facts, const char *rule)
{
    size_t used = strlen(facts->lacking), size = strlen(rule);
    bool is_helper = size > strlen(HELPER_KEYS) && strcmp(rule + size - strlen(HELPER_KEYS), HELPER_KEYS) == 0;
    if (has_word(facts->lacking, rule))
        return;
    if (used + 1 + size + sizeof " " MORE " " MORE_HELPERS > sizeof facts->lacking)
        rule = is_helper ? MORE_HELPERS : MORE;
    if (!has_word(facts->lacking, rule))
        snprintf(facts->lacking + used, sizeof facts->lacking - used, "%s%s", used ? " " : "", rule);
}

static void add_command(struct rl_facts *facts, const char *name)
{
    char rule[32];
    snprintf(rule, sizeof rule, "+%s", name);
    add_rule(facts, rule);
}

/* A pattern that matches the name itself. '?' stands for a byte that redis-cli would not take as part of a word. */
static void add_pattern(struct rl_facts *facts, char kind, const char *name, size_t size, const char *suffix)
{
    char rule[1 + 2 * RL_KEY_MAX + sizeof HELPER_KEYS] = {kind};
    size_t length = 1;
    for (size_t i = 0; i < size && i < RL_KEY_MAX; i++) {
        bool is_plain = name[i] > ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\'';
        if (is_plain && strchr("*?[]\\", name[i]))
            rule[length++] = '\\';
        rule[length++] = is_plain ? name[i] : '?';
    }
    snprintf(rule + length, sizeof rule - length, "%s", suffix);
    add_rule(facts, rule);
}

static bool uses(const struct probe *probe, const char *word)
{
    for (size_t i = 0; i < sizeof probe->word / sizeof *probe->word && probe->word[i]; i++)
        if (strcmp(probe->word[i], word) == 0)
            return true;
    return false;
}

/* Redis' error names the kind of right: command, key or channel. Before 7.2 nothing else in it is reliable. */
static void note_refusal(struct inspect *inspect, struct rl_node *node, const struct probe *probe, const char *error)
{
    struct rl_facts *facts = &node->facts;
    const redlock_options *options = &node->nodes->core->options;
    bool command = strstr(error, " command") && !strstr(error, "mentioned in the command");
    if (command && strcmp(probe->word[0], "EVAL") == 0 && has_word(facts->lacking, "+eval"))
        return; /* recorded already, and the error says no more */
    if (command)
        add_command(facts, probe->rule);
    else if (strstr(error, "channel"))
        add_pattern(facts, '&', options->channel_prefix, strlen(options->channel_prefix), "*");
    else if (uses(probe, MARKER))
        add_pattern(facts, '~', options->marker_key, strlen(options->marker_key), "");
    else if (!uses(probe, NOBODYS)) /* that key is there to test the command */
        add_pattern(facts, '~', inspect->base.lease->key[0].bytes, inspect->base.lease->key[0].size,
                    uses(probe, LOCK) ? "" : HELPER_KEYS);
}

/* A server that would execute SET with NX and XX replies that the syntax is wrong. One that refuses every new lock says
 * so before it reads the arguments: OOM, MISCONF, NOREPLICAS, LOADING, BUSY. */
static bool refuses_locks(const struct probe *probe, const redisReply *reply)
{
    return strcmp(probe->rule, "set") == 0 && uses(probe, LOCK) && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "ERR syntax", 10) != 0;
}

/* ---------------------------------------------------------------------------------------------------------- verdict */

static void complete_if_done(struct inspect *inspect)
{
    const struct quorum_tally *tally = &inspect->tally;
    if (tally->voted[QUORUM_PENDING])
        return;
    int status = REDLOCK_NO_QUORUM;
    if (quorum_tally_won(tally))
        status = REDLOCK_OK;
    else if (quorum_tally_blocked_by(tally, tally->permanent))
        status = REDLOCK_MISCONFIGURED;
    rl_operation_complete(&inspect->base, status);
}

static void count(struct inspect *inspect, unsigned node, enum quorum_vote vote, bool permanent, const char *text)
{
    if (quorum_tally_vote(&inspect->tally, node, vote, permanent))
        snprintf(inspect->text[node], RL_NODE_TEXT_SIZE, "%.*s", RL_NODE_TEXT_SIZE - 1, text);
    complete_if_done(inspect);
}

/* Judges a node after it has replied to all probes and its listener has shown whether the user may subscribe. */
static void judge(struct inspect *inspect, struct rl_node *node)
{
    char text[RL_NODE_TEXT_SIZE];
    struct rl_facts *facts = &node->facts;
    bool tried = node->listener.up || node->listener.failures;
    if (!(inspect->asked & quorum_node(node->index)) || inspect->left[node->index] || !tried)
        return;
    if (node->findings & REDLOCK_FINDING_NO_SUBSCRIBE && !strchr(facts->lacking, '&'))
        add_command(facts, "subscribe");
    const char *refusal = inspect->refusal[node->index];
    snprintf(text, sizeof text, "the user lacks %.*s", RL_NODE_TEXT_SIZE - 16, facts->lacking);
    if (refusal[0] || facts->lacking[0])
        count(inspect, node->index, QUORUM_REFUSED, facts->lacking[0] != '\0', refusal[0] ? refusal : text);
    else
        count(inspect, node->index, QUORUM_GRANTED, false, "");
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* The value in CONFIG GET's reply, an array of the name and the value; NULL if it is not that. */
static const char *value_of(const redisReply *reply, const char *name)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING || strcmp(reply->element[0]->str, name) != 0)
        return NULL;
    return reply->element[1]->str;
}

static void learn(struct rl_facts *facts, const redisReply *reply)
{
    const char *fsync = value_of(reply, "appendfsync"), *save = value_of(reply, "save");
    if (fsync)
        snprintf(facts->append_fsync, sizeof facts->append_fsync, "%.11s", fsync);
    if (save)
        facts->snapshots = save[0] != '\0';
}

static void take(struct inspect *inspect, struct rl_request *request, const struct probe *probe,
                 const struct rl_answer *answer)
{
    struct rl_node *node = answer->node;
    if (probe == probes) {
        rl_request_note_latency(request, answer->now);
        inspect->latency_us[node->index] = request->latency_us;
        rl_guard_take_time(node, answer->reply, request->sent, answer->now);
    }
    if (probe->purpose == TO_KNOW)
        learn(&node->facts, answer->reply);
    else if (rl_reply_error(answer->reply) == RL_ERROR_NOT_PERMITTED)
        note_refusal(inspect, node, probe, answer->reply->str);
    else if (refuses_locks(probe, answer->reply))
        snprintf(inspect->refusal[node->index], RL_NODE_TEXT_SIZE, "%.*s", RL_NODE_TEXT_SIZE - 1, answer->reply->str);
    assert(inspect->left[node->index] > 0);
    inspect->left[node->index]--;
    judge(inspect, node);
}

static void answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    const struct probing *probing = (const struct probing *)fanout;
    struct inspect *inspect = probing->inquiry->inspect;
    unsigned node = answer->node->index;
    if (!inspect)
        return;
    if (answer->kind == RL_ANSWER_REPLY)
        take(inspect, request, probing->probe, answer);
    else if (answer->kind == RL_ANSWER_OVERDUE)
        count(inspect, node, QUORUM_TIMED_OUT, false, "no reply within its timeout");
    else
        count(inspect, node, QUORUM_UNREACHABLE, false,
              rl_node_error(answer->node)[0] ? rl_node_error(answer->node) : "the connection broke");
}

static void destroy(struct rl_fanout *fanout)
{
    struct inquiry *inquiry = ((struct probing *)fanout)->inquiry;
    assert(inquiry->left > 0);
    if (--inquiry->left == 0)
        rl_core_free(&inquiry->client->core, inquiry);
}

static const struct rl_fanout_type probing_type = {.answered = answered, .destroy = destroy};

static struct inquiry *create_inquiry(struct inspect *inspect)
{
    redlock_client *client = inspect->base.client;
    unsigned nodes = client->nodes->count;
    struct inquiry *inquiry =
        rl_core_allocate(&client->core, sizeof *inquiry + PROBES * nodes * sizeof *inquiry->request);
    if (!inquiry)
        return NULL;
    inquiry->client = client;
    inquiry->inspect = inspect;
    inquiry->left = PROBES;
    for (size_t i = 0; i < PROBES; i++) {
        struct probing *probing = &inquiry->probing[i];
        rl_fanout_init(&probing->fanout, &probing_type, client->nodes, &inquiry->request[i * nodes], false);
        probing->inquiry = inquiry;
        probing->probe = &probes[i];
    }
    return inquiry;
}

/* --------------------------------------------------------------------------------------------------------- requests */

struct words {
    struct rl_command command;
    char key[3][RL_KEY_MAX + RL_SUFFIX_MAX];
};

static void add_helper_key(struct words *words, const struct rl_lease *lease, unsigned which, const char *suffix)
{
    memcpy(words->key[which], lease->key[0].bytes, lease->key[0].size);
    memcpy(words->key[which] + lease->key[0].size, suffix, strlen(suffix));
    rl_command_add(&words->command, words->key[which], lease->key[0].size + strlen(suffix));
}

static void add(struct words *words, const struct inspect *inspect, const char *word)
{
    const redlock_client *client = inspect->base.client;
    const struct rl_lease *lease = inspect->base.lease;
    if (strcmp(word, LOCK) == 0)
        rl_command_add(&words->command, lease->key[0].bytes, lease->key[0].size);
    else if (strcmp(word, QUEUE) == 0)
        add_helper_key(words, lease, 0, RL_QUEUE_SUFFIX);
    else if (strcmp(word, ALIVE) == 0)
        add_helper_key(words, lease, 1, RL_ALIVE_SUFFIX);
    else if (strcmp(word, NOBODYS) == 0)
        add_helper_key(words, lease, 2, NOBODYS_SUFFIX);
    else if (strcmp(word, MARKER) == 0)
        rl_command_add_text(&words->command, client->core.options.marker_key);
    else if (strcmp(word, CHANNEL) == 0)
        rl_command_add_text(&words->command, client->nodes->channel);
    else if (strcmp(word, NAME) == 0)
        rl_command_add_text(&words->command, client->core.options.client_name);
    else
        rl_command_add_text(&words->command, word);
}

static bool ask(struct inspect *inspect, struct rl_node *node, struct probing *probing)
{
    struct words words;
    words.command.count = 0;
    words.command.bytes = NULL;
    for (size_t i = 0; i < sizeof probes->word / sizeof *probes->word && probing->probe->word[i]; i++)
        add(&words, inspect, probing->probe->word[i]);
    bool sent = rl_command_format(&words.command) &&
                rl_fanout_send(&probing->fanout, quorum_node(node->index), &words.command) == 0;
    rl_command_free(&words.command);
    inspect->left[node->index] += sent;
    return sent;
}

static void ask_node(struct inspect *inspect, struct rl_node *node)
{
    bool sent = true;
    node->facts.lacking[0] = '\0';
    inspect->asked |= quorum_node(node->index);
    for (size_t i = 0; sent && i < PROBES; i++)
        if (probes[i].purpose != FOR_THE_GUARD || node->nodes->core->options.guard)
            sent = ask(inspect, node, &inspect->inquiry->probing[i]);
    if (!sent)
        count(inspect, node->index, QUORUM_UNREACHABLE, false, "the request could not be sent");
}

/* Sends the probes to nodes that have become ready, unfit ones included, and counts those that are unreachable. */
static void changed(struct rl_operation *operation)
{
    struct inspect *inspect = (struct inspect *)operation;
    redlock_client *client = operation->client;
    for (unsigned i = 0; i < client->nodes->count && !operation->completed; i++) {
        struct rl_node *node = &client->nodes->node[i];
        struct rl_usable usable = rl_node_usable(node, rl_now(), false);
        if (!(inspect->tally.voted[QUORUM_PENDING] & quorum_node(i)))
            continue;
        if (inspect->asked & quorum_node(i))
            judge(inspect, node);
        else if (rl_node_is_ready(node) && node->findings & REDLOCK_FINDING_CLUSTER) /* the keys are in several slots */
            count(inspect, i, QUORUM_REFUSED, true, node->unfit);
        else if (rl_node_is_ready(node))
            ask_node(inspect, node);
        else if (usable.is == RL_OUT)
            count(inspect, i, usable.vote, usable.permanent, usable.reason);
    }
}

/* -------------------------------------------------------------------------------------------------------- operation */

static void fill(struct rl_operation *operation, redlock_result *result)
{
    const struct inspect *inspect = (const struct inspect *)operation;
    const struct quorum_tally *tally = &inspect->tally;
    result->granted = quorum_tally_count(tally, QUORUM_GRANTED);
    result->refused = quorum_tally_count(tally, QUORUM_REFUSED);
    result->unreachable = quorum_tally_count(tally, QUORUM_UNREACHABLE);
    result->timed_out = quorum_tally_count(tally, QUORUM_TIMED_OUT);
    for (unsigned i = 0; i < result->nodes; i++) {
        enum quorum_vote vote = QUORUM_PENDING;
        for (unsigned v = QUORUM_GRANTED; v < QUORUM_VOTES; v++)
            if (tally->voted[v] & quorum_node(i))
                vote = (enum quorum_vote)v;
        result->node[i].outcome = rl_result_outcome(vote);
        result->node[i].latency_us = inspect->latency_us[i];
        snprintf(result->node[i].text, sizeof result->node[i].text, "%s", inspect->text[i]);
    }
}

static void leave(struct rl_operation *operation)
{
    struct inspect *inspect = (struct inspect *)operation;
    struct inquiry *inquiry = inspect->inquiry;
    if (inquiry)
        inquiry->inspect = NULL;
    for (size_t i = PROBES; inquiry && i-- > 0;) /* the last one may free it */
        rl_fanout_unref(&inquiry->probing[i].fanout);
    inspect->inquiry = NULL;
}

static const struct rl_operation_type operation_type = {
    .size = sizeof(struct inspect), .stop = leave, .fill = fill, .changed = changed, .drop = leave};

static void begin(struct inspect *inspect, const char *resource, size_t size)
{
    redlock_client *client = inspect->base.client;
    int status = REDLOCK_NO_MEMORY;
    inspect->base.lease = rl_lease_create_one(&client->locks, resource, size, &status);
    if (inspect->base.lease)
        inspect->inquiry = create_inquiry(inspect);
    if (!inspect->inquiry) {
        rl_operation_complete(&inspect->base, status);
        return;
    }
    inspect->base.attempts = 1;
    rl_listeners_start(client->nodes);
    changed(&inspect->base);
}

int rl_inspect_start(redlock_client *client, const char *resource, size_t size, redlock_callback callback, void *arg)
{
    int created;
    redlock_result why;
    struct inspect *inspect =
        rl_operation_create(client, &operation_type, 0, (union rl_callback){.plain = callback}, arg, &created);
    if (!inspect)
        return created;
    quorum_tally_init(&inspect->tally, client->nodes->count);
    if (rl_resource_check(resource, &size, &client->core.options, &why))
        rl_operation_refuse(&inspect->base, &why);
    else
        begin(inspect, resource, size);
    return REDLOCK_OK;
}
