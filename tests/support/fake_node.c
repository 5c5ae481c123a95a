#define _GNU_SOURCE
#include "fake_node.h"

#include "fixture.h"
#include "lock_scripts.h"
#include "sha1.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

struct field {
    const char *section; /* of INFO */
    char *name;
    char *value;
};

struct script {
    char digest[41];
    char *text;
};

struct fake_node {
    struct fake_key *keys;
    size_t key_count;
    struct script *scripts;
    size_t script_count;
    struct field *fields;
    size_t field_count;
    int64_t clock_offset_us;
    fake_script_handler *handler;
    void *handler_arg;
};

/* --- INFO --- */

static void set_field(struct fake_node *node, const char *section, const char *name, const char *value)
{
    for (size_t i = 0; i < node->field_count; i++) {
        if (strcasecmp(node->fields[i].name, name) == 0) {
            free(node->fields[i].value);
            node->fields[i].value = fixture_text("%s", value);
            return;
        }
    }
    node->fields = fixture_reallocate(node->fields, (node->field_count + 1) * sizeof *node->fields);
    node->fields[node->field_count++] =
        (struct field){.section = section, .name = fixture_text("%s", name), .value = fixture_text("%s", value)};
}

void fake_node_set_info(struct fake_node *node, const char *field, const char *value)
{
    set_field(node, strstr(field, "server") || strstr(field, "_version") ? "Server" : "Others", field, value);
}

void fake_node_new_run_id(struct fake_node *node)
{
    unsigned long long random[2];
    char run_id[41];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        fixture_fail("getrandom: %s", strerror(errno));
    snprintf(run_id, sizeof run_id, "01234567%016llx%016llx", random[0], random[1]);
    set_field(node, "Server", "run_id", run_id);
}

struct fake_node *fake_node_new(void)
{
    static const char *const fields[][3] = {
        {"Server", "redis_version", "7.0.15"},        {"Server", "redis_mode", "standalone"},
        {"Server", "uptime_in_seconds", "86400"},     {"Memory", "maxmemory", "0"},
        {"Memory", "maxmemory_policy", "noeviction"}, {"Persistence", "loading", "0"},
        {"Persistence", "aof_enabled", "0"},          {"Replication", "role", "master"},
        {"Replication", "connected_slaves", "0"},     {"Replication", "master_replid", FAKE_HISTORY}};
    struct fake_node *node = fixture_allocate(sizeof *node);
    node->handler = lock_scripts_run;
    fake_node_new_run_id(node);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        set_field(node, fields[i][0], fields[i][1], fields[i][2]);
    return node;
}

void fake_node_free(struct fake_node *node)
{
    fake_node_forget_keys(node);
    fake_node_forget_scripts(node);
    for (size_t i = 0; i < node->field_count; i++) {
        free(node->fields[i].name);
        free(node->fields[i].value);
    }
    free(node->fields);
    free(node);
}

/* --- Keys --- */

void fake_node_set_clock_offset_us(struct fake_node *node, int64_t offset_us)
{
    node->clock_offset_us = offset_us;
}

int64_t fake_node_clock_us(const struct fake_node *node)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + node->clock_offset_us;
}

static void remove_key(struct fake_node *node, size_t index)
{
    free(node->keys[index].name);
    free(node->keys[index].value);
    node->keys[index] = node->keys[--node->key_count];
}

static void expire_keys(struct fake_node *node)
{
    int64_t now = fake_node_clock_us(node);
    for (size_t i = node->key_count; i-- > 0;)
        if (node->keys[i].expires_us <= now)
            remove_key(node, i);
}

static size_t index_of(struct fake_node *node, unsigned database, const struct resp_argument *name)
{
    expire_keys(node);
    for (size_t i = 0; i < node->key_count; i++) {
        const struct fake_key *key = &node->keys[i];
        if (key->database == database && key->name_length == name->length &&
            memcmp(key->name, name->data, name->length) == 0)
            return i;
    }
    return SIZE_MAX;
}

const struct fake_key *fake_node_find(struct fake_node *node, unsigned database, const struct resp_argument *name)
{
    size_t index = index_of(node, database, name);
    return index == SIZE_MAX ? NULL : &node->keys[index];
}

static char *copy_bytes(const void *data, size_t length)
{
    char *copy = fixture_allocate(length + 1);
    if (length > 0)
        memcpy(copy, data, length);
    return copy;
}

