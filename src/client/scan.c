/*
 * Scan: finds the locks on one node. A page of SCAN, then a script that reads the locks among its keys, a few at a time,
 * then the next page: one short command is in flight at a time, so that other clients' commands are not delayed.
 *
 * Out: the caller's function for each lock, on the loop's thread.
 */
#include <assert.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/client/client.h"
#include "src/core/escape.h"
#include "src/core/result.h"
#include "src/lock/round_command.h"
#include "src/node/fanout.h"
#include "src/node/reply.h"

#define PAGE       "100" /* keys that SCAN looks at in one command */
#define BATCH_MOST 50    /* keys that the script reads in one call */

/* A key of the page that can be a lock's. */
struct key {
    struct rl_text bytes;
    size_t resource_size;
    int slot; /* -1: none */
};

/* It stays in memory until the node's last reply, also if the operation has ended. */
struct scanning {
    struct rl_fanout fanout;
    redlock_client *client;
    struct scan *scan; /* NULL: the operation has ended */
    struct key *key;   /* of the page, with their bytes behind the array */
    unsigned count;
    unsigned read; /* keys that the script has read */
    unsigned batch;
    char cursor[RL_DECIMAL_SIZE]; /* of the next page */
    struct rl_request request[];  /* one per node */
};

struct scan {
    struct rl_operation base;
    struct scanning *scanning;
    redlock_scan_callback found;
    void *found_arg;
    unsigned node;
    struct quorum_tally tally;
    char text[RL_NODE_TEXT_SIZE];
    char pattern[REDLOCK_RESOURCE_MAX + 1];
};

/* ---------------------------------------------------------------------------------------------------------- the end */

static void scan_end(struct scan *scan, int status, enum quorum_vote vote, const char *text)
{
    snprintf(scan->text, sizeof scan->text, "%s", text);
    quorum_tally_vote(&scan->tally, scan->node, vote, status == REDLOCK_MISCONFIGURED);
    rl_operation_complete(&scan->base, status);
}

static void scan_fill(struct rl_operation *operation, redlock_result *result)
{
    const struct scan *scan = (const struct scan *)operation;
    rl_result_votes(result, &scan->tally);
    if (scan->node < result->nodes)
        snprintf(result->node[scan->node].text, sizeof result->node[scan->node].text, "%s", scan->text);
}

static void scan_leave(struct rl_operation *operation)
{
    struct scan *scan = (struct scan *)operation;
    struct scanning *scanning = scan->scanning;
    scan->scanning = NULL;
    if (!scanning)
        return;
    scanning->scan = NULL;
    rl_fanout_unref(&scanning->fanout);
}

/* ---------------------------------------------------------------------------------------------------------- requests */

static bool scan_send(struct scanning *scanning, struct rl_command *command)
{
    bool sent = rl_command_format(command) &&
                rl_fanout_send(&scanning->fanout, quorum_node(scanning->scan->node), command) == 0;
    rl_command_free(command);
    if (!sent)
        scan_end(scanning->scan, REDLOCK_NO_QUORUM, QUORUM_UNREACHABLE, "the request could not be sent");
    return sent;
}

/* All keys that begin with the prefix, literally, and then like the pattern; a semaphore's slots have more behind it. */
static void scan_request_page(struct scanning *scanning)
{
    struct rl_command command;
    char match[2 * 128 + REDLOCK_RESOURCE_MAX + 2];
    size_t size = 0;
    for (const char *c = scanning->client->core.options.prefix; *c; c++) {
        if (strchr("*?[]^\\", *c))
            match[size++] = '\\';
        match[size++] = *c;
    }
    size += (size_t)snprintf(match + size, sizeof match - size, "%s*", scanning->scan->pattern);
    rl_command_init(&command);
    rl_command_add_text(&command, "SCAN");
    rl_command_add_text(&command, scanning->cursor);
    rl_command_add_text(&command, "MATCH");
    rl_command_add(&command, match, size);
    rl_command_add_text(&command, "COUNT");
    rl_command_add_text(&command, PAGE);
    scan_send(scanning, &command);
}

