/* Commands about the connection itself: AUTH, SELECT, PING, CLIENT, SUBSCRIBE. */
#define _GNU_SOURCE
#include "fake_server_internal.h"

#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    const char *user = server->user ? server->user : "default";
    if (!server->password && command->argc == 2) {
        resp_write_error(session->reply, "ERR AUTH <password> called without any password configured for the default "
                                         "user. Are you sure your configuration is correct?");
        return;
    }
    bool known = command->argc == 2 ? strcmp(user, "default") == 0 : resp_argument_is(&command->argv[1], user);
    if (!known || (server->password && !resp_argument_is(password, server->password))) {
        resp_write_error(session->reply, "WRONGPASS invalid username-password pair or user is disabled.");
        return;
    }
    session->connection->authenticated = true;
    resp_write_status(session->reply, "OK");
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
    if (session->command->argc > 1)
        resp_write_bulk(session->reply, session->command->argv[1].data, session->command->argv[1].length);
    else
        resp_write_status(session->reply, "PONG");
}

static void client_kill(const struct session *session)
{
    unsigned long number = strtoul(session->command->argv[3].data, NULL, 10);
    struct fake_connection *victim = session->server->connections;
    while (victim && (victim->number != number || victim->state == FAKE_STATE_CLOSED))
        victim = victim->next;
    if (victim && victim != session->connection)
        fake_connection_end(victim, FAKE_CLOSE);
    resp_write_integer(session->reply, victim != NULL);
}

static void client(const struct session *session)
{
    const struct resp_command *command = session->command;
    if (resp_command_is(command, "CLIENT ID"))
        resp_write_integer(session->reply, session->connection->number);
    else if (resp_command_is(command, "CLIENT SETNAME") && command->argc == 3)
        resp_write_status(session->reply, "OK");
    else if (resp_command_is(command, "CLIENT KILL") && command->argc == 4 &&
             strcasecmp(command->argv[2].data, "ID") == 0)
        client_kill(session);
    else
        resp_write_error(session->reply, "ERR unknown subcommand or wrong number of arguments for 'client' command");
}

static void subscribe(const struct session *session)
{
    const struct resp_argument *channel = &session->command->argv[1];
    free(session->connection->channel);
    session->connection->channel = fixture_text("%s", channel->data);
    resp_write_array(session->reply, 3);
    resp_write_text(session->reply, "subscribe");
    resp_write_bulk(session->reply, channel->data, channel->length);
    resp_write_integer(session->reply, 1);
}

static const struct session_command {
    const char *name;
    size_t least; /* arguments, including the name */
    size_t most;
    void (*run)(const struct session *session);
} session_commands[] = {
    {"AUTH", 2, 3, auth},           {"SELECT", 2, 2, select_database},
    {"PING", 1, 2, ping},           {"CLIENT", 2, SIZE_MAX, client},
    {"SUBSCRIBE", 2, 2, subscribe},
};

static const struct session_command *find_command(const struct resp_command *command)
{
    for (size_t i = 0; i < sizeof session_commands / sizeof *session_commands; i++)
        if (resp_command_is(command, session_commands[i].name))
            return &session_commands[i];
    return NULL;
}

void fake_session_execute(struct fake_server *server, struct fake_connection *connection,
                          const struct resp_command *command, struct bytes *reply)
{
    const struct session session = {.server = server, .connection = connection, .command = command, .reply = reply};
    const struct session_command *known = find_command(command);
    if (!connection->authenticated && !resp_command_is(command, "AUTH"))
        resp_write_error(reply, "NOAUTH Authentication required.");
    else if (connection->channel)
        resp_write_error(reply,
                         "ERR Can't execute it: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
                         "allowed in this context");
    else if (known && (command->argc < known->least || command->argc > known->most))
        resp_write_error(reply, "ERR wrong number of arguments");
    else if (known)
        known->run(&session);
    else if (!fake_node_execute(server->node, connection->database, command, reply))
        bytes_print(reply, "-ERR unknown command '%.128s', with args beginning with: \r\n", command->argv[0].data);
}
