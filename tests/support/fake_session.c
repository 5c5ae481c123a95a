/* Commands about the connection itself: AUTH, HELLO, SELECT, PING, CLIENT, QUIT, SUBSCRIBE and PUBLISH. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { DATABASES = 16 };

struct session {
    struct fake_server *server;
    struct fake_connection *connection;
    const struct resp_command *command;
    struct bytes *reply;
};

static void auth(const struct session *session)
{
    const struct fake_server *server = session->server;
    const struct resp_command *command = session->command;
    const struct resp_argument *password = &command->argv[command->argc - 1];
    const char *user = server->user != NULL ? server->user : "default";

    if (server->password == NULL && command->argc == 2) {
        resp_write_error(session->reply, "ERR AUTH <password> called without any password configured for the default "
                                         "user. Are you sure your configuration is correct?");
        return;
    }
    bool known = command->argc == 2 ? strcmp(user, "default") == 0 : resp_argument_is(&command->argv[1], user);
    if (!known || (server->password != NULL && !resp_argument_is(password, server->password))) {
        resp_write_error(session->reply, "WRONGPASS invalid username-password pair or user is disabled.");
        return;
    }
    session->connection->authenticated = true;
    resp_write_status(session->reply, "OK");
}

static void hello(const struct session *session)
{
    resp_write_error(session->reply, "ERR unknown command 'HELLO', with args beginning with: ");
}

static void select_database(const struct session *session)
{
    char *end;
    unsigned long database = strtoul(session->command->argv[1].data, &end, 10);

    if (*end != '\0' || database >= DATABASES) {
        resp_write_error(session->reply, "ERR DB index is out of range");
        return;
    }
    session->connection->database = (unsigned)database;
    resp_write_status(session->reply, "OK");
}

static void ping(const struct session *session)
{
    const struct resp_command *command = session->command;

    if (session->connection->channels != NULL) {
        resp_write_array(session->reply, 2);
        resp_write_text(session->reply, "pong");
        resp_write_bulk(session->reply, command->argv[command->argc - 1].data,
                        command->argc > 1 ? command->argv[1].length : 0);
    } else if (command->argc > 1) {
        resp_write_bulk(session->reply, command->argv[1].data, command->argv[1].length);
    } else {
        resp_write_status(session->reply, "PONG");
    }
}

static void quit(const struct session *session)
{
    resp_write_status(session->reply, "OK");
    fake_connection_send(session->connection, session->reply->data, session->reply->length);
    session->reply->length = 0;
    fake_connection_end(session->connection, FAKE_SHUTDOWN);
}

static struct fake_connection *connection_numbered(struct fake_server *server, unsigned long number)
{
    struct fake_connection *connection = server->connections;

    while (connection != NULL && (connection->number != number || connection->state == FAKE_STATE_CLOSED))
        connection = connection->next;
    return connection;
}

static void client_kill(const struct session *session)
{
    const struct resp_command *command = session->command;

    if (command->argc != 4 || !resp_command_is(command, "CLIENT KILL") ||
        strcasecmp(command->argv[2].data, "ID") != 0) {
        resp_write_error(session->reply, "ERR syntax error");
        return;
    }
    unsigned long number = strtoul(command->argv[3].data, NULL, 10);
    struct fake_connection *victim = connection_numbered(session->server, number);
    if (victim != NULL && victim != session->connection)
        fake_connection_end(victim, FAKE_CLOSE);
    resp_write_integer(session->reply, victim != NULL);
}

static void client(const struct session *session)
{
    const struct resp_command *command = session->command;

    if (resp_command_is(command, "CLIENT ID")) {
        resp_write_integer(session->reply, session->connection->number);
    } else if (resp_command_is(command, "CLIENT SETNAME") && command->argc == 3) {
        free(session->connection->name);
        session->connection->name = fixture_text("%s", command->argv[2].data);
        resp_write_status(session->reply, "OK");
    } else if (resp_command_is(command, "CLIENT GETNAME")) {
        if (session->connection->name == NULL)
            resp_write_nil(session->reply);
        else
            resp_write_text(session->reply, session->connection->name);
    } else if (resp_command_is(command, "CLIENT KILL")) {
        client_kill(session);
    } else {
        resp_write_error(session->reply, "ERR unknown subcommand or wrong number of arguments for 'client' command");
    }
}

/* --- Publish and subscribe --- */

static struct fake_channel **find_channel(struct fake_connection *connection, const struct resp_argument *name)
{
    struct fake_channel **link = &connection->channels;

    while (*link != NULL && !resp_argument_is(name, (*link)->name))
        link = &(*link)->next;
    return link;
}

static long long channel_count(const struct fake_connection *connection)
{
    long long count = 0;

    for (const struct fake_channel *channel = connection->channels; channel != NULL; channel = channel->next)
        count++;
    return count;
}

static void confirm(const struct session *session, const char *kind, const struct resp_argument *name)
{
    resp_write_array(session->reply, 3);
    resp_write_text(session->reply, kind);
    if (name == NULL)
        resp_write_nil(session->reply);
    else
        resp_write_bulk(session->reply, name->data, name->length);
    resp_write_integer(session->reply, channel_count(session->connection));
}

