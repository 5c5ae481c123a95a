#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER; /* all models share one Lua interpreter; taken last */

/* --- Memory --- */

void *fake_server_keep(struct fake_server *server, void *block)
{
    bytes_append(&server->kept, &block, sizeof block);
    return block;
}

/* NULL stays NULL. */
static const char *keep_copy(struct fake_server *server, const char *data, size_t length)
{
    return data ? memcpy(fake_server_keep(server, fixture_allocate(length + 1)), data, length) : NULL;
}

static const char *keep_text(struct fake_server *server, const char *text)
{
    return keep_copy(server, text, text ? strlen(text) : 0);
}

/* --- The node: the model of node_model.h, with logins and a clock that may be wrong --- */

static struct fake_server *server_of(struct sim_server *model)
{
    return (struct fake_server *)(void *)model;
}

static int64_t clock_us(const struct fake_server *server)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + server->clock_offset_us;
}

static void set_run_id(struct fake_server *server)
{
    static atomic_uint last;
    snprintf(server->model.run_id, sizeof server->model.run_id, "01234567%032x", atomic_fetch_add(&last, 1));
}

static size_t publish_to_all(struct fake_server *server, struct resp_argument channel, struct resp_argument text)
{
    const struct resp_argument words[] = {resp_argument_of("message"), channel, text};
    struct bytes message = {0};
    size_t receivers = 0;
    resp_write_command(&message, 3, words);
    for (struct fake_connection *c = server->connections; c; c = c->next) {
        if (c->state == FAKE_STATE_CLOSED || !resp_argument_is(&channel, c->session.channel))
            continue;
        fake_connection_send(c, message.data, message.length);
        receivers++;
    }
    bytes_free(&message);
    return receivers;
}

static long long publish(struct sim_server *model, struct resp_argument channel, struct resp_argument text)
{
    return (long long)publish_to_all(server_of(model), channel, text);
}

static bool kill_connection(struct sim_server *model, int64_t id)
{
    struct fake_connection *victim = server_of(model)->connections;
    while (victim && (victim->session.id != id || victim->state == FAKE_STATE_CLOSED))
        victim = victim->next;
    if (victim && !victim->executing)
        fake_connection_end(victim, FAKE_CLOSE);
    return victim;
}

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

void fake_server_execute(struct fake_server *server, struct fake_connection *connection,
                         const struct resp_command *command, struct bytes *reply)
{
    const char *line = reply_without_model(server, connection, command);
    if (line) {
        bytes_print(reply, "%s\r\n", line);
        return;
    }
    pthread_mutex_lock(&model_lock);
    connection->executing = true;
    sim_server_execute(&server->model, &connection->session, command->argc, command->argv, clock_us(server), reply);
    connection->executing = false;
    if (sim_script_errors)
        fixture_fail("%s", sim_script_error);
    pthread_mutex_unlock(&model_lock);
}

/* --- Start and stop --- */

static void close_listener(struct fake_server *server)
{
    if (server->listener >= 0)
        close(server->listener);
    server->listener = -1;
}

static void lock(struct fake_server *server)
{
    pthread_mutex_lock(&server->poller.lock);
    pthread_mutex_lock(&model_lock);
}

static void unlock(struct fake_server *server)
{
    pthread_mutex_unlock(&model_lock);
    pthread_mutex_unlock(&server->poller.lock);
}

static size_t read_count(struct fake_server *server, const size_t *count)
{
    lock(server);
    size_t read = *count;
    unlock(server);
    return read;
}

static void drop_all(struct fake_server *server, enum fake_ending ending)
{
    fake_connection_accept_all(server);
    for (struct fake_connection *c = server->connections; c; c = c->next)
        fake_connection_end(c, ending);
}

static void stop(void *object)
{
    struct fake_server *server = object;
    poller_enter(&server->poller);
    drop_all(server, FAKE_CLOSE);
    close_listener(server);
    poller_leave(&server->poller);
    poller_stop(&server->poller);
    close(server->reservation);
    pthread_mutex_lock(&model_lock);
    sim_keyspace_clear(&server->model.keys);
    pthread_mutex_unlock(&model_lock);
    void **kept = (void *)server->kept.data;
    for (size_t i = 0; i < server->kept.length / sizeof *kept; i++)
        free(kept[i]);
    bytes_free(&server->kept);
    free(server->records);
    free(server);
}

struct fake_server *fake_server_start(void)
{
    static const struct sim_server_hooks hooks = {publish, kill_connection};
    struct fake_server *server = fixture_allocate(sizeof *server);
    server->model = (struct sim_server){
        .replid = FAKE_HISTORY, .scripts = UINT32_MAX /* of clients before */, .hooks = &hooks, .lies = server->lies};
    set_run_id(server);
    server->reservation = socket_reserve_port(false, &server->port);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
    server->listener = socket_listen(false, server->port);
    poller_start(&server->poller, fake_connection_turn, server);
    fixture_register(server, stop);
    return server;
}

