#define _GNU_SOURCE
#include "fake_node.h"

#include "fixture.h"
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

struct setting {
    const char *section; /* of INFO; NULL in CONFIG */
    char *name;
    char *value;
};

struct settings {
    struct setting *items;
    size_t count;
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
    struct settings info;
    struct settings config;
    int64_t clock_offset_us;
    fake_script_handler *handler;
    void *handler_arg;
};

/* --- Settings --- */

static void set(struct settings *settings, const char *section, const char *name, const char *value)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strcasecmp(settings->items[i].name, name) == 0) {
            free(settings->items[i].value);
            settings->items[i].value = fixture_text("%s", value);
            return;
        }
    }
    settings->items = fixture_reallocate(settings->items, (settings->count + 1) * sizeof(settings->items[0]));
    settings->items[settings->count++] =
        (struct setting){.section = section, .name = fixture_text("%s", name), .value = fixture_text("%s", value)};
}

static void free_settings(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->items[i].name);
        free(settings->items[i].value);
    }
    free(settings->items);
}

void fake_node_set_info(struct fake_node *node, const char *field, const char *value)
{
    set(&node->info, strstr(field, "server") || strstr(field, "_version") ? "Server" : "Others", field, value);
}

void fake_node_new_run_id(struct fake_node *node)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[20];
    char run_id[41] = {0};

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        fixture_fail("getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(random); i++) {
        run_id[2 * i] = digits[random[i] >> 4];
        run_id[2 * i + 1] = digits[random[i] & 15];
    }
    set(&node->info, "Server", "run_id", run_id);
}

struct fake_node *fake_node_new(void)
{
    struct fake_node *node = fixture_allocate(sizeof(*node));

    set(&node->info, "Server", "redis_version", "7.0.15");
    set(&node->info, "Server", "redis_mode", "standalone");
    fake_node_new_run_id(node);
    set(&node->info, "Server", "uptime_in_seconds", "86400");
    set(&node->info, "Memory", "maxmemory", "0");
    set(&node->info, "Memory", "maxmemory_policy", "noeviction");
    set(&node->info, "Persistence", "loading", "0");
    set(&node->info, "Persistence", "aof_enabled", "0");
    set(&node->info, "Replication", "role", "master");
    set(&node->info, "Replication", "connected_slaves", "0");
    set(&node->info, "Replication", "master_replid", FAKE_HISTORY);
    set(&node->config, NULL, "maxmemory-policy", "noeviction");
    set(&node->config, NULL, "maxmemory", "0");
    set(&node->config, NULL, "appendonly", "no");
    set(&node->config, NULL, "appendfsync", "everysec");
    set(&node->config, NULL, "save", "");
    return node;
}

