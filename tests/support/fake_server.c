/* The fake server: its thread takes commands, lets rules change the replies of the model, and sends these in order and on
 * time. All of it runs under the poller's lock. */
#define _GNU_SOURCE
#include "fake_server.h"

#include "clock.h"
#include "fixture.h"
#include "node_model.h"
#include "sockets.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A reply, or its rest, that waits to be sent. Replies are sent in order. */
struct segment {
    struct segment *next;
    struct bytes unsent;
    uint64_t due_ns; /* not sent before this time */
    bool held;       /* not sent before fake_server_release() */
    enum fake_ending ending;
};

enum state {
    OPEN,
    STALLED,    /* nothing is read or sent */
    DISCARDING, /* FIN sent; input is dropped until the peer closes */
    CLOSED      /* descriptor closed */
};

enum { RULES_MOST = 1024 };

struct rule_entry {
    struct fake_rule rule;
    size_t seen;  /* commands that matched */
    size_t used;  /* number of commands to which it was applied */
    bool removed; /* still counted by fake_server_rule_used() */
};

struct connection {
    struct connection *next;
    struct fake_server *server;
    struct watched socket;
    struct sim_session session; /* its id: numbered from 1 in the order of accepting */
    enum state state;
    struct bytes input;
    struct segment *first;
    struct segment **last;
    bool authenticated;
    bool executing; /* a command, which may kill other connections only */
};

struct fake_server {
    struct sim_server model; /* the first member: its hooks get it */
    struct poller poller;
    bool paused;

    int reservation; /* keeps the port reserved */
    struct watched listener;
    uint16_t port;
    char address[32];

    struct sim_field lies[16];
    int64_t clock_offset_us;
    const char *user, *password;

    struct connection *connections; /* in the order of accepting */
    size_t accepted;
    size_t protocol_errors;

    struct fake_record **records;
    size_t record_count;
    size_t first_record; /* earlier ones no longer count, but stay allocated */

    struct rule_entry rules[RULES_MOST]; /* a rule's number is its place, from 1 */
    unsigned rule_count;

    struct bytes kept; /* pointers to blocks that are freed with the server */
};

static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER; /* all models share one Lua interpreter; taken last */

/* --- Memory --- */

static void *keep(struct fake_server *server, void *block)
{
    bytes_append(&server->kept, &block, sizeof block);
    return block;
}

/* NULL stays NULL. */
static const char *keep_copy(struct fake_server *server, const char *data, size_t length)
{
    return data ? memcpy(keep(server, fixture_allocate(length + 1)), data, length) : NULL;
}

static const char *keep_text(struct fake_server *server, const char *text)
{
    return keep_copy(server, text, text ? strlen(text) : 0);
}

/* --- Output --- */

/* Takes the reply's memory. */
static void queue_segment(struct connection *connection, struct bytes reply, const struct fake_rule *rule)
{
    struct segment *segment = fixture_allocate(sizeof *segment);
    *segment = (struct segment){
        .unsent = reply, .due_ns = test_deadline_ns(rule->reply_delay_ms), .held = rule->hold, .ending = rule->ending};
    *connection->last = segment;
    connection->last = &segment->next;
}

static void drop_first_segment(struct connection *connection)
{
    struct segment *segment = connection->first;
    connection->first = segment->next;
    if (!connection->first)
        connection->last = &connection->first;
    bytes_free(&segment->unsent);
    free(segment);
}

static void end_connection(struct connection *connection, enum fake_ending ending)
{
    if (ending == FAKE_GO_ON || connection->state == CLOSED)
        return;
    while (connection->first)
        drop_first_segment(connection);
    if (ending == FAKE_STALL) {
        connection->state = STALLED;
    } else if (ending == FAKE_SHUTDOWN) {
        shutdown(connection->socket.fd, SHUT_WR);
        connection->state = DISCARDING;
    } else {
        poller_close(&connection->server->poller, &connection->socket, ending == FAKE_RESET);
        connection->state = CLOSED;
        bytes_free(&connection->input);
    }
}