/* The key of the queue, or of its waiters: a slot's is the semaphore's. */
static void scan_add_helper(struct rl_command *command, const struct scanning *scanning, const struct key *key,
                            const char *suffix)
{
    size_t size = strlen(scanning->client->core.options.prefix) + key->resource_size;
    rl_command_add_joined(command, (struct rl_text){key->bytes.bytes, size}, suffix, strlen(suffix));
}

static bool scan_request_batch(struct scanning *scanning, bool use_eval)
{
    struct rl_command command;
    unsigned left = scanning->count - scanning->read;
    scanning->batch = left < BATCH_MOST ? left : BATCH_MOST;
    const struct key *key = &scanning->key[scanning->read];
    rl_command_init(&command);
    rl_command_script(&command, RL_SCRIPT_LIST, use_eval, 3 * scanning->batch);
    for (unsigned i = 0; i < scanning->batch; i++) {
        rl_command_add(&command, key[i].bytes.bytes, key[i].bytes.size);
        scan_add_helper(&command, scanning, &key[i], RL_QUEUE_SUFFIX);
        scan_add_helper(&command, scanning, &key[i], RL_ALIVE_SUFFIX);
    }
    return scan_send(scanning, &command);
}

static void scan_go_on(struct scanning *scanning)
{
    if (scanning->read < scanning->count)
        scan_request_batch(scanning, false);
    else if (strcmp(scanning->cursor, "0") != 0)
        scan_request_page(scanning);
    else
        scan_end(scanning->scan, REDLOCK_OK, QUORUM_GRANTED, "");
}

/* ------------------------------------------------------------------------------------------------------------- pages */

/* false: the key is not a lock's. */
static bool scan_read_key(const struct scanning *scanning, const redisReply *reply, struct key *key)
{
    const redlock_options *options = &scanning->client->core.options;
    size_t prefix = strlen(options->prefix), size = (size_t)reply->len;
    char resource[REDLOCK_RESOURCE_MAX + 1];
    if (size <= prefix || memcmp(reply->str, options->prefix, prefix) != 0)
        return false;
    if (size == strlen(options->marker_key) && memcmp(reply->str, options->marker_key, size) == 0)
        return false;
    size_t named = size;
    key->slot = rl_slot_of(reply->str, &named);
    if (key->slot < 0 && rl_key_reserved(reply->str, size))
        return false;
    key->resource_size = named - prefix;
    if (key->resource_size == 0 || key->resource_size > REDLOCK_RESOURCE_MAX || key->slot > RL_SLOT_LAST)
        return false;
    memcpy(resource, reply->str + prefix, key->resource_size);
    resource[key->resource_size] = '\0';
    key->bytes = (struct rl_text){reply->str, size};
    return fnmatch(scanning->scan->pattern, resource, 0) == 0;
}

/* Keeps the keys of SCAN's reply that can be locks. false: no memory. */
static bool scan_take_keys(struct scanning *scanning, const redisReply *keys)
{
    struct rl_core *core = &scanning->client->core;
    size_t room = 0;
    for (size_t i = 0; i < keys->elements; i++)
        room += keys->element[i]->type == REDIS_REPLY_STRING ? (size_t)keys->element[i]->len : 0;
    rl_free(&core->allocator, scanning->key);
    scanning->count = scanning->read = 0;
    scanning->key = rl_core_allocate(core, keys->elements * sizeof *scanning->key + room + 1);
    if (!scanning->key)
        return false;
    char *at = (char *)&scanning->key[keys->elements];
    for (size_t i = 0; i < keys->elements; i++) {
        struct key *key = &scanning->key[scanning->count];
        if (keys->element[i]->type != REDIS_REPLY_STRING || !scan_read_key(scanning, keys->element[i], key))
            continue;
        key->bytes.bytes = memcpy(at, key->bytes.bytes, key->bytes.size);
        at += key->bytes.size;
        scanning->count++;
    }
    return true;
}

static bool is_cursor(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->len < RL_DECIMAL_SIZE &&
           strspn(reply->str, "0123456789") == (size_t)reply->len;
}

/* ------------------------------------------------------------------------------------------------------------- locks */