void fake_node_set(struct fake_node *node, unsigned database, const struct resp_argument *name, const void *value,
                   size_t length, int64_t ttl_ms)
{
    struct fake_key key = {.name = copy_bytes(name->data, name->length),
                           .name_length = name->length,
                           .value = copy_bytes(value, length),
                           .value_length = length,
                           .expires_us = ttl_ms < 0 ? INT64_MAX : fake_node_clock_us(node) + ttl_ms * 1000,
                           .database = database};
    fake_node_delete(node, database, name);
    node->keys = fixture_reallocate(node->keys, (node->key_count + 1) * sizeof *node->keys);
    node->keys[node->key_count++] = key;
}

bool fake_node_delete(struct fake_node *node, unsigned database, const struct resp_argument *name)
{
    size_t index = index_of(node, database, name);
    if (index == SIZE_MAX)
        return false;
    remove_key(node, index);
    return true;
}

int64_t fake_node_pttl(struct fake_node *node, unsigned database, const struct resp_argument *name)
{
    const struct fake_key *key = fake_node_find(node, database, name);
    if (!key)
        return -2;
    if (key->expires_us == INT64_MAX)
        return -1;
    return (key->expires_us - fake_node_clock_us(node) + 999) / 1000;
}

void fake_node_forget_keys(struct fake_node *node)
{
    while (node->key_count > 0)
        remove_key(node, 0);
    free(node->keys);
    node->keys = NULL;
}

static bool matches_any(const char *name, const char *const *patterns)
{
    for (; patterns != NULL && *patterns != NULL; patterns++)
        if (fnmatch(*patterns, name, 0) == 0)
            return true;
    return false;
}

size_t fake_node_keys_left(struct fake_node *node, const char *const *except)
{
    size_t left = 0;
    expire_keys(node);
    for (size_t i = 0; i < node->key_count; i++)
        left += !matches_any(node->keys[i].name, except);
    return left;
}

/* --- Commands --- */

struct call {
    struct fake_node *node;
    unsigned database;
    size_t argc;
    const struct resp_argument *argv;
    struct bytes *reply;
};

static bool argument_is(const struct call *call, size_t index, const char *word)
{
    const struct resp_argument *argument = &call->argv[index];
    return argument->length == strlen(word) && strncasecmp(argument->data, word, argument->length) == 0;
}

static bool number_argument(const struct call *call, size_t index, long long *number)
{
    char *end;
    if (index >= call->argc)
        return false;
    errno = 0;
    *number = strtoll(call->argv[index].data, &end, 10);
    return errno == 0 && call->argv[index].length > 0 && end == call->argv[index].data + call->argv[index].length;
}

static void command_set(const struct call *call)
{
    bool only_new = false;
    long long ttl_ms = -1;
    for (size_t i = 3; i < call->argc; i++) {
        if (argument_is(call, i, "NX")) {
            only_new = true;
        } else if (!argument_is(call, i, "PX") || ++i == call->argc) {
            resp_write_error(call->reply, "ERR syntax error");
            return;
        } else if (!number_argument(call, i, &ttl_ms) || ttl_ms <= 0 || ttl_ms > INT64_MAX / 1000000) {
            resp_write_error(call->reply, "ERR value is not an integer or out of range");
            return;
        }
    }
    if (only_new && fake_node_find(call->node, call->database, &call->argv[1])) {
        resp_write_nil(call->reply);
        return;
    }
    fake_node_set(call->node, call->database, &call->argv[1], call->argv[2].data, call->argv[2].length, ttl_ms);
    resp_write_status(call->reply, "OK");
}

static void command_get(const struct call *call)
{
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->argv[1]);
    if (key)
        resp_write_bulk(call->reply, key->value, key->value_length);
    else
        resp_write_nil(call->reply);
}

/* Supports offsets from the beginning only. */
static void command_getrange(const struct call *call)
{
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->argv[1]);
    long long first, last;
    if (!number_argument(call, 2, &first) || !number_argument(call, 3, &last)) {
        resp_write_error(call->reply, "ERR value is not an integer or out of range");
        return;
    }
    long long length = key ? (long long)key->value_length : 0;
    long long end = last < length ? last + 1 : length;
    resp_write_bulk(call->reply, first < end ? key->value + first : "", first < end ? (size_t)(end - first) : 0);
}

static void command_del(const struct call *call)
{
    long long deleted = 0;
    for (size_t i = 1; i < call->argc; i++)
        deleted += fake_node_delete(call->node, call->database, &call->argv[i]);
    resp_write_integer(call->reply, deleted);
}

static void command_time(const struct call *call)
{
    int64_t now = fake_node_clock_us(call->node);
    char seconds[24], microseconds[24];
    snprintf(seconds, sizeof seconds, "%lld", (long long)(now / 1000000));
    snprintf(microseconds, sizeof microseconds, "%lld", (long long)(now % 1000000));
    resp_write_array(call->reply, 2);
    resp_write_text(call->reply, seconds);
    resp_write_text(call->reply, microseconds);
}