/* When the next bytes may be sent; UINT64_MAX: after an event. */
static uint64_t next_ns(const struct connection *connection)
{
    const struct segment *first = connection->first;
    bool waits = connection->state == OPEN && first && !first->held && connection->socket.writable;
    return waits ? first->due_ns : UINT64_MAX;
}

static void write_replies(struct connection *connection)
{
    while (next_ns(connection) <= test_now_ns()) {
        struct bytes *unsent = &connection->first->unsent;
        long sent = socket_send_some(connection->socket.fd, unsent->data, unsent->length);
        if (sent < 0) {
            end_connection(connection, FAKE_CLOSE);
            return;
        }
        bytes_consume(unsent, (size_t)sent);
        connection->socket.writable = unsent->length == 0;
        if (unsent->length == 0) {
            enum fake_ending ending = connection->first->ending;
            drop_first_segment(connection);
            end_connection(connection, ending);
        }
    }
}

static void send_to(struct connection *connection, const void *data, size_t length)
{
    static const struct fake_rule plain = {0};
    struct bytes message = {0};
    bytes_append(&message, data, length);
    queue_segment(connection, message, &plain);
    write_replies(connection);
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
    for (struct connection *c = server->connections; c; c = c->next) {
        if (c->state == CLOSED || !resp_argument_is(&channel, c->session.channel))
            continue;
        send_to(c, message.data, message.length);
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
    struct connection *victim = server_of(model)->connections;
    while (victim && (victim->session.id != id || victim->state == CLOSED))
        victim = victim->next;
    if (victim && !victim->executing)
        end_connection(victim, FAKE_CLOSE);
    return victim;
}

static const char *log_in(struct connection *connection, const struct resp_command *command)
{
    const struct fake_server *server = connection->server;
    if (command->argc == 2 && !server->password)
        return "-ERR AUTH <password> called without any password configured for the default user. Are you sure?";
    const char *user = command->argc == 2 ? "default" : command->argv[1].data;
    bool fits = strcmp(user, server->user ? server->user : "default") == 0 &&
                (!server->password || resp_argument_is(&command->argv[command->argc - 1], server->password));
    connection->authenticated = connection->authenticated || fits;
    return fits ? "+OK" : "-WRONGPASS invalid username-password pair or user is disabled.";
}

/* The reply to a command that the model does not execute, because the simulator's nodes have no logins; otherwise NULL. */
static const char *reply_without_model(struct connection *connection, const struct resp_command *command)
{
    if (resp_command_is(command, "AUTH"))
        return log_in(connection, command);
    if (!connection->authenticated)
        return "-NOAUTH Authentication required.";
    return connection->session.channel[0] ? "-ERR Can't execute it: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                                            "QUIT / RESET are allowed in this context"
                                          : NULL;
}

static void execute_command(struct connection *connection, const struct resp_command *command, struct bytes *reply)
{
    const char *line = reply_without_model(connection, command);
    if (line) {
        bytes_print(reply, "%s\r\n", line);
        return;
    }
    struct fake_server *server = connection->server;
    pthread_mutex_lock(&model_lock);
    connection->executing = true;
    sim_server_execute(&server->model, &connection->session, command->argc, command->argv, clock_us(server), reply);
    connection->executing = false;
    if (sim_script_errors)
        fixture_fail("%s", sim_script_error);
    pthread_mutex_unlock(&model_lock);
}

/* --- Rules for a command --- */

static bool has_argument(const struct resp_command *command, const char *argument)
{
    for (size_t i = 1; i < command->argc; i++)
        if (resp_argument_is(&command->argv[i], argument))
            return true;
    return false;
}

static bool matches(const struct fake_rule *rule, const struct connection *connection,
                    const struct resp_command *command)
{
    bool is_of_connections = rule->command && strcmp(rule->command, FAKE_ACCEPT) == 0;
    if (is_of_connections == (command != NULL) || (rule->connection != 0 && rule->connection != connection->session.id))
        return false;
    return !command ||
           (resp_command_is(command, rule->command) && (!rule->argument || has_argument(command, rule->argument)));
}

static bool applies_now(const struct rule_entry *entry)
{
    unsigned first = entry->rule.first > 0 ? entry->rule.first : 1;
    return entry->seen >= first && (entry->rule.count == 0 || entry->seen - first < entry->rule.count);
}

/* Every rule counts the command, even if another one is applied, so that "the third SET" does not depend on other
 * rules. */
static const struct fake_rule *rule_for(const struct connection *connection, const struct resp_command *command)
{
    struct fake_server *server = connection->server;
    static const struct fake_rule healthy = {0};
    struct rule_entry *chosen = NULL;
    for (struct rule_entry *entry = server->rules; entry < &server->rules[server->rule_count]; entry++) {
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

/* --- Input --- */

static void record(const struct connection *connection, struct resp_command *command)
{
    struct fake_server *server = connection->server;
    struct fake_record *entry = keep(server, fixture_allocate(sizeof *entry));
    *entry = (struct fake_record){.connection = (unsigned)connection->session.id, .command = keep(server, command)};
    if ((server->record_count & (server->record_count - 1)) == 0) /* there is room up to the next power of two */
        server->records = fixture_reallocate(server->records, 2 * (server->record_count + 1) * sizeof *server->records);
    server->records[server->record_count++] = entry;
}

static void shape_reply(struct bytes *reply, const struct fake_rule *rule)
{
    if (rule->reply) {
        reply->length = 0;
        bytes_append(reply, rule->reply, rule->reply_length);
    }
    if (rule->silent)
        reply->length = 0;
    if (rule->extra)
        bytes_append(reply, rule->extra, strlen(rule->extra));
}

/* The command is NULL for a new connection. */
static void answer(struct connection *connection, const struct resp_command *command)
{
    const struct fake_rule *rule = rule_for(connection, command);
    struct bytes reply = {0};
    if (command && !rule->skip)
        execute_command(connection, command, &reply);
    shape_reply(&reply, rule);
    if (connection->state == OPEN && (reply.length > 0 || rule->ending != FAKE_GO_ON))
        queue_segment(connection, reply, rule);
    else
        bytes_free(&reply);
    write_replies(connection);
}

/* Returns true if it has taken a command from the input. As Redis does, it sends an error and closes if there is none. */
static bool take_command(struct connection *connection)
{
    static const char complaint[] = "-ERR Protocol error: expected '*' or '$'\r\n";
    struct resp_command *command;
    size_t used;
    enum resp_progress progress = resp_parse_command(connection->input.data, connection->input.length, &used, &command);
    if (progress == RESP_MALFORMED) {
        connection->server->protocol_errors++;
        send_to(connection, complaint, sizeof complaint - 1);
        end_connection(connection, FAKE_SHUTDOWN);
    }
    if (progress != RESP_WHOLE)
        return false;
    bytes_consume(&connection->input, used);
    record(connection, command);
    answer(connection, command);
    return true;
}

/* After a reply that ends the connection, the server executes no more commands: it is about to close. */
static bool ending_queued(const struct connection *connection)
{
    for (const struct segment *segment = connection->first; segment; segment = segment->next)
        if (segment->ending != FAKE_GO_ON)
            return true;
    return false;
}

static void read_input(struct connection *connection)
{
    enum { CHUNK = 16384 };
    while (connection->socket.readable && (connection->state == OPEN || connection->state == DISCARDING)) {
        ssize_t count = recv(connection->socket.fd, bytes_room(&connection->input, CHUNK), CHUNK, 0);
        if (count < 0 && errno == EAGAIN)
            connection->socket.readable = false;
        else if (count == 0 || (count < 0 && errno != EINTR))
            end_connection(connection, FAKE_CLOSE);
        else if (count > 0 && connection->state == OPEN)
            connection->input.length += (size_t)count;
        while (connection->state == OPEN && !ending_queued(connection) && take_command(connection))
            ;
    }
}

/* --- The thread --- */

static void add_connection(struct fake_server *server, int fd)
{
    struct connection *connection = keep(server, fixture_allocate(sizeof *connection));
    struct connection **link = &server->connections;
    connection->server = server;
    poller_watch(&server->poller, &connection->socket, fd);
    connection->socket.writable = true;
    connection->session.id = (int64_t)++server->accepted;
    connection->last = &connection->first;
    connection->authenticated = !server->password;
    while (*link)
        link = &(*link)->next;
    *link = connection;
    socket_no_delay(fd);
    answer(connection, NULL);
}

/* Accepts every connection that the kernel has accepted already. */
static void accept_all(struct fake_server *server)
{
    int fd;
    while (server->listener.fd >= 0 &&
           (fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        add_connection(server, fd);
    server->listener.readable =
        server->listener.fd >= 0 && errno != EAGAIN; /* without a free descriptor there is more */
}

static void turn(void *arg)
{
    struct fake_server *server = arg;
    uint64_t next = UINT64_MAX;
    for (const struct connection *c = server->connections; c && !server->paused; c = c->next)
        next = next_ns(c) < next ? next_ns(c) : next;
    poller_wait(&server->poller, next);
    for (struct connection *c = server->connections; c && !server->paused; c = c->next) {
        read_input(c);
        write_replies(c);
    }
    if (server->listener.readable && !server->paused)
        accept_all(server);
}

/* --- Start and stop --- */

static void lock(struct fake_server *server)
{
    poller_enter(&server->poller);
    pthread_mutex_lock(&model_lock);
}

/* The thread makes a turn. */
static void unlock(struct fake_server *server)
{
    pthread_mutex_unlock(&model_lock);
    poller_leave(&server->poller);
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
    accept_all(server);
    for (struct connection *c = server->connections; c; c = c->next)
        end_connection(c, ending);
}

static void stop(void *object)
{
    struct fake_server *server = object;
    fake_server_stop_listening(server);
    fake_server_drop(server, FAKE_CLOSE);
    fake_server_forget_keys(server);
    poller_stop(&server->poller);
    close(server->reservation);
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
    server->listener.fd = -1;
    poller_start(&server->poller, turn, server);
    fake_server_listen(server);
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
    if (server->rule_count == RULES_MOST)
        fixture_fail("more than %d rules", RULES_MOST);
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

/* --- Immediate faults --- */

void fake_server_release(struct fake_server *server)
{
    lock(server);
    for (struct connection *c = server->connections; c; c = c->next) {
        for (struct segment *segment = c->first; segment; segment = segment->next)
            segment->held = false;
        write_replies(c);
    }
    unlock(server);
}

void fake_server_drop(struct fake_server *server, enum fake_ending ending)
{
    lock(server);
    drop_all(server, ending);
    unlock(server);
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
    lock(server);
    server->paused = true;
    unlock(server);
}

void fake_server_resume(struct fake_server *server)
{
    lock(server);
    server->paused = false;
    unlock(server);
}

void fake_server_stop_listening(struct fake_server *server)
{
    lock(server);
    accept_all(server); /* the client already considers these connections open */
    if (server->listener.fd >= 0)
        poller_close(&server->poller, &server->listener, false);
    unlock(server);
}

void fake_server_listen(struct fake_server *server)
{
    lock(server);
    if (server->listener.fd < 0)
        poller_watch(&server->poller, &server->listener, socket_listen(false, server->port));
    unlock(server);
}

size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message)
{
    lock(server);
    size_t receivers = publish_to_all(server, resp_argument_of(channel), resp_argument_of(message));
    unlock(server);
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
    for (const struct connection *c = server->connections; c; c = c->next)
        open += c->state != CLOSED;
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
