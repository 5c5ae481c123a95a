/*
 * Inspect: finds the user's missing rights, and the server's missing commands, on each node. It tries every command that
 * the library sends or uses in a script, in a form without effect: a server checks permissions before arguments. (ACL
 * DRYRUN is for administrators.)
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/client/client.h"
#include "src/core/result.h"
#include "src/lock/round_command.h"
#include "src/node/fanout.h"
#include "src/node/guard.h"
#include "src/node/reply.h"

/* Placeholders in the probes: '$' and what is behind the key of the resource, for keys; and others. */
#define LOCK        "$"
#define QUEUE       "$" RL_QUEUE_SUFFIX
#define ALIVE       "$" RL_ALIVE_SUFFIX
#define NOBODYS     "$:redlock:probe" /* a key that does not exist */
#define MARKER      "%marker"
#define CHANNEL     "%channel"
#define NAME        "%name"

#define HELPER_KEYS ":redlock:*" /* behind a resource's key */
#define NO_SCRIPT   "0000000000000000000000000000000000000000"
#define NO_NUMBER   "?"

/* The beginnings of a result's text. */
#define SERVER_LACKS "the server has no "
#define USER_LACKS   "the user lacks "

enum purpose { TO_WORK, FOR_THE_GUARD, TO_KNOW };