static bool section_wanted(const struct call *call, const char *section)
{
    for (size_t i = 1; i < call->argc; i++)
        if (argument_is(call, i, section) || argument_is(call, i, "all"))
            return true;
    return call->argc == 1;
}

static void command_info(const struct call *call)
{
    struct bytes text = {0};
    for (size_t i = 0; i < call->node->field_count; i++) {
        const struct field *field = &call->node->fields[i];
        if (section_wanted(call, field->section))
            bytes_print(&text, "%s:%s\r\n", field->name, field->value);
    }
    resp_write_bulk(call->reply, text.data, text.length);
    bytes_free(&text);
}

/* --- Scripts --- */

static const struct script *find_script(const struct fake_node *node, const char *digest)
{
    for (size_t i = 0; i < node->script_count; i++)
        if (strcasecmp(node->scripts[i].digest, digest) == 0)
            return &node->scripts[i];
    return NULL;
}

static const struct script *keep_script(struct fake_node *node, const struct resp_argument *text)
{
    struct script script;
    sha1_hex(text->data, text->length, script.digest);
    const struct script *known = find_script(node, script.digest);
    if (known)
        return known;
    script.text = copy_bytes(text->data, text->length);
    node->scripts = fixture_reallocate(node->scripts, (node->script_count + 1) * sizeof *node->scripts);
    node->scripts[node->script_count] = script;
    return &node->scripts[node->script_count++];
}

void fake_node_forget_scripts(struct fake_node *node)
{
    while (node->script_count > 0)
        free(node->scripts[--node->script_count].text);
    free(node->scripts);
    node->scripts = NULL;
}

void fake_node_set_script_handler(struct fake_node *node, fake_script_handler *handler, void *arg)
{
    node->handler = handler;
    node->handler_arg = arg;
}

static void command_script(const struct call *call)
{
    if (argument_is(call, 1, "LOAD") && call->argc == 3) {
        resp_write_text(call->reply, keep_script(call->node, &call->argv[2])->digest);
    } else if (argument_is(call, 1, "FLUSH")) {
        fake_node_forget_scripts(call->node);
        resp_write_status(call->reply, "OK");
    } else {
        resp_write_error(call->reply, "ERR unknown subcommand or wrong number of arguments for 'script' command");
    }
}

/* As in Redis, the number of keys is checked before the script is looked up. */
static void command_eval(const struct call *call)
{
    size_t before = call->reply->length;
    long long keys;
    const struct script *script = argument_is(call, 0, "EVAL") ? keep_script(call->node, &call->argv[1])
                                                               : find_script(call->node, call->argv[1].data);
    if (!number_argument(call, 2, &keys) || keys < 0 || (size_t)keys > call->argc - 3) {
        resp_write_error(call->reply, "ERR Number of keys is no number, or is greater than number of args");
        return;
    }
    if (!script) {
        resp_write_error(call->reply, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    call->node->handler(&(struct fake_script_call){.node = call->node,
                                                   .database = call->database,
                                                   .script = script->text,
                                                   .key_count = (size_t)keys,
                                                   .keys = call->argv + 3,
                                                   .argument_count = call->argc - 3 - (size_t)keys,
                                                   .arguments = call->argv + 3 + keys,
                                                   .reply = call->reply,
                                                   .arg = call->node->handler_arg});
    if (call->reply->length == before)
        fixture_fail("the script handler wrote no reply");
}

/* --- Dispatch --- */

static const struct command {
    const char *name;
    size_t least; /* arguments, including the name */
    size_t most;
    void (*run)(const struct call *call);
} commands[] = {
    {"SET", 3, SIZE_MAX, command_set},
    {"GET", 2, 2, command_get},
    {"GETRANGE", 4, 4, command_getrange},
    {"DEL", 2, SIZE_MAX, command_del},
    {"TIME", 1, 1, command_time},
    {"INFO", 1, SIZE_MAX, command_info},
    {"SCRIPT", 2, SIZE_MAX, command_script},
    {"EVAL", 3, SIZE_MAX, command_eval},
    {"EVALSHA", 3, SIZE_MAX, command_eval},
};

bool fake_node_execute(struct fake_node *node, unsigned database, const struct resp_command *command,
                       struct bytes *reply)
{
    struct call call = {
        .node = node, .database = database, .argc = command->argc, .argv = command->argv, .reply = reply};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command *known = &commands[i];
        if (!argument_is(&call, 0, known->name))
            continue;
        if (call.argc < known->least || call.argc > known->most)
            resp_write_error(reply, "ERR wrong number of arguments");
        else
            known->run(&call);
        return true;
    }
    return false;
}
