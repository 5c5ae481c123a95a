#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- Start and stop --- */

static void open_listener(struct fake_server *server)
{
    server->listener =
        server->transport == FAKE_UNIX ? socket_listen_unix(server->path) : socket_listen(false, server->port);
}

static void choose_address(struct fake_server *server)
{
    server->reservation = -1;
    if (server->transport == FAKE_UNIX) {
        server->dir = temp_dir_make();
        server->path = fixture_text("%s/fake.sock", temp_dir_path(server->dir));
        server->address = fixture_text("unix://%s", server->path);
        return;
    }
    server->reservation = socket_reserve_port(false, &server->port);
    server->address = fixture_text("127.0.0.1:%u", server->port);
}

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
    if (server->reservation >= 0)
        close(server->reservation);
    temp_dir_remove(server->dir);
    fake_rules_free(server);
    free_records(server);
    fake_node_free(server->node);
    free(server->user);
    free(server->password);
    free(server->path);
    free(server->address);
    free(server);
}

struct fake_server *fake_server_start(enum fake_transport transport)
{
    struct fake_server *server = fixture_allocate(sizeof *server);
    server->transport = transport;
    server->node = fake_node_new(server);
    choose_address(server);
    open_listener(server);
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

const char *fake_server_path(const struct fake_server *server)
{
    return server->path;
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

void fake_server_push(struct fake_server *server, const void *data, size_t length)
{
    poller_enter(&server->poller);
    for (struct fake_connection *c = server->connections; c; c = c->next)
        if (c->state == FAKE_STATE_OPEN)
            fake_connection_send(c, data, length);
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

static void set_paused(struct fake_server *server, bool paused)
{
    poller_enter(&server->poller);
    server->paused = paused;
    poller_leave(&server->poller);
}

void fake_server_pause(struct fake_server *server)
{
    set_paused(server, true);
}

void fake_server_resume(struct fake_server *server)
{
    set_paused(server, false);
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
        open_listener(server);
    poller_leave(&server->poller);
}

void fake_server_restart(struct fake_server *server)
{
    poller_enter(&server->poller);
    drop_all(server, FAKE_CLOSE);
    sim_keyspace_clear(&server->node->model.keys);
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

static void lock(struct fake_server *server)
{
    pthread_mutex_lock(&server->poller.lock);
}

static void unlock(struct fake_server *server)
{
    pthread_mutex_unlock(&server->poller.lock);
}

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

static void execute(struct fake_server *server, size_t count, const struct resp_argument *words)
{
    struct bytes reply = {0};
    lock(server);
    sim_keyspace_execute(&server->node->model.keys, count, words, fake_node_clock_us(server->node), &reply);
    unlock(server);
    bytes_free(&reply);
}

void fake_server_set_key(struct fake_server *server, const char *key, const char *value, int64_t ttl_ms)
{
    char ttl[RESP_INTEGER_SIZE];
    const struct resp_argument words[] = {resp_argument_of("SET"),
                                          resp_argument_of(key),
                                          resp_argument_of(value),
                                          resp_argument_of("PX"),
                                          {ttl, resp_format_integer(ttl, ttl_ms)}};
    execute(server, ttl_ms < 0 ? 3 : 5, words);
}

void fake_server_delete_key(struct fake_server *server, const char *key)
{
    execute(server, 2, (const struct resp_argument[]){resp_argument_of("DEL"), resp_argument_of(key)});
}

static const struct sim_key *find_key(struct fake_server *server, const char *key)
{
    return sim_keyspace_find(&server->node->model.keys, resp_argument_of(key), fake_node_clock_us(server->node) / 1000);
}

bool fake_server_get_key(struct fake_server *server, const char *key, char *value, size_t size)
{
    lock(server);
    const struct sim_key *found = find_key(server, key);
    if (found)
        snprintf(value, size, "%s", found->value);
    unlock(server);
    return found;
}

int64_t fake_server_pttl(struct fake_server *server, const char *key)
{
    lock(server);
    const struct sim_key *found = find_key(server, key);
    int64_t expires = found ? found->expires : 0, now_ms = fake_node_clock_us(server->node) / 1000;
    unlock(server);
    return !found ? -2 : expires == SIM_NO_EXPIRY ? -1 : expires - now_ms;
}

size_t fake_server_keys_left(struct fake_server *server, const char *const *except)
{
    const struct sim_keyspace *keys = &server->node->model.keys;
    size_t left = 0;
    lock(server);
    int64_t now_ms = fake_node_clock_us(server->node) / 1000;
    for (size_t i = 0; i < keys->count; i++)
        left += keys->keys[i].expires >= now_ms && !resp_matches_any(keys->keys[i].name, except);
    unlock(server);
    return left;
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