static void subscribe(const struct session *session)
{
    for (size_t i = 1; i < session->command->argc; i++) {
        const struct resp_argument *name = &session->command->argv[i];
        struct fake_channel **link = find_channel(session->connection, name);
        if (*link == NULL) {
            *link = fixture_allocate(sizeof(**link));
            (*link)->name = fixture_text("%s", name->data);
        }
        confirm(session, "subscribe", name);
    }
}

static void drop_channel(struct fake_channel **link)
{
    struct fake_channel *channel = *link;

    *link = channel->next;
    free(channel->name);
    free(channel);
}

static void unsubscribe_all(const struct session *session)
{
    if (session->connection->channels == NULL)
        confirm(session, "unsubscribe", NULL);
    while (session->connection->channels != NULL) {
        char *text = fixture_text("%s", session->connection->channels->name);
        struct resp_argument name = {.data = text, .length = strlen(text)};
        drop_channel(&session->connection->channels);
        confirm(session, "unsubscribe", &name);
        free(text);
    }
}

static void unsubscribe(const struct session *session)
{
    if (session->command->argc == 1)
        unsubscribe_all(session);
    for (size_t i = 1; i < session->command->argc; i++) {
        const struct resp_argument *name = &session->command->argv[i];
        struct fake_channel **link = find_channel(session->connection, name);
        if (*link != NULL)
            drop_channel(link);
        confirm(session, "unsubscribe", name);
    }
}

static void write_message(struct bytes *out, const struct resp_argument *channel, const struct resp_argument *message)
{
    resp_write_array(out, 3);
    resp_write_text(out, "message");
    resp_write_bulk(out, channel->data, channel->length);
    resp_write_bulk(out, message->data, message->length);
}

size_t fake_session_publish(struct fake_server *server, const struct resp_argument *channel,
                            const struct resp_argument *message)
{
    struct bytes out = {0};
    size_t receivers = 0;

    write_message(&out, channel, message);
    for (struct fake_connection *connection = server->connections; connection != NULL; connection = connection->next) {
        if (connection->state == FAKE_STATE_CLOSED || *find_channel(connection, channel) == NULL)
            continue;
        fake_connection_send(connection, out.data, out.length);
        receivers++;
    }
    bytes_free(&out);
    return receivers;
}

static void publish(const struct session *session)
{
    const struct resp_command *command = session->command;
    size_t receivers = fake_session_publish(session->server, &command->argv[1], &command->argv[2]);

    resp_write_integer(session->reply, (long long)receivers);
}

size_t fake_session_subscribers(const struct fake_server *server, const char *channel)
{
    struct resp_argument name = {.data = channel, .length = strlen(channel)};
    size_t count = 0;

    for (struct fake_connection *connection = server->connections; connection != NULL; connection = connection->next)
        count += connection->state != FAKE_STATE_CLOSED && *find_channel(connection, &name) != NULL;
    return count;
}

void fake_session_free(struct fake_connection *connection)
{
    while (connection->channels != NULL)
        drop_channel(&connection->channels);
    free(connection->name);
}

/* --- Dispatch --- */

struct session_command {
    const char *name;
    size_t least; /* arguments, including the name */
    size_t most;
    bool before_auth;
    bool while_subscribed;
    void (*run)(const struct session *session);
};

static const struct session_command session_commands[] = {
    {"AUTH", 2, 3, true, false, auth},
    {"HELLO", 1, SIZE_MAX, true, false, hello},
    {"QUIT", 1, SIZE_MAX, true, true, quit},
    {"SELECT", 2, 2, false, false, select_database},
    {"PING", 1, 2, false, true, ping},
    {"CLIENT", 2, SIZE_MAX, false, false, client},
    {"SUBSCRIBE", 2, SIZE_MAX, false, true, subscribe},
    {"UNSUBSCRIBE", 1, SIZE_MAX, false, true, unsubscribe},
    {"PUBLISH", 3, 3, false, false, publish},
};

static const struct session_command *find_command(const struct resp_command *command)
{
    for (size_t i = 0; i < sizeof(session_commands) / sizeof(session_commands[0]); i++)
        if (resp_command_is(command, session_commands[i].name))
            return &session_commands[i];
    return NULL;
}

static bool may_run(const struct session *session, const struct session_command *known)
{
    const struct fake_connection *connection = session->connection;

    if (!connection->authenticated && (known == NULL || !known->before_auth)) {
        resp_write_error(session->reply, "NOAUTH Authentication required.");
        return false;
    }
    if (connection->channels != NULL && (known == NULL || !known->while_subscribed)) {
        bytes_print(session->reply,
                    "-ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                    "in this context\r\n",
                    session->command->argv[0].data);
        return false;
    }
    return true;
}

void fake_session_execute(struct fake_server *server, struct fake_connection *connection,
                          const struct resp_command *command, struct bytes *reply)
{
    struct session session = {.server = server, .connection = connection, .command = command, .reply = reply};
    const struct session_command *known = find_command(command);

    if (!may_run(&session, known))
        return;
    if (known != NULL && (command->argc < known->least || command->argc > known->most))
        resp_write_wrong_arguments(reply, known->name);
    else if (known != NULL)
        known->run(&session);
    else if (!fake_node_execute(server->node, connection->database, command, reply))
        bytes_print(reply, "-ERR unknown command '%.128s', with args beginning with: \r\n", command->argv[0].data);
}