static const struct probe {
    const char *rule; /* the ACL rule that permits it */
    const char *word[6];
    const char *error; /* the error that its arguments bring about; NULL: none. Any other one is a refusal */
    enum purpose purpose;
} probes[] = {
    {"time", {"TIME"}, NULL, TO_WORK}, /* first: its latency is the round trip */
    {"info", {"INFO", "server"}, NULL, TO_WORK},
    {"client|setname", {"CLIENT", "SETNAME", NAME}, NULL, TO_WORK},
    {"client|id", {"CLIENT", "ID"}, NULL, TO_WORK},
    {"client|kill", {"CLIENT", "KILL", "ID", "0"}, "ERR client-id should be", TO_WORK},
    {"evalsha", {"EVALSHA", NO_SCRIPT, "0"}, "NOSCRIPT ", TO_WORK},
    {"eval", {"EVAL", "return 1", "0"}, NULL, TO_WORK},
    {"get", {"GET", LOCK}, NULL, TO_WORK},
    {"mget", {"MGET", LOCK}, NULL, TO_WORK},
    {"set", {"SET", LOCK, "x", "NX", "XX"}, "ERR syntax error", TO_WORK},
    {"exists", {"EXISTS", LOCK}, NULL, TO_WORK},
    {"pttl", {"PTTL", LOCK}, NULL, TO_WORK},
    {"pexpire", {"PEXPIRE", LOCK, NO_NUMBER}, "ERR value is not an integer", TO_WORK},
    {"del", {"DEL", NOBODYS}, NULL, TO_WORK},
    {"zadd", {"ZADD", QUEUE, NO_NUMBER, "m"}, "ERR value is not a valid float", TO_WORK},
    {"zrem", {"ZREM", QUEUE, ""}, NULL, TO_WORK},
    {"zrange", {"ZRANGE", QUEUE, "0", "0"}, NULL, TO_WORK},
    {"zrangebyscore", {"ZRANGEBYSCORE", QUEUE, NO_NUMBER, NO_NUMBER}, "ERR min or max is not a float", TO_WORK},
    {"zscore", {"ZSCORE", QUEUE, ""}, NULL, TO_WORK},
    {"hmget", {"HMGET", ALIVE, ""}, NULL, TO_WORK},
    {"hset", {"HSET", ALIVE, "f", "v", "g"}, "ERR wrong number of arguments", TO_WORK},
    {"hdel", {"HDEL", ALIVE, ""}, NULL, TO_WORK},
    {"publish", {"PUBLISH", CHANNEL, ""}, NULL, TO_WORK},
    {"getrange", {"GETRANGE", MARKER, "0", "0"}, NULL, FOR_THE_GUARD},
    {"set", {"SET", MARKER, "x", "NX", "XX"}, "ERR syntax error", FOR_THE_GUARD},
    {"config|get", {"CONFIG", "GET", "appendfsync"}, NULL, TO_KNOW},
    {"config|get", {"CONFIG", "GET", "save"}, NULL, TO_KNOW},
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
    quorum_nodes keyless;             /* where the user has no right to the lock's key, let alone to those behind it */
    unsigned left[REDLOCK_NODES_MAX]; /* replies that have not arrived */
    uint32_t latency_us[REDLOCK_NODES_MAX];
    struct quorum_tally tally;
    char text[REDLOCK_NODES_MAX][RL_NODE_TEXT_SIZE];
    char missing[REDLOCK_NODES_MAX]
                [RL_NODE_TEXT_SIZE]; /* commands that the server does not know, or not by this name */
    char refusal[REDLOCK_NODES_MAX][RL_NODE_TEXT_SIZE]; /* the first other error, although the user has the right */
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

/* Stands for rules that do not fit: a rule that is cut is another rule. */
#define MORE "(more)"

static void add_word(char *words, size_t size, const char *word)
{
    size_t used = strlen(words);
    if (has_word(words, word))
        return;
    if (used + 1 + strlen(word) + sizeof " " MORE > size)
        word = MORE;
    if (!has_word(words, word))
        snprintf(words + used, size - used, "%s%s", used ? " " : "", word);
}

static void add_command(struct rl_node *node, const char *name)
{
    char rule[32];
    snprintf(rule, sizeof rule, "+%s", name);
    add_word(node->lacking, RL_LACKING_SIZE, rule);
}

/* The pattern of all names with this beginning. '?' stands for a byte that redis-cli would not take as part of a word. */
static void add_pattern(struct rl_node *node, char kind, const char *name, const char *suffix)
{
    char rule[1 + 2 * RL_KEY_MAX + 1 + sizeof HELPER_KEYS] = {kind};
    size_t length = 1;
    for (size_t i = 0; name[i] && i < RL_KEY_MAX; i++) {
        bool is_plain = name[i] > ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\'';
        if (is_plain && strchr("*?[]\\", name[i]))
            rule[length++] = '\\';
        rule[length++] = is_plain ? name[i] : '?';
    }
    snprintf(rule + length, sizeof rule - length, "%s", suffix);
    add_word(node->lacking, RL_LACKING_SIZE, rule);
}

static bool uses(const struct probe *probe, const char *word)
{
    for (size_t i = 0; i < sizeof probe->word / sizeof *probe->word && probe->word[i]; i++)
        if (strcmp(probe->word[i], word) == 0)
            return true;
    return false;
}

/* Redis' error names the kind of right: command, key or channel. Before 7.2 nothing else in it is reliable. The rules are
 * those of all resources with the prefix: with those of one resource the next one would be refused. */
static void note_missing_right(struct inspect *inspect, struct rl_node *node, const struct probe *probe,
                               const char *error)
{
    const redlock_options *options = &node->nodes->core->options;
    if (strstr(error, " command") && !strstr(error, "mentioned in the command"))
        add_command(node, probe->rule);
    else if (strstr(error, "channel"))
        add_pattern(node, '&', options->channel_prefix, "*");
    else if (uses(probe, MARKER))
        add_pattern(node, '~', options->marker_key, "");
    else if (uses(probe, LOCK) && (inspect->keyless |= quorum_node(node->index)))
        add_pattern(node, '~', options->prefix, "*");
    else if (!uses(probe, NOBODYS) && !(inspect->keyless & quorum_node(node->index))) /* NOBODYS tests the command */
        add_pattern(node, '~', options->prefix, "*" HELPER_KEYS);
}

/* A server that refuses every new lock says so before it reads the arguments: OOM, MISCONF, NOREPLICAS, LOADING, BUSY. A
 * lock of another kind makes some commands fail with WRONGTYPE. */
static bool is_refusal(const struct probe *probe, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && rl_reply_error(reply) != RL_ERROR_WRONGTYPE &&
           (!probe->error || strncmp(reply->str, probe->error, strlen(probe->error)) != 0);
}

static void note_refusal(struct inspect *inspect, unsigned node, const char *command, const char *error)
{
    if (strstr(error, "nknown command") || strstr(error, "nknown subcommand"))
        add_word(inspect->missing[node], sizeof inspect->missing[node] - sizeof SERVER_LACKS, command);
    else if (!inspect->refusal[node][0] && strcmp(command, "SET") == 0)
        snprintf(inspect->refusal[node], RL_NODE_TEXT_SIZE, "%.*s", RL_NODE_TEXT_SIZE - 1, error);
    else if (!inspect->refusal[node][0])
        snprintf(inspect->refusal[node], RL_NODE_TEXT_SIZE, "%s: %.*s", command, RL_NODE_TEXT_SIZE - 20, error);
}

/* ---------------------------------------------------------------------------------------------------------- verdict */

static void count(struct inspect *inspect, unsigned node, enum quorum_vote vote, bool permanent, const char *text)
{
    const struct quorum_tally *tally = &inspect->tally;
    if (quorum_tally_vote(&inspect->tally, node, vote, permanent))
        snprintf(inspect->text[node], RL_NODE_TEXT_SIZE, "%.*s", RL_NODE_TEXT_SIZE - 1, text);
    if (tally->voted[QUORUM_PENDING])
        return;
    bool blocked = quorum_tally_blocked_by(tally, tally->permanent);
    rl_operation_complete(&inspect->base, quorum_tally_won(tally) ? REDLOCK_OK
                                          : blocked               ? REDLOCK_MISCONFIGURED
                                                                  : REDLOCK_NO_QUORUM);
}

/* Judges a node after it has replied to all probes and its listener has shown whether the user may subscribe. */
static void judge(struct inspect *inspect, struct rl_node *node)
{
    char text[RL_NODE_TEXT_SIZE];
    unsigned i = node->index;
    const char *lacking = node->lacking, *missing = inspect->missing[i], *refusal = inspect->refusal[i];
    bool tried = node->listener->up || node->listener->failures;
    if (!(inspect->asked & quorum_node(i)) || inspect->left[i] || !tried)
        return;
    if (node->findings & REDLOCK_FINDING_NO_SUBSCRIBE && !strchr(lacking, '&'))
        add_command(node, "subscribe");
    else if (!node->listener->up)
        note_refusal(inspect, i, "SUBSCRIBE", node->listener->error[0] ? node->listener->error : "not confirmed");
    snprintf(text, sizeof text, "%s%.*s", missing[0] ? SERVER_LACKS : USER_LACKS,
             (int)(RL_NODE_TEXT_SIZE - sizeof SERVER_LACKS), missing[0] ? missing : lacking);
    bool lacks = missing[0] || lacking[0];
    const char *why = refusal[0] && !missing[0] ? refusal : lacks ? text : "";
    count(inspect, i, why[0] ? QUORUM_REFUSED : QUORUM_GRANTED, lacks, why);
}

/* ---------------------------------------------------------------------------------------------------------- replies */

/* The value in CONFIG GET's reply, an array of the name and the value; NULL if it is not that. */
static const char *value_of(const redisReply *reply, const char *name)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, name) != 0)
        return NULL;
    return reply->element[1]->str; /* NULL if it is no text */
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
    uint64_t time_us;
    if (probe == probes) {
        rl_request_note_latency(request, answer->now);
        inspect->latency_us[node->index] = request->latency_us;
        if (rl_guard_parse_time(answer->reply, &time_us))
            rl_guard_take_time(node, time_us, request->sent, answer->now);
    }
    if (probe->purpose == TO_KNOW)
        learn(&node->facts, answer->reply);
    else if (rl_reply_error(answer->reply) == RL_ERROR_NOT_PERMITTED)
        note_missing_right(inspect, node, probe, answer->reply->str);
    else if (is_refusal(probe, answer->reply))
        note_refusal(inspect, node->index, probe->word[0], answer->reply->str);
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
        count(inspect, node, QUORUM_UNREACHABLE, false, answer->node->attempts.error);
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
    for (unsigned i = 0; i < nodes; i++) {
        char **lacking = &client->nodes->node[i].lacking;
        if (!*lacking && !(*lacking = rl_allocate(&client->core.allocator, RL_LACKING_SIZE)))
            return NULL;
    }
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

