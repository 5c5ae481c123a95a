/* The connections of the fake server, and its thread. It reads commands, lets rules change the replies, and sends these
 * in order and on time. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- Output --- */

/* Takes the reply's memory. */
static void queue_segment(struct fake_connection *connection, struct bytes reply, const struct fake_rule *rule)
{
    struct fake_segment *segment = fixture_allocate(sizeof *segment);
    *segment = (struct fake_segment){
        .unsent = reply, .due_ns = test_deadline_ns(rule->reply_delay_ms), .held = rule->hold, .ending = rule->ending};
    *connection->last = segment;
    connection->last = &segment->next;
}

static void drop_first_segment(struct fake_connection *connection)
{
    struct fake_segment *segment = connection->first;
    connection->first = segment->next;
    if (!connection->first)
        connection->last = &connection->first;
    bytes_free(&segment->unsent);
    free(segment);
}

/* Returns false if the socket is full or broken. */
static bool send_segment(struct fake_connection *connection, struct bytes *unsent)
{
    long sent = socket_send_some(connection->fd, unsent->data, unsent->length);
    if (sent < 0) {
        fake_connection_end(connection, FAKE_CLOSE);
        return false;
    }
    bytes_consume(unsent, (size_t)sent);
    return unsent->length == 0;
}

static bool wants_output(const struct fake_connection *connection, uint64_t now_ns)
{
    return connection->state == FAKE_STATE_OPEN && connection->first && !connection->first->held &&
           connection->first->due_ns <= now_ns;
}

void fake_connection_write(struct fake_connection *connection)
{
    while (wants_output(connection, test_now_ns())) {
        if (!send_segment(connection, &connection->first->unsent))
            return;
        enum fake_ending ending = connection->first->ending;
        drop_first_segment(connection);
        fake_connection_end(connection, ending);
    }
}

void fake_connection_send(struct fake_connection *connection, const void *data, size_t length)
{
    static const struct fake_rule plain = {0};
    struct bytes message = {0};
    bytes_append(&message, data, length);
    queue_segment(connection, message, &plain);
    fake_connection_write(connection);
}

void fake_connection_end(struct fake_connection *connection, enum fake_ending ending)
{
    if (ending == FAKE_GO_ON || connection->state == FAKE_STATE_CLOSED)
        return;
    while (connection->first)
        drop_first_segment(connection);
    if (ending == FAKE_STALL) {
        connection->state = FAKE_STATE_STALLED;
    } else if (ending == FAKE_SHUTDOWN) {
        shutdown(connection->fd, SHUT_WR);
        connection->state = FAKE_STATE_DISCARDING;
    } else {
        if (ending == FAKE_RESET)
            socket_close_with_reset(connection->fd);
        else
            close(connection->fd);
        connection->state = FAKE_STATE_CLOSED;
        bytes_free(&connection->input);
    }
}

/* --- Input --- */

