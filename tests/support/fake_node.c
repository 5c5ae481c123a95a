/* A healthy Redis node for the fake server: the model of node_model.h, with logins and a clock that may be wrong. It
 * executes the library's scripts in a Lua interpreter. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

struct fake_field {
    const char *section; /* of INFO */
    char *name;
    char *value;
};

static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER; /* all models share one Lua interpreter */

static struct fake_node *node_of(struct sim_server *model)
{
    return (struct fake_node *)(void *)model;
}

int64_t fake_node_clock_us(const struct fake_node *node)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + node->clock_offset_us;
}

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
        (struct fake_field){.section = section, .name = fixture_text("%s", name), .value = fixture_text("%s", value)};
}

void fake_node_set_info(struct fake_node *node, const char *field, const char *value)
{
    bool is_of_server = strstr(field, "server") || strstr(field, "_version") || strstr(field, "_mode");
    set_field(node, is_of_server ? "Server" : "Others", field, value);
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

static bool is_wanted(size_t count, const struct resp_argument *words, const char *section)
{
    for (size_t i = 1; i < count; i++)
        if (sim_text_is(words[i], section) || sim_text_is(words[i], "all"))
            return true;
    return count == 1;
}

static void info(struct sim_server *model, size_t count, const struct resp_argument *words, struct bytes *reply)
{
    const struct fake_node *node = node_of(model);
    struct bytes text = {0};
    for (size_t i = 0; i < node->field_count; i++)
        if (is_wanted(count, words, node->fields[i].section))
            bytes_print(&text, "%s:%s\r\n", node->fields[i].name, node->fields[i].value);
    resp_write_bulk(reply, text.data, text.length);
    bytes_free(&text);
}

/* --- Other connections --- */

static long long publish(struct sim_server *model, struct resp_argument channel, struct resp_argument text)
{
    return (long long)fake_connection_publish(node_of(model)->server, channel, text);
}

static bool kill_connection(struct sim_server *model, int64_t id)
{
    struct fake_connection *victim = node_of(model)->server->connections;
    while (victim && (victim->session.id != id || victim->state == FAKE_STATE_CLOSED))
        victim = victim->next;
    if (victim && !victim->executing)
        fake_connection_end(victim, FAKE_CLOSE);
    return victim;
}

/* --- Life --- */

struct fake_node *fake_node_new(struct fake_server *server)
{
    static const struct sim_server_hooks hooks = {publish, kill_connection, info};
    static const char *const fields[][3] = {
        {"Server", "redis_version", "7.0.15"},
        {"Server", "redis_mode", "standalone"},
        {"Server", "uptime_in_seconds", "86400"},
        {"Memory", "maxmemory", "0"},
        {"Memory", "maxmemory_policy", "noeviction"},
        {"Persistence", "loading", "0"},
        {"Persistence", "aof_enabled", "0"},
        {"Cluster", "cluster_enabled", "0"},
        {"Server", "redis_mode", "standalone"},
        {"Replication", "role", "master"},
        {"Replication", "connected_slaves", "0"},
        {"Replication", "master_replid", FAKE_HISTORY},
        {"Stats", "evicted_keys", "0"},
        {"Replication", "master_replid2", "0000000000000000000000000000000000000000"}};
    struct fake_node *node = fixture_allocate(sizeof *node);
    node->server = server;
    node->model.hooks = &hooks;
    node->model.scripts = UINT32_MAX; /* of clients before */
    fake_node_new_run_id(node);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        set_field(node, fields[i][0], fields[i][1], fields[i][2]);
    return node;
}

void fake_node_free(struct fake_node *node)
{
    sim_keyspace_clear(&node->model.keys);
    for (size_t i = 0; i < node->field_count; i++) {
        free(node->fields[i].name);
        free(node->fields[i].value);
    }
    free(node->fields);
    free(node);
}

/* --- Commands --- */

struct call {
    struct fake_node *node;
    struct fake_connection *connection;
    const struct resp_command *command;
    struct bytes *reply;
};

static void auth(const struct call *call)
{
    const struct fake_server *server = call->node->server;
    const struct resp_command *command = call->command;
    const struct resp_argument *password = &command->argv[command->argc - 1];
    const char *user = server->user ? server->user : "default";
    if (!server->password && command->argc == 2) {
        resp_write_error(call->reply,
                         "ERR AUTH <password> called without any password configured for the default user. "
                         "Are you sure your configuration is correct?");
        return;
    }
    bool known = command->argc == 2 ? strcmp(user, "default") == 0 : resp_argument_is(&command->argv[1], user);
    if (!known || (server->password && !resp_argument_is(password, server->password))) {
        resp_write_error(call->reply, "WRONGPASS invalid username-password pair or user is disabled.");
        return;
    }
    call->connection->authenticated = true;
    resp_write_status(call->reply, "OK");
}

/* The node has the keys of one database only. */
static void select_database(const struct call *call)
{
    long long database;
    if (resp_argument_integer(call->command->argv[1], &database) && database >= 0 && database < 16)
        resp_write_status(call->reply, "OK");
    else
        resp_write_error(call->reply, "ERR DB index is out of range");
}

static void ping(const struct call *call)
{
    if (call->command->argc > 1)
        resp_write_bulk(call->reply, call->command->argv[1].data, call->command->argv[1].length);
    else
        resp_write_status(call->reply, "PONG");
}

/* Commands that the model does not execute, because the simulator's nodes have no logins. */
static const struct own_command {
    const char *name;
    size_t least; /* arguments, including the name */
    size_t most;
    void (*run)(const struct call *call);
} own_commands[] = {{"AUTH", 2, 3, auth}, {"SELECT", 2, 2, select_database}, {"PING", 1, 2, ping}};

static const struct own_command *find_own(const struct resp_command *command)
{
    for (size_t i = 0; i < sizeof own_commands / sizeof *own_commands; i++)
        if (resp_command_is(command, own_commands[i].name))
            return &own_commands[i];
    return NULL;
}

void fake_node_execute(struct fake_node *node, struct fake_connection *connection, const struct resp_command *command,
                       struct bytes *reply)
{
    const struct own_command *own = find_own(command);
    if (!connection->authenticated && !resp_command_is(command, "AUTH")) {
        resp_write_error(reply, "NOAUTH Authentication required.");
    } else if (connection->session.channel[0]) {
        resp_write_error(reply, "ERR Can't execute it: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                                "are allowed in this context");
    } else if (own && (command->argc < own->least || command->argc > own->most)) {
        resp_write_error(reply, "ERR wrong number of arguments");
    } else if (own) {
        own->run(&(struct call){node, connection, command, reply});
    } else {
        pthread_mutex_lock(&model_lock);
        connection->executing = true;
        sim_server_execute(&node->model, &connection->session, command->argc, command->argv, fake_node_clock_us(node),
                           reply);
        connection->executing = false;
        if (sim_script_errors)
            fixture_fail("%s", sim_script_error);
        pthread_mutex_unlock(&model_lock);
    }
}
