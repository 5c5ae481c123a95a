/* One connection of the fake server. It reads commands, lets rules change the replies, and sends these in order and
 * on time. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- Output --- */

static void queue_segment(struct fake_connection *connection, const struct bytes *reply, const struct fake_rule *rule)
{
    struct fake_segment *segment = fixture_allocate(sizeof(*segment));

    *segment = (struct fake_segment){.data = fixture_allocate(reply->length),
                                     .length = reply->length,
                                     .due_ns = test_now_ns() + (uint64_t)rule->reply_delay_ms * 1000000u,
                                     .held = rule->hold,
                                     .ending = rule->ending};
    if (reply->length > 0)
        memcpy(segment->data, reply->data, reply->length);
    *connection->last = segment;
    connection->last = &segment->next;
}

static void drop_first_segment(struct fake_connection *connection)
{
    struct fake_segment *segment = connection->first;

    connection->first = segment->next;
    if (connection->first == NULL)
        connection->last = &connection->first;
    free(segment->data);
    free(segment);
}

static void drop_segments(struct fake_connection *connection)
{
    while (connection->first != NULL)
        drop_first_segment(connection);
}

/* Returns false if the socket is full or broken. */
static bool send_segment(struct fake_connection *connection, struct fake_segment *segment)
{
    while (segment->sent < segment->length) {
        ssize_t count =
            send(connection->fd, segment->data + segment->sent, segment->length - segment->sent, MSG_NOSIGNAL);
        if (count >= 0) {
            segment->sent += (size_t)count;
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                fake_connection_end(connection, FAKE_CLOSE);
            return false;
        }
    }
    return true;
}

bool fake_connection_wants_output(const struct fake_connection *connection, uint64_t now_ns)
{
    return connection->state == FAKE_STATE_OPEN && connection->first != NULL && !connection->first->held &&
           connection->first->due_ns <= now_ns;
}

void fake_connection_write(struct fake_connection *connection)
{
    while (fake_connection_wants_output(connection, test_now_ns())) {
        if (!send_segment(connection, connection->first))
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
    queue_segment(connection, &message, &plain);
    bytes_free(&message);
    fake_connection_write(connection);
}

void fake_connection_end(struct fake_connection *connection, enum fake_ending ending)
{
    if (ending == FAKE_GO_ON || connection->state == FAKE_STATE_CLOSED)
        return;
    drop_segments(connection);
    if (ending == FAKE_STALL) {
        connection->state = FAKE_STATE_STALLED;
        return;
    }
    if (ending == FAKE_SHUTDOWN) {
        shutdown(connection->fd, SHUT_WR);
        connection->state = FAKE_STATE_DISCARDING;
        return;
    }
    if (ending == FAKE_RESET)
        socket_close_with_reset(connection->fd);
    else
        close(connection->fd);
    connection->fd = -1;
    connection->state = FAKE_STATE_CLOSED;
}

/* --- Input --- */

static const struct resp_command *record(struct fake_server *server, const struct fake_connection *connection,
                                         struct resp_command *command)
{
    struct fake_record *entry = fixture_allocate(sizeof(*entry));

    *entry = (struct fake_record){.connection = connection->number, .received_ns = test_now_ns(), .command = command};
    server->records = fixture_reallocate(server->records, (server->record_count + 1) * sizeof(server->records[0]));
    server->records[server->record_count++] = entry;
    pthread_cond_broadcast(&server->changed);
    return command;
}

static void shape_reply(struct bytes *reply, const struct fake_rule *rule)
{
    if (rule->reply != NULL) {
        reply->length = 0;
        bytes_append(reply, rule->reply, rule->reply_length);
    }
    if (rule->silent)
        reply->length = 0;
    if (rule->half)
        reply->length /= 2;
    bytes_append(reply, rule->extra, rule->extra_length);
}

static void execute(struct fake_server *server, struct fake_connection *connection, const struct resp_command *command,
                    const struct fake_rule *rule)
{
    struct bytes reply = {0};

    if (!rule->skip)
        fake_session_execute(server, connection, command, &reply);
    shape_reply(&reply, rule);
    if (connection->state == FAKE_STATE_OPEN && (reply.length > 0 || rule->ending != FAKE_GO_ON))
        queue_segment(connection, &reply, rule);
    bytes_free(&reply);
    fake_connection_write(connection);
}

static bool reading(const struct fake_connection *connection)
{
    return connection->state == FAKE_STATE_OPEN && connection->resume_ns == 0;
}

/* As Redis does: sends an error and closes. */
static void complain(struct fake_server *server, struct fake_connection *connection)
{
    static const char complaint[] = "-ERR Protocol error: expected '*' or '$'\r\n";

    server->protocol_errors++;
    fake_connection_send(connection, complaint, sizeof(complaint) - 1);
    fake_connection_end(connection, FAKE_SHUTDOWN);
}

/* Returns true if it has taken a command from the input. */
static bool take_command(struct fake_server *server, struct fake_connection *connection)
{
    struct resp_command *command;
    size_t used;

    switch (resp_parse_command(connection->input.data, connection->input.length, &used, &command)) {
    case RESP_INCOMPLETE:
        return false;
    case RESP_MALFORMED:
        complain(server, connection);
        return false;
    case RESP_WHOLE:
        break;
    }
    bytes_consume(&connection->input, used);
    const struct resp_command *recorded = record(server, connection, command);
    const struct fake_rule *rule = fake_rules_apply(server, connection, recorded);
    if (rule->delay_ms == 0) {
        execute(server, connection, recorded, rule);
    } else {
        connection->delayed = recorded;
        connection->delayed_rule = rule;
        connection->resume_ns = test_deadline_ns(rule->delay_ms);
    }
    return true;
}

/* After a reply that ends the connection, the server executes no more commands: it is about to close. */
static bool ending_queued(const struct fake_connection *connection)
{
    for (const struct fake_segment *segment = connection->first; segment != NULL; segment = segment->next)
        if (segment->ending != FAKE_GO_ON)
            return true;
    return false;
}

static void take_commands(struct fake_server *server, struct fake_connection *connection)
{
    while (reading(connection) && !ending_queued(connection) && take_command(server, connection))
        ;
}

bool fake_connection_wants_input(const struct fake_connection *connection)
{
    return reading(connection) || connection->state == FAKE_STATE_DISCARDING;
}

void fake_connection_read(struct fake_server *server, struct fake_connection *connection)
{
    enum { CHUNK = 16384 };
    bool keep = connection->state == FAKE_STATE_OPEN;
    char *room = bytes_room(&connection->input, CHUNK);
    ssize_t count = recv(connection->fd, room, CHUNK, 0);

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        fake_connection_end(connection, FAKE_CLOSE);
        return;
    }
    if (!keep)
        return;
    connection->input.length += (size_t)count;
    take_commands(server, connection);
}