/* Without a prefix the database may be full of another program's values: only tokens of this library are locks then. */
static bool is_holder(const struct scanning *scanning, const redlock_found *found)
{
    const char *token = found->holder.token;
    size_t digits = strspn(token, "0123456789abcdef");
    bool is_ours = digits == RL_RANDOM_TOKEN_SIZE - 1 && (token[digits] == '\0' || token[digits] == '/');
    return is_ours || (scanning->client->core.options.prefix[0] && found->remaining_ms != REDLOCK_STATE_NO_EXPIRY);
}

static void scan_report(const struct scanning *scanning, redlock_found *found, const redisReply *token, long long left)
{
    rl_holder_show(token->str, (size_t)token->len, &found->holder);
    found->remaining_ms = left < 0 ? REDLOCK_STATE_NO_EXPIRY : left + 1;
    if (is_holder(scanning, found))
        scanning->scan->found(found, scanning->scan->found_arg);
}

/* {holder, left, waiters, reader, end, ...} */
static void scan_take_lock(const struct scanning *scanning, const struct key *key, const redisReply *reply)
{
    size_t prefix = strlen(scanning->client->core.options.prefix);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || reply->element[1]->type != REDIS_REPLY_INTEGER ||
        reply->element[2]->type != REDIS_REPLY_INTEGER)
        return;
    long long waiters = reply->element[2]->integer;
    redlock_found found = {.resource = {key->bytes.bytes + prefix, key->resource_size},
                           .kind = key->slot < 0 ? REDLOCK_KIND_LOCK : REDLOCK_KIND_PERMIT,
                           .permit = key->slot < 0 ? 0 : key->slot,
                           .waiters = waiters > INT32_MAX ? INT32_MAX : (int32_t)waiters};
    if (reply->element[0]->type == REDIS_REPLY_STRING) {
        scan_report(scanning, &found, reply->element[0], reply->element[1]->integer);
        return;
    }
    found.kind = REDLOCK_KIND_READER;
    for (size_t i = 3; i + 1 < reply->elements && scanning->scan; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_INTEGER &&
            reply->element[i + 1]->integer > 0)
            scan_report(scanning, &found, reply->element[i], reply->element[i + 1]->integer);
}

static void scan_refuse(struct scan *scan, const redisReply *reply, const char *command)
{
    char error[RL_NODE_TEXT_SIZE], text[RL_NODE_TEXT_SIZE];
    rl_reply_text(reply, error, sizeof error);
    if (rl_reply_error(reply) == RL_ERROR_NOT_PERMITTED && strcmp(command, "SCAN") == 0)
        snprintf(text, sizeof text, "the user lacks +scan");
    else
        snprintf(text, sizeof text, "%s: %.*s", command, RL_NODE_TEXT_SIZE - 12,
                 error[0] ? error : "a malformed reply");
    bool permanent = rl_reply_error_is_permanent(rl_reply_error(reply));
    scan_end(scan, permanent ? REDLOCK_MISCONFIGURED : REDLOCK_NO_QUORUM, QUORUM_REFUSED, text);
}

static void scan_take(struct scanning *scanning, const redisReply *reply)
{
    struct scan *scan = scanning->scan;
    if (scanning->batch) {
        bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == scanning->batch;
        if (!fits) {
            scan_refuse(scan, reply, "EVALSHA");
            return;
        }
        for (unsigned i = 0; i < scanning->batch && scanning->scan; i++)
            scan_take_lock(scanning, &scanning->key[scanning->read + i], reply->element[i]);
        scanning->read += scanning->batch;
        scanning->batch = 0;
    } else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_cursor(reply->element[0]) ||
               reply->element[1]->type != REDIS_REPLY_ARRAY) {
        scan_refuse(scan, reply, "SCAN");
        return;
    } else {
        snprintf(scanning->cursor, sizeof scanning->cursor, "%s", reply->element[0]->str);
        if (!scan_take_keys(scanning, reply->element[1])) {
            rl_operation_complete(&scan->base, REDLOCK_NO_MEMORY);
            return;
        }
    }
    if (scanning->scan)
        scan_go_on(scanning);
}

/* ---------------------------------------------------------------------------------------------- the fan-out's functions */

