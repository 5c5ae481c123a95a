#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- Start and stop --- */

static void listen_again(struct fake_server *server)
{
    server->listener = server->transport == FAKE_UNIX ? socket_listen_unix(server->path)
                                                      : socket_listen(server->transport == FAKE_IPV6, server->port);
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
    server->reservation = socket_reserve_port(server->transport == FAKE_IPV6, &server->port);
    server->address = fixture_text(server->transport == FAKE_IPV6 ? "[::1]:%u" : "127.0.0.1:%u", server->port);
}

static void make_lock(struct fake_server *server)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* The thread blocks all signals, which belong to the test. */
static void start_thread(struct fake_server *server)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&server->thread, NULL, fake_loop_run, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        fixture_fail("cannot start a thread: %s", strerror(error));
}

static void stop_object(void *server)
{
    fake_server_stop(server);
}

struct fake_server *fake_server_start(enum fake_transport transport)
{
    struct fake_server *server = fixture_allocate(sizeof(*server));

    server->transport = transport;
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0)
        fixture_fail("eventfd: %s", strerror(errno));
    server->node = fake_node_new();
    make_lock(server);
    choose_address(server);
    listen_again(server);
    start_thread(server);
    fixture_register(server, stop_object);
    return server;
}

static void wake(struct fake_server *server)
{
    uint64_t one = 1;

    (void)!write(server->wake, &one, sizeof(one));
}

static void free_records(struct fake_server *server)
{
    for (size_t i = 0; i < server->record_count; i++) {
        union {
            const struct resp_command *shown;
            struct resp_command *owned;
        } command = {.shown = server->records[i]->command};
        free(command.owned);
        free(server->records[i]);
    }
    free(server->records);
}

static void close_descriptors(struct fake_server *server)
{
    if (server->listener >= 0)
        close(server->listener);
    if (server->reservation >= 0)
        close(server->reservation);
    close(server->wake);
}

void fake_server_stop(struct fake_server *server)
{
    if (server == NULL)
        return;
    fixture_unregister(server);
    pthread_mutex_lock(&server->lock);
    server->quit = true;
    wake(server);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->thread, NULL);
    close_descriptors(server);
    temp_dir_remove(server->dir);
    fake_rules_free(server);
    free_records(server);
    fake_node_free(server->node);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server->user);
    free(server->password);
    free(server->path);
    free(server->address);
    free(server);
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

/* --- Jobs of the server's thread for a test --- */

