#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- Start and stop --- */

static void close_listener(struct fake_server *server)
{
    if (server->listener >= 0)
        close(server->listener);
    server->listener = -1;
}

static void free_records(struct fake_server *server)
{
    for (size_t i = 0; i < server->record_count; i++) {
        free(server->records[i]->command);
        free(server->records[i]);
    }
    free(server->records);
}

static void free_rules(struct fake_server *server)
{
    while (server->rules) {
        struct fake_rule_entry *entry = server->rules;
        server->rules = entry->next;
        for (size_t i = 0; i < sizeof entry->copies / sizeof *entry->copies; i++)
            free(entry->copies[i]);
        free(entry);
    }
}

static void stop(void *object)
{
    struct fake_server *server = object;
    poller_enter(&server->poller);
    close_listener(server);
    for (struct fake_connection *c = server->connections; c; c = c->next)
        fake_connection_end(c, FAKE_CLOSE);
    fake_connection_free_closed(server);
    poller_leave(&server->poller);
    poller_stop(&server->poller);
    close(server->reservation);
    free_rules(server);
    free_records(server);
    fake_node_free(server->node);
    free(server->user);
    free(server->password);
    free(server->address);
    free(server);
}

struct fake_server *fake_server_start(void)
{
    struct fake_server *server = fixture_allocate(sizeof *server);
    server->node = fake_node_new(server);
    server->reservation = socket_reserve_port(false, &server->port);
    server->address = fixture_text("127.0.0.1:%u", server->port);
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

static void lock(struct fake_server *server)
{
    pthread_mutex_lock(&server->poller.lock);
    pthread_mutex_lock(&fake_model_lock);
}

static void unlock(struct fake_server *server)
{
    pthread_mutex_unlock(&fake_model_lock);
    pthread_mutex_unlock(&server->poller.lock);
}

static const char *copy(struct fake_rule_entry *entry, size_t index, const char *data, size_t length)
{
    if (!data)
        return NULL;
    entry->copies[index] = fixture_allocate(length + 1);
    return memcpy(entry->copies[index], data, length);
}

static const char *copy_text(struct fake_rule_entry *entry, size_t index, const char *text)
{
    return copy(entry, index, text, text ? strlen(text) : 0);
}

static struct fake_rule_entry *make_entry(const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = fixture_allocate(sizeof *entry);
    entry->rule = *rule;
    if (rule->reply && rule->reply_length == 0)
        entry->rule.reply_length = strlen(rule->reply);
    entry->rule.command = copy_text(entry, 0, rule->command);
    entry->rule.argument = copy_text(entry, 1, rule->argument);
    entry->rule.reply = copy(entry, 2, rule->reply, entry->rule.reply_length);
    entry->rule.extra = copy_text(entry, 3, rule->extra);
    return entry;
}

unsigned fake_server_add_rule(struct fake_server *server, const struct fake_rule *rule)
{
    struct fake_rule_entry *entry = make_entry(rule), **link = &server->rules;
    lock(server);
    while (*link)
        link = &(*link)->next;
    unsigned number = entry->number = ++server->last_rule;
    *link = entry;
    unlock(server);
    return number;
}

void fake_server_clear_rules(struct fake_server *server)
{
    lock(server);
    for (struct fake_rule_entry *entry = server->rules; entry; entry = entry->next)
        entry->removed = true;
    unlock(server);
}

unsigned fake_server_rule_used(struct fake_server *server, unsigned number)
{
    lock(server);
    const struct fake_rule_entry *entry = server->rules;
    while (entry && entry->number != number)
        entry = entry->next;
    if (!entry)
        fixture_fail("the fake server has no rule %u", number);
    unsigned used = entry->used;
    unlock(server);
    return used;
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
const struct fake_rule *fake_rules_apply(struct fake_server *server, const struct fake_connection *connection,
                                         const struct resp_command *command)
{
    static const struct fake_rule healthy = {0};
    struct fake_rule_entry *chosen = NULL;
    for (struct fake_rule_entry *entry = server->rules; entry; entry = entry->next) {
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

static void drop_all(struct fake_server *server, enum fake_ending ending)
{
    fake_connection_accept_all(server);
    for (struct fake_connection *c = server->connections; c; c = c->next)
        fake_connection_end(c, ending);
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
    pthread_mutex_lock(&fake_model_lock);
    sim_keyspace_clear(&server->node->model.keys);
    pthread_mutex_unlock(&fake_model_lock);
    server->node->model.scripts = 0;
    fake_node_new_run_id(server->node);
    poller_leave(&server->poller);
}

size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message)
{
    poller_enter(&server->poller);
    size_t receivers = fake_connection_publish(server, resp_argument_of(channel), resp_argument_of(message));
    poller_leave(&server->poller);
    return receivers;
}

/* --- The node --- */

void fake_server_forget_keys(struct fake_server *server)
{
    lock(server);
    sim_keyspace_clear(&server->node->model.keys);
    unlock(server);
}

void fake_server_forget_scripts(struct fake_server *server)
{
    lock(server);
    server->node->model.scripts = 0;
    unlock(server);
}

void fake_server_set_info(struct fake_server *server, const char *field, const char *value)
{
    lock(server);
    fake_node_set_info(server->node, field, value);
    unlock(server);
}

void fake_server_set_password(struct fake_server *server, const char *user, const char *password)
{
    lock(server);
    free(server->user);
    free(server->password);
    server->user = user ? fixture_text("%s", user) : NULL;
    server->password = password ? fixture_text("%s", password) : NULL;
    unlock(server);
}

void fake_server_set_clock_offset_us(struct fake_server *server, int64_t offset_us)
{
    lock(server);
    server->node->clock_offset_us = offset_us;
    unlock(server);
}

/* --- Keys --- */

/* Returns the number of an integer reply. */
static long long execute(struct fake_server *server, size_t count, const struct resp_argument *words)
{
    struct bytes reply = {0};
    lock(server);
    sim_keyspace_execute(&server->node->model.keys, count, words, fake_node_clock_us(server->node), &reply);
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
    bool exists = sim_keyspace_get(&server->node->model.keys, key, fake_node_clock_us(server->node), &found);
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
    struct leftovers left = {.except = except, .now_ms = fake_node_clock_us(server->node) / 1000};
    lock(server);
    sim_keyspace_each(&server->node->model.keys, count_left, &left);
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

static size_t read_count(struct fake_server *server, const size_t *count)
{
    lock(server);
    size_t read = *count;
    unlock(server);
    return read;
}

size_t fake_server_accepted(struct fake_server *server)
{
    return read_count(server, &server->accepted);
}

size_t fake_server_protocol_errors(struct fake_server *server)
{
    return read_count(server, &server->protocol_errors);
}