const char *fake_server_address(const struct fake_server *server)
{
    return server->address;
}

uint16_t fake_server_port(const struct fake_server *server)
{
    return server->port;
}

/* --- Rules --- */

unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule)
{
    lock(server);
    if (server->rule_count == FAKE_RULES_MOST)
        fixture_fail("more than %d rules", FAKE_RULES_MOST);
    struct fake_rule *added = &server->rules[server->rule_count++].rule;
    *added = *rule;
    if (rule->reply && rule->reply_length == 0)
        added->reply_length = strlen(rule->reply);
    added->command = keep_text(server, rule->command);
    added->argument = keep_text(server, rule->argument);
    added->reply = keep_copy(server, rule->reply, added->reply_length);
    added->extra = keep_text(server, rule->extra);
    unsigned number = server->rule_count;
    unlock(server);
    return number;
}

void fake_server_clear_rules(struct fake_server *server)
{
    lock(server);
    for (unsigned i = 0; i < server->rule_count; i++)
        server->rules[i].removed = true;
    unlock(server);
}

unsigned fake_server_rule_used(struct fake_server *server, unsigned number)
{
    return (unsigned)read_count(server, &server->rules[number - 1].used);
}

unsigned fake_server_refuse(struct fake_server *server, const char *command, unsigned count, const char *error)
{
    return fake_server_add_rule(server,
                                &(struct fake_rule){.command = command, .count = count, .skip = true, .reply = error});
}

static bool has_argument(const struct resp_command *command, const char *argument)
{
    for (size_t i = 1; i < command->argc; i++)
        if (resp_argument_is(&command->argv[i], argument))
            return true;
    return false;
}

static bool matches(const struct fake_rule *rule, const struct fake_connection *connection,
                    const struct resp_command *command)
{
    bool is_of_connections = rule->command && strcmp(rule->command, FAKE_ACCEPT) == 0;
    if (is_of_connections == (command != NULL) || (rule->connection != 0 && rule->connection != connection->session.id))
        return false;
    return !command ||
           (resp_command_is(command, rule->command) && (!rule->argument || has_argument(command, rule->argument)));
}

static bool applies_now(const struct fake_rule_entry *entry)
{
    unsigned first = entry->rule.first > 0 ? entry->rule.first : 1;
    return entry->seen >= first && (entry->rule.count == 0 || entry->seen - first < entry->rule.count);
}

/* Every rule counts the command, even if another one is applied, so that "the third SET" does not depend on other
 * rules. */
const struct fake_rule *fake_server_rule_for(struct fake_server *server, const struct fake_connection *connection,
                                             const struct resp_command *command)
{
    static const struct fake_rule healthy = {0};
    struct fake_rule_entry *chosen = NULL;
    for (struct fake_rule_entry *entry = server->rules; entry < &server->rules[server->rule_count]; entry++) {
        if (entry->removed || !matches(&entry->rule, connection, command))
            continue;
        entry->seen++;
        if (!chosen && applies_now(entry))
            chosen = entry;
    }
    if (!chosen)
        return &healthy;
    chosen->used++;
    return &chosen->rule;
}

/* --- Immediate faults --- */

void fake_server_release(struct fake_server *server)
{
    poller_enter(&server->poller);
    for (struct fake_connection *c = server->connections; c; c = c->next) {
        for (struct fake_segment *segment = c->first; segment; segment = segment->next)
            segment->held = false;
        fake_connection_write(c);
    }
    poller_leave(&server->poller);
}

void fake_server_drop(struct fake_server *server, enum fake_ending ending)
{
    poller_enter(&server->poller);
    drop_all(server, ending);
    poller_leave(&server->poller);
}

void fake_server_suspend(struct fake_server *server)
{
    poller_enter(&server->poller);
}

void fake_server_continue(struct fake_server *server)
{
    poller_leave(&server->poller);
}

void fake_server_pause(struct fake_server *server)
{
    poller_enter(&server->poller);
    server->paused = true;
    poller_leave(&server->poller);
}

void fake_server_resume(struct fake_server *server)
{
    poller_enter(&server->poller);
    server->paused = false;
    poller_leave(&server->poller);
}

void fake_server_stop_listening(struct fake_server *server)
{
    poller_enter(&server->poller);
    fake_connection_accept_all(server); /* the client already considers these connections open */
    close_listener(server);
    poller_leave(&server->poller);
}

void fake_server_listen(struct fake_server *server)
{
    poller_enter(&server->poller);
    if (server->listener < 0)
        server->listener = socket_listen(false, server->port);
    poller_leave(&server->poller);
}

void fake_server_restart(struct fake_server *server)
{
    poller_enter(&server->poller);
    drop_all(server, FAKE_CLOSE);
    pthread_mutex_lock(&model_lock);
    sim_keyspace_clear(&server->model.keys);
    pthread_mutex_unlock(&model_lock);
    server->model.scripts = 0;
    set_run_id(server);
    poller_leave(&server->poller);
}