void fake_connection_resume(struct fake_server *server, struct fake_connection *connection, uint64_t now_ns)
{
    const struct resp_command *command = connection->delayed;

    if (connection->state != FAKE_STATE_OPEN || connection->resume_ns == 0 || connection->resume_ns > now_ns)
        return;
    connection->resume_ns = 0;
    connection->delayed = NULL;
    if (command != NULL)
        execute(server, connection, command, connection->delayed_rule);
    take_commands(server, connection);
}

uint64_t fake_connection_next_ns(const struct fake_connection *connection, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    if (connection->state != FAKE_STATE_OPEN)
        return next;
    if (connection->resume_ns > 0)
        next = connection->resume_ns;
    /* A segment that is due already waits for room in the socket, not for a time. */
    if (connection->first != NULL && !connection->first->held && connection->first->due_ns > now_ns &&
        connection->first->due_ns < next)
        next = connection->first->due_ns;
    return next;
}

/* --- Start and end --- */

static void greet(struct fake_server *server, struct fake_connection *connection)
{
    const struct fake_rule *rule = fake_rules_apply(server, connection, NULL);
    struct bytes greeting = {0};

    shape_reply(&greeting, rule);
    if (greeting.length > 0 || rule->ending != FAKE_GO_ON)
        queue_segment(connection, &greeting, rule);
    bytes_free(&greeting);
    if (rule->delay_ms > 0)
        connection->resume_ns = test_deadline_ns(rule->delay_ms);
    fake_connection_write(connection);
}

static void add_connection(struct fake_server *server, int fd)
{
    struct fake_connection *connection = fixture_allocate(sizeof(*connection));
    struct fake_connection **link = &server->connections;

    connection->fd = fd;
    connection->number = (unsigned)++server->accepted;
    connection->last = &connection->first;
    connection->authenticated = server->password == NULL;
    while (*link != NULL)
        link = &(*link)->next;
    *link = connection;
    if (server->transport != FAKE_UNIX)
        socket_no_delay(fd);
    greet(server, connection);
    pthread_cond_broadcast(&server->changed);
}

void fake_connection_accept_all(struct fake_server *server)
{
    int fd;

    while (server->listener >= 0 && (fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        add_connection(server, fd);
}

void fake_connection_free(struct fake_connection *connection)
{
    fake_connection_end(connection, FAKE_CLOSE);
    bytes_free(&connection->input);
    fake_session_free(connection);
    free(connection);
}
