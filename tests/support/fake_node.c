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

pthread_mutex_t fake_model_lock = PTHREAD_MUTEX_INITIALIZER;

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

static void info(struct sim_server *model, struct resp_argument section, struct bytes *text)
{
    const struct fake_node *node = node_of(model);
    for (size_t i = 0; i < node->field_count; i++)
        if (section.length == 0 || sim_text_is(section, node->fields[i].section))
            bytes_print(text, "%s:%s\r\n", node->fields[i].name, node->fields[i].value);
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
    pthread_mutex_lock(&fake_model_lock);
    sim_keyspace_clear(&node->model.keys);
    pthread_mutex_unlock(&fake_model_lock);
    for (size_t i = 0; i < node->field_count; i++) {
        free(node->fields[i].name);
        free(node->fields[i].value);
    }
    free(node->fields);
    free(node);
}

/* --- Commands --- */

static const char *log_in(const struct fake_server *server, struct fake_connection *connection,
                          const struct resp_command *command)
{
    const char *user = server->user ? server->user : "default";
    bool known = command->argc == 2 ? strcmp(user, "default") == 0 : resp_argument_is(&command->argv[1], user);
    if (!server->password && command->argc == 2)
        return "-ERR AUTH <password> called without any password configured for the default user. "
               "Are you sure your configuration is correct?";
    if (!known || (server->password && !resp_argument_is(&command->argv[command->argc - 1], server->password)))
        return "-WRONGPASS invalid username-password pair or user is disabled.";
    connection->authenticated = true;
    return "+OK";
}

/* The node has the keys of one database only. */
static const char *select_database(const struct resp_command *command)
{
    long long database;
    bool exists = resp_argument_integer(command->argv[1], &database) && database >= 0 && database < 16;
    return exists ? "+OK" : "-ERR DB index is out of range";
}

/* The reply to a command that the model does not execute, because the simulator's nodes have no logins; otherwise NULL. */
static const char *reply_without_model(const struct fake_server *server, struct fake_connection *connection,
                                       const struct resp_command *command)
{
    if (resp_command_is(command, "AUTH"))
        return log_in(server, connection, command);
    if (!connection->authenticated)
        return "-NOAUTH Authentication required.";
    if (connection->session.channel[0])
        return "-ERR Can't execute it: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
               "this context";
    return resp_command_is(command, "SELECT") ? select_database(command) : NULL;
}

void fake_node_execute(struct fake_node *node, struct fake_connection *connection, const struct resp_command *command,
                       struct bytes *reply)
{
    const char *line = reply_without_model(node->server, connection, command);
    if (line) {
        bytes_print(reply, "%s\r\n", line);
        return;
    }
    pthread_mutex_lock(&fake_model_lock);
    connection->executing = true;
    sim_server_execute(&node->model, &connection->session, command->argc, command->argv, fake_node_clock_us(node),
                       reply);
    connection->executing = false;
    if (sim_script_errors)
        fixture_fail("%s", sim_script_error);
    pthread_mutex_unlock(&fake_model_lock);
}