size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message)
{
    poller_enter(&server->poller);
    size_t receivers = publish_to_all(server, resp_argument_of(channel), resp_argument_of(message));
    poller_leave(&server->poller);
    return receivers;
}

/* --- The node --- */

void fake_server_forget_keys(struct fake_server *server)
{
    lock(server);
    sim_keyspace_clear(&server->model.keys);
    unlock(server);
}

void fake_server_forget_scripts(struct fake_server *server)
{
    lock(server);
    server->model.scripts = 0;
    unlock(server);
}

void fake_server_set_info(struct fake_server *server, const char *field, const char *value)
{
    struct sim_field *lie = server->lies;
    lock(server);
    while (lie->name && strcmp(lie->name, field) != 0)
        lie++;
    if (lie == &server->lies[sizeof server->lies / sizeof *lie - 1])
        fixture_fail("no room for the field %s", field);
    *lie = (struct sim_field){keep_text(server, field), keep_text(server, value)};
    unlock(server);
}

void fake_server_set_password(struct fake_server *server, const char *user, const char *password)
{
    lock(server);
    server->user = keep_text(server, user);
    server->password = keep_text(server, password);
    unlock(server);
}

void fake_server_set_clock_offset_us(struct fake_server *server, int64_t offset_us)
{
    lock(server);
    server->clock_offset_us = offset_us;
    unlock(server);
}

/* --- Keys --- */

/* Returns the number of an integer reply. */
static long long execute(struct fake_server *server, size_t count, const struct resp_argument *words)
{
    struct bytes reply = {0};
    lock(server);
    sim_keyspace_execute(&server->model.keys, count, words, clock_us(server), &reply);
    unlock(server);
    bytes_append(&reply, "", 1);
    long long number = strtoll(reply.data + 1, NULL, 10);
    bytes_free(&reply);
    return number;
}

void fake_server_set_key(struct fake_server *server, const char *key, const char *value, int64_t ttl_ms)
{
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
    const struct resp_argument words[] = {resp_argument_of("SET"), resp_argument_of(key), resp_argument_of(value),
                                          resp_argument_of("PX"), resp_argument_of(ttl)};
    execute(server, ttl_ms < 0 ? 3 : 5, words);
}

void fake_server_delete_key(struct fake_server *server, const char *key)
{
    execute(server, 2, (const struct resp_argument[]){resp_argument_of("DEL"), resp_argument_of(key)});
}

bool fake_server_get_key(struct fake_server *server, const char *key, char *value, size_t size)
{
    struct resp_argument found;
    lock(server);
    bool exists = sim_keyspace_get(&server->model.keys, key, clock_us(server), &found);
    if (exists)
        snprintf(value, size, "%s", found.data);
    unlock(server);
    return exists;
}

int64_t fake_server_pttl(struct fake_server *server, const char *key)
{
    return execute(server, 2, (const struct resp_argument[]){resp_argument_of("PTTL"), resp_argument_of(key)});
}

struct leftovers {
    const char *const *except;
    int64_t now_ms;
    size_t count;
};

static void count_left(const struct sim_key *key, void *arg)
{
    struct leftovers *left = arg;
    left->count += key->ends >= left->now_ms && !resp_matches_any(key->name.data, left->except);
}

size_t fake_server_keys_left(struct fake_server *server, const char *const *except)
{
    struct leftovers left = {.except = except, .now_ms = clock_us(server) / 1000};
    lock(server);
    sim_keyspace_each(&server->model.keys, count_left, &left);
    unlock(server);
    return left.count;
}

/* --- Records --- */

const struct fake_record *fake_server_record(struct fake_server *server, const char *command, size_t index)
{
    const struct fake_record *found = NULL;
    lock(server);
    size_t first = server->first_record;
    if (!command && index < server->record_count - first)
        found = server->records[first + index];
    for (size_t i = first; i < server->record_count && command && !found; i++)
        if (resp_command_is(server->records[i]->command, command) && index-- == 0)
            found = server->records[i];
    unlock(server);
    return found;
}

void fake_server_forget_records(struct fake_server *server)
{
    lock(server);
    server->first_record = server->record_count;
    unlock(server);
}

/* --- Counts --- */

size_t fake_server_count(struct fake_server *server, const char *command)
{
    size_t count = 0;
    lock(server);
    for (size_t i = server->first_record; i < server->record_count; i++)
        count += resp_command_is(server->records[i]->command, command);
    unlock(server);
    return count;
}

size_t fake_server_open_connections(struct fake_server *server)
{
    size_t open = 0;
    lock(server);
    for (const struct fake_connection *c = server->connections; c; c = c->next)
        open += c->state != FAKE_STATE_CLOSED;
    unlock(server);
    return open;
}

size_t fake_server_accepted(struct fake_server *server)
{
    return read_count(server, &server->accepted);
}

size_t fake_server_protocol_errors(struct fake_server *server)
{
    return read_count(server, &server->protocol_errors);
}