static void ask(struct fake_server *server, fake_job *job, const void *arg)
{
    pthread_mutex_lock(&server->lock);
    while (server->job != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    server->job = job;
    server->job_arg = arg;
    uint64_t ticket = ++server->jobs_posted;
    wake(server);
    while (server->jobs_done < ticket)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

static void release_job(struct fake_server *server, const void *arg)
{
    (void)arg;
    for (struct fake_connection *c = server->connections; c != NULL; c = c->next) {
        for (struct fake_segment *segment = c->first; segment != NULL; segment = segment->next)
            segment->held = false;
        fake_connection_write(c);
    }
}

void fake_server_release(struct fake_server *server)
{
    ask(server, release_job, NULL);
}

static void push_job(struct fake_server *server, const void *arg)
{
    const struct resp_argument *data = arg;

    for (struct fake_connection *c = server->connections; c != NULL; c = c->next)
        if (c->state == FAKE_STATE_OPEN)
            fake_connection_send(c, data->data, data->length);
}

void fake_server_push(struct fake_server *server, const void *data, size_t length)
{
    ask(server, push_job, &(struct resp_argument){.data = data, .length = length});
}

static void drop_job(struct fake_server *server, const void *arg)
{
    const enum fake_ending *ending = arg;

    fake_connection_accept_all(server);
    for (struct fake_connection *c = server->connections; c != NULL; c = c->next)
        fake_connection_end(c, *ending);
}

void fake_server_drop(struct fake_server *server, enum fake_ending ending)
{
    ask(server, drop_job, &ending);
}

static void pause_job(struct fake_server *server, const void *arg)
{
    const bool *paused = arg;

    server->paused = *paused;
}

void fake_server_pause(struct fake_server *server)
{
    ask(server, pause_job, &(bool){true});
}

void fake_server_resume(struct fake_server *server)
{
    ask(server, pause_job, &(bool){false});
}

static void listen_job(struct fake_server *server, const void *arg)
{
    const bool *listening = arg;

    if (*listening && server->listener < 0) {
        listen_again(server);
    } else if (!*listening && server->listener >= 0) {
        fake_connection_accept_all(server); /* the client already considers these connections open */
        close(server->listener);
        server->listener = -1;
    }
}

void fake_server_stop_listening(struct fake_server *server)
{
    ask(server, listen_job, &(bool){false});
}

void fake_server_listen(struct fake_server *server)
{
    ask(server, listen_job, &(bool){true});
}

static void restart_job(struct fake_server *server, const void *arg)
{
    enum fake_ending ending = FAKE_CLOSE;

    (void)arg;
    drop_job(server, &ending);
    fake_node_forget_keys(server->node);
    fake_node_forget_scripts(server->node);
    fake_node_new_run_id(server->node);
}

void fake_server_restart(struct fake_server *server)
{
    ask(server, restart_job, NULL);
}

struct publish_job {
    struct resp_argument channel;
    struct resp_argument message;
    size_t *receivers;
};

static void publish_job(struct fake_server *server, const void *arg)
{
    const struct publish_job *job = arg;

    *job->receivers = fake_session_publish(server, &job->channel, &job->message);
}

size_t fake_server_publish(struct fake_server *server, const char *channel, const char *message)
{
    size_t receivers = 0;
    struct publish_job job = {.channel = {.data = channel, .length = strlen(channel)},
                              .message = {.data = message, .length = strlen(message)},
                              .receivers = &receivers};

    ask(server, publish_job, &job);
    return receivers;
}

/* --- The node --- */

void fake_server_set_script_handler(struct fake_server *server, fake_script_handler *handler, void *arg)
{
    pthread_mutex_lock(&server->lock);
    fake_node_set_script_handler(server->node, handler, arg);
    pthread_mutex_unlock(&server->lock);
}

void fake_server_forget_keys(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    fake_node_forget_keys(server->node);
    pthread_mutex_unlock(&server->lock);
}

void fake_server_forget_scripts(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    fake_node_forget_scripts(server->node);
    pthread_mutex_unlock(&server->lock);
}

void fake_server_set_info(struct fake_server *server, const char *field, const char *value)
{
    pthread_mutex_lock(&server->lock);
    fake_node_set_info(server->node, field, value);
    pthread_mutex_unlock(&server->lock);
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = with != NULL ? fixture_text("%s", with) : NULL;
}

void fake_server_set_password(struct fake_server *server, const char *user, const char *password)
{
    pthread_mutex_lock(&server->lock);
    replace(&server->user, user);
    replace(&server->password, password);
    pthread_mutex_unlock(&server->lock);
}

void fake_server_set_clock_offset_us(struct fake_server *server, int64_t offset_us)
{
    pthread_mutex_lock(&server->lock);
    fake_node_set_clock_offset_us(server->node, offset_us);
    pthread_mutex_unlock(&server->lock);
}

/* --- Keys --- */

static struct resp_argument argument_of(const char *text)
{
    return (struct resp_argument){.data = text, .length = strlen(text)};
}

void fake_server_set_key(struct fake_server *server, const char *key, const char *value, int64_t ttl_ms)
{
    struct resp_argument name = argument_of(key);

    pthread_mutex_lock(&server->lock);
    fake_node_set(server->node, 0, &name, value, strlen(value), ttl_ms);
    pthread_mutex_unlock(&server->lock);
}

void fake_server_delete_key(struct fake_server *server, const char *key)
{
    struct resp_argument name = argument_of(key);

    pthread_mutex_lock(&server->lock);
    fake_node_delete(server->node, 0, &name);
    pthread_mutex_unlock(&server->lock);
}

bool fake_server_get_key(struct fake_server *server, const char *key, char *value, size_t size)
{
    struct resp_argument name = argument_of(key);

    pthread_mutex_lock(&server->lock);
    const struct fake_key *found = fake_node_find(server->node, 0, &name);
    if (found != NULL)
        snprintf(value, size, "%s", found->value);
    pthread_mutex_unlock(&server->lock);
    return found != NULL;
}

int64_t fake_server_pttl(struct fake_server *server, const char *key)
{
    struct resp_argument name = argument_of(key);

    pthread_mutex_lock(&server->lock);
    int64_t pttl = fake_node_pttl(server->node, 0, &name);
    pthread_mutex_unlock(&server->lock);
    return pttl;
}

size_t fake_server_keys_left(struct fake_server *server, const char *const *except)
{
    pthread_mutex_lock(&server->lock);
    size_t left = fake_node_keys_left(server->node, except);
    pthread_mutex_unlock(&server->lock);
    return left;
}

/* --- Records --- */

static size_t count_records(const struct fake_server *server, const char *command)
{
    size_t count = 0;

    for (size_t i = server->first_record; i < server->record_count; i++)
        count += resp_command_is(server->records[i]->command, command);
    return count;
}

size_t fake_server_count(struct fake_server *server, const char *command)
{
    pthread_mutex_lock(&server->lock);
    size_t count = count_records(server, command);
    pthread_mutex_unlock(&server->lock);
    return count;
}

const struct fake_record *fake_server_record(struct fake_server *server, const char *command, size_t index)
{
    const struct fake_record *found = NULL;

    pthread_mutex_lock(&server->lock);
    for (size_t i = server->first_record; i < server->record_count && found == NULL; i++)
        if (resp_command_is(server->records[i]->command, command) && index-- == 0)
            found = server->records[i];
    pthread_mutex_unlock(&server->lock);
    return found;
}

void fake_server_forget_records(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->first_record = server->record_count;
    pthread_mutex_unlock(&server->lock);
}

static size_t count_open(const struct fake_server *server)
{
    size_t open = 0;

    for (const struct fake_connection *c = server->connections; c != NULL; c = c->next)
        open += c->state != FAKE_STATE_CLOSED;
    return open;
}

size_t fake_server_open_connections(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    size_t open = count_open(server);
    pthread_mutex_unlock(&server->lock);
    return open;
}

size_t fake_server_accepted(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    size_t accepted = server->accepted;
    pthread_mutex_unlock(&server->lock);
    return accepted;
}

size_t fake_server_protocol_errors(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    size_t errors = server->protocol_errors;
    pthread_mutex_unlock(&server->lock);
    return errors;
}

/* A condition that a test waits for. Evaluated under the lock. */
struct goal {
    bool (*reached)(const struct fake_server *server, const struct goal *goal);
    const char *name;
    size_t count;
};

static bool wait_for(struct fake_server *server, const struct goal *goal, unsigned timeout_ms)
{
    struct timespec deadline = test_timespec(test_deadline_ns(timeout_ms));
    int error = 0;

    pthread_mutex_lock(&server->lock);
    while (!goal->reached(server, goal) && error == 0)
        error = pthread_cond_timedwait(&server->changed, &server->lock, &deadline);
    bool reached = goal->reached(server, goal);
    pthread_mutex_unlock(&server->lock);
    return reached;
}

static bool records_reached(const struct fake_server *server, const struct goal *goal)
{
    return count_records(server, goal->name) >= goal->count;
}

bool fake_server_wait_for(struct fake_server *server, const char *command, size_t count, unsigned timeout_ms)
{
    return wait_for(server, &(struct goal){records_reached, command, count}, timeout_ms);
}

static bool open_reached(const struct fake_server *server, const struct goal *goal)
{
    return count_open(server) == goal->count;
}

bool fake_server_wait_for_open(struct fake_server *server, size_t open, unsigned timeout_ms)
{
    return wait_for(server, &(struct goal){open_reached, NULL, open}, timeout_ms);
}

static bool accepted_reached(const struct fake_server *server, const struct goal *goal)
{
    return server->accepted >= goal->count;
}

bool fake_server_wait_for_accepted(struct fake_server *server, size_t accepted, unsigned timeout_ms)
{
    return wait_for(server, &(struct goal){accepted_reached, NULL, accepted}, timeout_ms);
}

static bool subscribers_reached(const struct fake_server *server, const struct goal *goal)
{
    return fake_session_subscribers(server, goal->name) == goal->count;
}

bool fake_server_wait_for_subscribers(struct fake_server *server, const char *channel, size_t count,
                                      unsigned timeout_ms)
{
    return wait_for(server, &(struct goal){subscribers_reached, channel, count}, timeout_ms);
}