static void scan_answered(struct rl_fanout *fanout, struct rl_request *request, const struct rl_answer *answer)
{
    struct scanning *scanning = (struct scanning *)fanout;
    (void)request;
    if (!scanning->scan || scanning->scan->base.completed || answer->kind == RL_ANSWER_OVERDUE)
        return;
    if (answer->kind == RL_ANSWER_REPLY)
        scan_take(scanning, answer->reply);
    else
        scan_end(scanning->scan, REDLOCK_NO_QUORUM, QUORUM_UNREACHABLE, answer->node->attempts.error);
}

static bool scan_resend(struct rl_fanout *fanout, struct rl_request *request, struct rl_node *node, bool use_eval)
{
    struct scanning *scanning = (struct scanning *)fanout;
    (void)request;
    (void)node;
    return scanning->scan && !scanning->scan->base.completed && scan_request_batch(scanning, use_eval);
}

static void scan_destroy(struct rl_fanout *fanout)
{
    struct scanning *scanning = (struct scanning *)fanout;
    rl_free(&scanning->client->core.allocator, scanning->key);
    rl_core_free(&scanning->client->core, scanning);
}

static const struct rl_fanout_type scanning_type = {
    .answered = scan_answered, .resend = scan_resend, .destroy = scan_destroy};

/* --------------------------------------------------------------------------------------------------------- operation */

static struct scanning *scan_create(struct scan *scan)
{
    redlock_client *client = scan->base.client;
    struct scanning *scanning =
        rl_allocate(&client->core.allocator, sizeof *scanning + client->nodes->count * sizeof *scanning->request);
    if (!scanning)
        return NULL;
    rl_fanout_init(&scanning->fanout, &scanning_type, client->nodes, scanning->request, false);
    scanning->client = client;
    scanning->scan = scan;
    strcpy(scanning->cursor, "0");
    return scanning;
}

/* A node that is being connected is waited for. */
static void scan_begin(struct rl_operation *operation)
{
    struct scan *scan = (struct scan *)operation;
    struct rl_node *node = &operation->client->nodes->node[scan->node];
    if (operation->completed || operation->attempts)
        return;
    struct rl_usable usable = rl_node_usable(node, rl_now(), false);
    if (rl_node_is_ready(node)) {
        operation->attempts = 1;
        scan_request_page(scan->scanning);
    } else if (usable.is == RL_OUT) {
        scan_end(scan, REDLOCK_NO_QUORUM, usable.vote, usable.reason);
    }
}

static void scan_start(struct rl_operation *operation, const struct rl_arguments *arguments)
{
    struct scan *scan = (struct scan *)operation;
    redlock_client *client = operation->client;
    redlock_result why = {.status = REDLOCK_OK};
    const char *pattern = arguments->resource ? arguments->resource : "*";
    quorum_tally_init(&scan->tally, client->nodes->count);
    if (arguments->node >= client->nodes->count)
        rl_result_fail(&why, REDLOCK_INVALID, "node is %u; it must be from 0 to %u", arguments->node,
                       client->nodes->count - 1);
    else if (!arguments->found)
        rl_result_fail(&why, REDLOCK_INVALID, "found is NULL; pass a function for the locks");
    else if (!*pattern || strnlen(pattern, REDLOCK_RESOURCE_MAX + 1) > REDLOCK_RESOURCE_MAX)
        rl_result_fail(&why, REDLOCK_INVALID, "the pattern must be 1 to %d bytes, or NULL for all locks",
                       REDLOCK_RESOURCE_MAX);
    if (why.status) {
        rl_operation_refuse(operation, &why);
        return;
    }
    scan->node = arguments->node;
    scan->found = arguments->found;
    scan->found_arg = arguments->found_arg;
    snprintf(scan->pattern, sizeof scan->pattern, "%s", pattern);
    scan->scanning = scan_create(scan);
    if (!scan->scanning)
        rl_operation_complete(operation, REDLOCK_NO_MEMORY);
    else
        scan_begin(operation);
}

const struct rl_operation_type rl_scan = {.size = sizeof(struct scan),
                                          .start = scan_start,
                                          .stop = scan_leave,
                                          .fill = scan_fill,
                                          .changed = scan_begin,
                                          .drop = scan_leave};
