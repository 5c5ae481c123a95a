/* The fake server's thread. It waits for input, for room in a socket, for the time of a delayed reply, and for
 * requests of a test. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAKE, LISTENER, FIRST_CONNECTION };

static short wanted(const struct fake_server *server, const struct fake_connection *connection, uint64_t now_ns)
{
    short events = 0;

    if (server->paused)
        return 0;
    if (fake_connection_wants_input(connection))
        events |= POLLIN;
    if (fake_connection_wants_output(connection, now_ns))
        events |= POLLOUT;
    return events;
}

static struct pollfd *describe(const struct fake_server *server, size_t *count, uint64_t now_ns)
{
    size_t connections = 0;

    for (const struct fake_connection *c = server->connections; c != NULL; c = c->next)
        connections++;
    struct pollfd *polled = fixture_allocate((FIRST_CONNECTION + connections) * sizeof(*polled));
    polled[WAKE] = (struct pollfd){.fd = server->wake, .events = POLLIN};
    polled[LISTENER] = (struct pollfd){.fd = server->paused ? -1 : server->listener, .events = POLLIN};
    *count = FIRST_CONNECTION;
    for (const struct fake_connection *c = server->connections; c != NULL; c = c->next) {
        short events = wanted(server, c, now_ns);
        /* An unused descriptor is left out: its hang-up would wake the loop repeatedly. */
        polled[(*count)++] = (struct pollfd){.fd = events != 0 ? c->fd : -1, .events = events};
    }
    return polled;
}

static uint64_t next_ns(const struct fake_server *server, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    if (server->paused)
        return next;
    for (const struct fake_connection *c = server->connections; c != NULL; c = c->next) {
        uint64_t due = fake_connection_next_ns(c, now_ns);
        if (due < next)
            next = due;
    }
    return next;
}

static void wait_for_events(struct pollfd *polled, size_t count, uint64_t next, uint64_t now_ns)
{
    struct timespec left = test_timespec(next > now_ns ? next - now_ns : 0);

    if (ppoll(polled, count, next == UINT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
        fixture_fail("ppoll in the fake server failed: errno %d", errno);
}

static void do_job(struct fake_server *server)
{
    uint64_t wakes;

    (void)!read(server->wake, &wakes, sizeof(wakes));
    if (server->job == NULL)
        return;
    server->job(server, server->job_arg);
    server->job = NULL;
    server->jobs_done++;
    pthread_cond_broadcast(&server->changed);
}

static void serve_connections(struct fake_server *server, const struct pollfd *polled, size_t count)
{
    size_t index = FIRST_CONNECTION;

    for (struct fake_connection *c = server->connections; c != NULL && index < count; c = c->next, index++) {
        if (c->state != FAKE_STATE_CLOSED && (polled[index].revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
            fake_connection_wants_input(c))
            fake_connection_read(server, c);
        fake_connection_resume(server, c, test_now_ns());
        fake_connection_write(c);
    }
}

static void free_closed(struct fake_server *server)
{
    struct fake_connection **link = &server->connections;

    while (*link != NULL) {
        struct fake_connection *connection = *link;
        if (connection->state != FAKE_STATE_CLOSED) {
            link = &connection->next;
            continue;
        }
        *link = connection->next;
        fake_connection_free(connection);
        pthread_cond_broadcast(&server->changed);
    }
}

static void turn(struct fake_server *server)
{
    uint64_t now = test_now_ns();
    size_t count;
    struct pollfd *polled = describe(server, &count, now);
    uint64_t next = next_ns(server, now);

    pthread_mutex_unlock(&server->lock);
    wait_for_events(polled, count, next, now);
    pthread_mutex_lock(&server->lock);
    do_job(server);
    if (!server->paused) {
        serve_connections(server, polled, count);
        if (polled[LISTENER].revents != 0)
            fake_connection_accept_all(server);
    }
    free_closed(server);
    free(polled);
}

void *fake_loop_run(void *arg)
{
    struct fake_server *server = arg;

    pthread_mutex_lock(&server->lock);
    while (!server->quit)
        turn(server);
    while (server->connections != NULL) {
        struct fake_connection *connection = server->connections;
        server->connections = connection->next;
        fake_connection_free(connection);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}