static void add(struct rl_command *command, const struct inspect *inspect, const char *word)
{
    const redlock_client *client = inspect->base.client;
    const struct rl_key *key = &inspect->base.lease->key[0];
    if (word[0] == '$')
        rl_command_add_joined(command, (struct rl_text){key->bytes, key->size}, word + 1, strlen(word + 1));
    else if (strcmp(word, MARKER) == 0)
        rl_command_add_text(command, client->core.options.marker_key);
    else if (strcmp(word, CHANNEL) == 0)
        rl_command_add_text(command, client->nodes->channel);
    else if (strcmp(word, NAME) == 0)
        rl_command_add_text(command, client->core.options.client_name);
    else
        rl_command_add_text(command, word);
}

static bool ask(struct inspect *inspect, struct rl_node *node, struct probing *probing)
{
    struct rl_command command;
    rl_command_init(&command);
    for (size_t i = 0; i < sizeof probes->word / sizeof *probes->word && probing->probe->word[i]; i++)
        add(&command, inspect, probing->probe->word[i]);
    bool sent =
        rl_command_format(&command) && rl_fanout_send(&probing->fanout, quorum_node(node->index), &command) == 0;
    rl_command_free(&command);
    inspect->left[node->index] += sent;
    return sent;
}

static void ask_node(struct inspect *inspect, struct rl_node *node)
{
    bool sent = true;
    node->lacking[0] = '\0';
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
            count(inspect, i, QUORUM_REFUSED, true, rl_guard_unfit(node));
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
    rl_result_votes(result, &inspect->tally);
    for (unsigned i = 0; i < result->nodes; i++) {
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

static void start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct inspect *inspect = (struct inspect *)operation;
    redlock_client *client = operation->client;
    size_t size = arguments->size;
    int status = REDLOCK_NO_MEMORY;
    redlock_result why;
    quorum_tally_init(&inspect->tally, client->nodes->count);
    if (rl_resource_check(arguments->resource, &size, &client->core.options, &why)) {
        rl_operation_refuse(operation, &why);
        return;
    }
    operation->lease = rl_lease_create_one(&client->locks, arguments->resource, size, &status);
    if (operation->lease && rl_listeners_start(client->nodes))
        inspect->inquiry = create_inquiry(inspect);
    if (!inspect->inquiry) {
        rl_operation_complete(operation, status);
        return;
    }
    operation->attempts = 1;
    changed(operation);
}

const struct rl_operation_type rl_inspect = {
    .size = sizeof(struct inspect), .start = start, .stop = leave, .fill = fill, .changed = changed, .drop = leave};