static void record(struct fake_server *server, const struct fake_connection *connection, struct resp_command *command)
{
    struct fake_record *entry = fake_server_keep(server, fixture_allocate(sizeof *entry));
    *entry = (struct fake_record){.connection = (unsigned)connection->session.id,
                                  .received_ns = test_now_ns(),
                                  .command = fake_server_keep(server, command)};
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
static void answer(struct fake_server *server, struct fake_connection *connection, const struct resp_command *command,
                   const struct fake_rule *rule)
{
    struct bytes reply = {0};
    if (command && !rule->skip)
        fake_server_execute(server, connection, command, &reply);
    shape_reply(&reply, rule);
    if (connection->state == FAKE_STATE_OPEN && (reply.length > 0 || rule->ending != FAKE_GO_ON))
        queue_segment(connection, reply, rule);
    else
        bytes_free(&reply);
    fake_connection_write(connection);
}

/* As Redis does: sends an error and closes. */
static void complain(struct fake_server *server, struct fake_connection *connection)
{
    static const char complaint[] = "-ERR Protocol error: expected '*' or '$'\r\n";
    server->protocol_errors++;
    fake_connection_send(connection, complaint, sizeof complaint - 1);
    fake_connection_end(connection, FAKE_SHUTDOWN);
}

/* Returns true if it has taken a command from the input. */
static bool take_command(struct fake_server *server, struct fake_connection *connection)
{
    struct resp_command *command;
    size_t used;
    enum resp_progress progress = resp_parse_command(connection->input.data, connection->input.length, &used, &command);
    if (progress == RESP_MALFORMED)
        complain(server, connection);
    if (progress != RESP_WHOLE)
        return false;
    bytes_consume(&connection->input, used);
    record(server, connection, command);
    answer(server, connection, command, fake_server_rule_for(server, connection, command));
    return true;
}

/* After a reply that ends the connection, the server executes no more commands: it is about to close. */
static bool ending_queued(const struct fake_connection *connection)
{
    for (const struct fake_segment *segment = connection->first; segment; segment = segment->next)
        if (segment->ending != FAKE_GO_ON)
            return true;
    return false;
}

static void take_commands(struct fake_server *server, struct fake_connection *connection)
{
    while (connection->state == FAKE_STATE_OPEN && !ending_queued(connection) && take_command(server, connection))
        ;
}

static bool wants_input(const struct fake_connection *connection)
{
    return connection->state == FAKE_STATE_OPEN || connection->state == FAKE_STATE_DISCARDING;
}

static void read_input(struct fake_server *server, struct fake_connection *connection)
{
    enum { CHUNK = 16384 };
    ssize_t count = recv(connection->fd, bytes_room(&connection->input, CHUNK), CHUNK, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        fake_connection_end(connection, FAKE_CLOSE);
    } else if (connection->state == FAKE_STATE_OPEN) {
        connection->input.length += (size_t)count;
        take_commands(server, connection);
    }
}

/* --- The thread --- */

static void add_connection(struct fake_server *server, int fd)
{
    struct fake_connection *connection = fake_server_keep(server, fixture_allocate(sizeof *connection));
    struct fake_connection **link = &server->connections;
    connection->fd = fd;
    connection->session.id = (int64_t)++server->accepted;
    connection->last = &connection->first;
    connection->authenticated = !server->password;
    while (*link)
        link = &(*link)->next;
    *link = connection;
    socket_no_delay(fd);
    answer(server, connection, NULL, fake_server_rule_for(server, connection, NULL));
}

void fake_connection_accept_all(struct fake_server *server)
{
    int fd;
    while (server->listener >= 0 && (fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        add_connection(server, fd);
}

/* Returns when the connection needs attention without an event. A segment that is due already waits for room in the
 * socket, not for a time. */
static uint64_t next_ns(const struct fake_connection *connection, uint64_t now_ns)
{
    const struct fake_segment *first = connection->first;
    bool waits = connection->state == FAKE_STATE_OPEN && first && !first->held && first->due_ns > now_ns;
    return waits ? first->due_ns : UINT64_MAX;
}

enum { WAKE, LISTENER, FIRST_CONNECTION };

/* Returns the number of polled descriptors. */
static size_t wait_for_events(struct fake_server *server, struct pollfd **polled)
{
    uint64_t now = test_now_ns(), next = UINT64_MAX;
    size_t count = FIRST_CONNECTION;
    for (const struct fake_connection *c = server->connections; c; c = c->next)
        count++;
    struct pollfd *poll = *polled = fixture_allocate(count * sizeof *poll);
    poll[LISTENER] = (struct pollfd){.fd = server->paused ? -1 : server->listener, .events = POLLIN};
    poll += FIRST_CONNECTION;
    for (const struct fake_connection *c = server->connections; c; c = c->next, poll++) {
        if (!server->paused)
            poll->events = (short)((wants_input(c) ? POLLIN : 0) | (wants_output(c, now) ? POLLOUT : 0));
        /* An unused descriptor is left out: its hang-up would wake the loop repeatedly. */
        poll->fd = poll->events ? c->fd : -1;
        if (!server->paused && next_ns(c, now) < next)
            next = next_ns(c, now);
    }
    poller_wait(&server->poller, *polled, count, next);
    return count;
}

/* A test may have added connections at the end meanwhile, or have closed some. */
void fake_connection_turn(void *arg)
{
    struct fake_server *server = arg;
    struct pollfd *polled;
    size_t count = wait_for_events(server, &polled), index = FIRST_CONNECTION;
    for (struct fake_connection *c = server->connections; c && index < count && !server->paused; c = c->next, index++) {
        if (polled[index].revents & (POLLIN | POLLHUP | POLLERR) && wants_input(c))
            read_input(server, c);
        fake_connection_write(c);
    }
    if (polled[LISTENER].revents && !server->paused)
        fake_connection_accept_all(server);
    free(polled);
}