void fake_node_free(struct fake_node *node)
{
    fake_node_forget_keys(node);
    fake_node_forget_scripts(node);
    free_settings(&node->info);
    free_settings(&node->config);
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
    node->keys = fixture_reallocate(node->keys, (node->key_count + 1) * sizeof(node->keys[0]));
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

    if (key == NULL)
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

struct set_options {
    bool if_missing;
    bool if_present;
    long long ttl_ms;
};

static const char *read_set_options(const struct call *call, struct set_options *options)
{
    *options = (struct set_options){.ttl_ms = -1};
    for (size_t i = 3; i < call->argc; i++) {
        if (argument_is(call, i, "NX")) {
            options->if_missing = true;
        } else if (argument_is(call, i, "XX")) {
            options->if_present = true;
        } else if (argument_is(call, i, "PX") || argument_is(call, i, "EX")) {
            long long unit = argument_is(call, i, "EX") ? 1000 : 1;
            if (!number_argument(call, ++i, &options->ttl_ms))
                return "ERR value is not an integer or out of range";
            if (options->ttl_ms <= 0 || options->ttl_ms > INT64_MAX / 1000000 / unit)
                return "ERR invalid expire time in 'set' command";
            options->ttl_ms *= unit;
        } else {
            return "ERR syntax error";
        }
    }
    return options->if_missing && options->if_present ? "ERR syntax error" : NULL;
}

static void command_set(const struct call *call)
{
    struct set_options options;
    const char *error = read_set_options(call, &options);

    if (error != NULL) {
        resp_write_error(call->reply, error);
        return;
    }
    bool present = fake_node_find(call->node, call->database, &call->argv[1]) != NULL;
    if ((options.if_missing && present) || (options.if_present && !present)) {
        resp_write_nil(call->reply);
        return;
    }
    fake_node_set(call->node, call->database, &call->argv[1], call->argv[2].data, call->argv[2].length, options.ttl_ms);
    resp_write_status(call->reply, "OK");
}

static void command_get(const struct call *call)
{
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->argv[1]);

    if (key == NULL)
        resp_write_nil(call->reply);
    else
        resp_write_bulk(call->reply, key->value, key->value_length);
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
    long long length = key == NULL ? 0 : (long long)key->value_length;
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

static void command_exists(const struct call *call)
{
    long long found = 0;

    for (size_t i = 1; i < call->argc; i++)
        found += fake_node_find(call->node, call->database, &call->argv[i]) != NULL;
    resp_write_integer(call->reply, found);
}

static void command_pttl(const struct call *call)
{
    resp_write_integer(call->reply, fake_node_pttl(call->node, call->database, &call->argv[1]));
}

static void command_pexpire(const struct call *call)
{
    size_t index = index_of(call->node, call->database, &call->argv[1]);
    long long ttl_ms;

    if (!number_argument(call, 2, &ttl_ms)) {
        resp_write_error(call->reply, "ERR value is not an integer or out of range");
        return;
    }
    if (index != SIZE_MAX)
        call->node->keys[index].expires_us = fake_node_clock_us(call->node) + ttl_ms * 1000;
    resp_write_integer(call->reply, index != SIZE_MAX);
}

static void command_keys(const struct call *call)
{
    struct bytes names = {0};
    size_t count = 0;

    expire_keys(call->node);
    for (size_t i = 0; i < call->node->key_count; i++) {
        const struct fake_key *key = &call->node->keys[i];
        if (key->database == call->database && fnmatch(call->argv[1].data, key->name, 0) == 0) {
            resp_write_bulk(&names, key->name, key->name_length);
            count++;
        }
    }
    resp_write_array(call->reply, count);
    bytes_append(call->reply, names.data, names.length);
    bytes_free(&names);
}

static void command_dbsize(const struct call *call)
{
    long long count = 0;

    expire_keys(call->node);
    for (size_t i = 0; i < call->node->key_count; i++)
        count += call->node->keys[i].database == call->database;
    resp_write_integer(call->reply, count);
}

static void command_flushall(const struct call *call)
{
    fake_node_forget_keys(call->node);
    resp_write_status(call->reply, "OK");
}

static void command_time(const struct call *call)
{
    int64_t now = fake_node_clock_us(call->node);
    char text[32];

    resp_write_array(call->reply, 2);
    snprintf(text, sizeof(text), "%lld", (long long)(now / 1000000));
    resp_write_text(call->reply, text);
    snprintf(text, sizeof(text), "%lld", (long long)(now % 1000000));
    resp_write_text(call->reply, text);
}

static bool section_wanted(const struct call *call, const char *section)
{
    if (call->argc == 1)
        return true;
    for (size_t i = 1; i < call->argc; i++)
        if (argument_is(call, i, section) || argument_is(call, i, "all") || argument_is(call, i, "default") ||
            argument_is(call, i, "everything"))
            return true;
    return false;
}

static void command_info(const struct call *call)
{
    struct bytes text = {0};
    const char *section = "";

    for (size_t i = 0; i < call->node->info.count; i++) {
        const struct setting *field = &call->node->info.items[i];
        if (!section_wanted(call, field->section))
            continue;
        if (strcmp(section, field->section) != 0)
            bytes_print(&text, "%s# %s\r\n", text.length > 0 ? "\r\n" : "", field->section);
        section = field->section;
        bytes_print(&text, "%s:%s\r\n", field->name, field->value);
    }
    resp_write_bulk(call->reply, text.data, text.length);
    bytes_free(&text);
}

static void command_config(const struct call *call)
{
    struct bytes found = {0};
    size_t count = 0;

    if (!argument_is(call, 1, "GET") || call->argc < 3) {
        resp_write_error(call->reply, "ERR unknown subcommand: the fake server knows CONFIG GET only");
        return;
    }
    for (size_t i = 0; i < call->node->config.count; i++) {
        const struct setting *setting = &call->node->config.items[i];
        if (fnmatch(call->argv[2].data, setting->name, FNM_CASEFOLD) != 0)
            continue;
        resp_write_text(&found, setting->name);
        resp_write_text(&found, setting->value);
        count += 2;
    }
    resp_write_array(call->reply, count);
    bytes_append(call->reply, found.data, found.length);
    bytes_free(&found);
}

static void command_role(const struct call *call)
{
    const char *role = "master";

    for (size_t i = 0; i < call->node->info.count; i++)
        if (strcmp(call->node->info.items[i].name, "role") == 0)
            role = call->node->info.items[i].value;
    if (strcmp(role, "master") == 0) {
        resp_write_array(call->reply, 3);
        resp_write_text(call->reply, role);
        resp_write_integer(call->reply, 0);
        resp_write_array(call->reply, 0);
        return;
    }
    resp_write_array(call->reply, 5);
    resp_write_text(call->reply, role);
    resp_write_text(call->reply, "127.0.0.1");
    resp_write_integer(call->reply, 1);
    resp_write_text(call->reply, "connected");
    resp_write_integer(call->reply, 0);
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
    if (known != NULL)
        return known;
    script.text = copy_bytes(text->data, text->length);
    node->scripts = fixture_reallocate(node->scripts, (node->script_count + 1) * sizeof(node->scripts[0]));
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
    } else if (argument_is(call, 1, "EXISTS")) {
        resp_write_array(call->reply, call->argc - 2);
        for (size_t i = 2; i < call->argc; i++)
            resp_write_integer(call->reply, find_script(call->node, call->argv[i].data) != NULL);
    } else if (argument_is(call, 1, "FLUSH")) {
        fake_node_forget_scripts(call->node);
        resp_write_status(call->reply, "OK");
    } else {
        resp_write_error(call->reply, "ERR unknown subcommand or wrong number of arguments for 'script' command");
    }
}

/* As in Redis, the number of keys is checked before the script is looked up. */
static bool read_key_count(const struct call *call, size_t *keys)
{
    size_t before = call->reply->length;
    long long count;

    if (!number_argument(call, 2, &count))
        resp_write_error(call->reply, "ERR value is not an integer or out of range");
    else if (count < 0)
        resp_write_error(call->reply, "ERR Number of keys can't be negative");
    else if ((size_t)count > call->argc - 3)
        resp_write_error(call->reply, "ERR Number of keys can't be greater than number of args");
    else
        *keys = (size_t)count;
    return call->reply->length == before;
}

static void run_script(const struct call *call, const struct script *script, size_t keys)
{
    size_t before = call->reply->length;

    if (call->node->handler == NULL) {
        resp_write_error(call->reply, "ERR this fake server was given no script handler");
        return;
    }
    call->node->handler(&(struct fake_script_call){.node = call->node,
                                                   .database = call->database,
                                                   .script = script->text,
                                                   .key_count = keys,
                                                   .keys = call->argv + 3,
                                                   .argument_count = call->argc - 3 - keys,
                                                   .arguments = call->argv + 3 + keys,
                                                   .reply = call->reply,
                                                   .arg = call->node->handler_arg});
    if (call->reply->length == before)
        fixture_fail("the script handler wrote no reply");
}

static void command_eval(const struct call *call)
{
    size_t keys = 0;

    if (read_key_count(call, &keys))
        run_script(call, keep_script(call->node, &call->argv[1]), keys);
}

static void command_evalsha(const struct call *call)
{
    const struct script *script = find_script(call->node, call->argv[1].data);
    size_t keys = 0;

    if (!read_key_count(call, &keys))
        return;
    if (script == NULL)
        resp_write_error(call->reply, "NOSCRIPT No matching script. Please use EVAL.");
    else
        run_script(call, script, keys);
}

void fake_script_compare_and_delete(const struct fake_script_call *call)
{
    assert(call->key_count >= 1 && call->argument_count >= 1);
    const struct fake_key *key = fake_node_find(call->node, call->database, &call->keys[0]);
    bool ours = key != NULL && key->value_length == call->arguments[0].length &&
                memcmp(key->value, call->arguments[0].data, key->value_length) == 0;

    resp_write_integer(call->reply, ours && fake_node_delete(call->node, call->database, &call->keys[0]));
}

/* --- Dispatch --- */

struct command {
    const char *name;
    size_t least; /* arguments, including the name */
    size_t most;  /* 0: no limit */
    void (*run)(const struct call *call);
};

static const struct command commands[] = {
    {"SET", 3, 0, command_set},         {"GET", 2, 2, command_get},           {"GETRANGE", 4, 4, command_getrange},
    {"DEL", 2, 0, command_del},         {"UNLINK", 2, 0, command_del},        {"EXISTS", 2, 0, command_exists},
    {"PTTL", 2, 2, command_pttl},       {"PEXPIRE", 3, 3, command_pexpire},   {"KEYS", 2, 2, command_keys},
    {"DBSIZE", 1, 1, command_dbsize},   {"FLUSHALL", 1, 2, command_flushall}, {"FLUSHDB", 1, 2, command_flushall},
    {"TIME", 1, 1, command_time},       {"INFO", 1, 0, command_info},         {"CONFIG", 2, 0, command_config},
    {"ROLE", 1, 1, command_role},       {"SCRIPT", 2, 0, command_script},     {"EVAL", 3, 0, command_eval},
    {"EVALSHA", 3, 0, command_evalsha},
};

bool fake_node_execute(struct fake_node *node, unsigned database, const struct resp_command *command,
                       struct bytes *reply)
{
    struct call call = {
        .node = node, .database = database, .argc = command->argc, .argv = command->argv, .reply = reply};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const struct command *known = &commands[i];
        if (!argument_is(&call, 0, known->name))
            continue;
        if (call.argc < known->least || (known->most > 0 && call.argc > known->most))
            resp_write_wrong_arguments(reply, known->name);
        else
            known->run(&call);
        return true;
    }
    return false;
}
