#include "liars.h"

#include "src/core/timer.h"
#include "support/fixture.h"
#include "support/node_model.h"
#include "support/sockets.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 64, TOKEN = 40 };

struct connection {
    int fd;
    unsigned node;
    struct sim_session session;
    struct bytes in;               /* from the client, not parsed yet */
    struct bytes out;              /* sent, and not yet a complete reply */
    struct resp_command **pending; /* requests without a complete reply, the oldest first */
    size_t pending_count;
    bool lost_track; /* the node sent bytes that are no reply: later bytes do not count */
};

static int listeners[LIARS];
static char *paths[LIARS];
static struct connection connections[CONNECTIONS];
static size_t count;
static struct sim_server servers[LIARS]; /* they know what a healthy node would reply */
static bool clocks_running;

/* Tokens that a node has granted; kept until liars_forget(). */
static struct grant {
    unsigned node;
    char token[TOKEN + 1];
} grants[4096];
static size_t grant_count;
static unsigned unreadable; /* nodes that sent bytes which hiredis may read and this parser rejects: possible grants */

void liars_listen(void)
{
    const char *directory = temp_dir_path(temp_dir_make());
    for (unsigned i = 0; i < LIARS; i++) {
        paths[i] = fixture_text("%s/%u", directory, i);
        listeners[i] = socket_listen_unix(paths[i]);
    }
}

const char *liars_list(const char *login, const char *parameters)
{
    static char list[2048];
    size_t used = 0;
    for (unsigned i = 0; i < LIARS; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%sunix://%s%s%s", i ? "," : "", login, paths[i],
                                 parameters);
    return list;
}

/* ----------------------------------------------------------------------------------------------------------- grants */

/* The random digits of a token, alone or with a time and a label behind them. */
static bool is_token(const struct resp_argument *argument)
{
    return argument->length >= TOKEN && strspn(argument->data, "0123456789abcdef") == TOKEN &&
           (argument->length == TOKEN || argument->data[TOKEN] == '/');
}

static bool is_script(const struct resp_command *command, const char *name)
{
    bool evaluates = resp_command_is(command, "EVAL") || resp_command_is(command, "EVALSHA");
    return evaluates && command->argc > 2 && (!name || sim_text_is(sim_script_name(command->argv[1]), name));
}

/* Any reply that could count as a grant counts as one. */
static bool may_be_grant(const struct resp_command *command, const char *reply, size_t length)
{
    if (resp_command_is(command, "SET")) {
        bool gets = command->argc > 4 && sim_text_is(command->argv[4], "GET"); /* nil: there was no key */
        return length == 5 && memcmp(reply, gets ? "$-1\r\n" : "+OK\r\n", 5) == 0;
    }
    if (!is_script(command, NULL) || is_script(command, "release") || is_script(command, "query"))
        return false;
    if (is_script(command, "wait"))
        return length > 8 && memcmp(reply, "*6\r\n:", 5) == 0 && memcmp(reply, "*6\r\n:0\r\n", 8) != 0;
    return reply[0] != '-' && memcmp(reply, "$-1", 3) != 0 && memcmp(reply, ":0\r\n", 4) != 0;
}

static void note_grants(unsigned node, const struct resp_command *command)
{
    for (size_t i = 1; i < command->argc; i++) {
        if (!is_token(&command->argv[i]) || grant_count == sizeof grants / sizeof *grants)
            continue;
        struct grant *grant = &grants[grant_count++];
        grant->node = node;
        memcpy(grant->token, command->argv[i].data, TOKEN);
    }
}

unsigned liars_granted(const char *token)
{
    unsigned nodes = unreadable;
    for (size_t i = 0; i < grant_count; i++)
        if (strncmp(grants[i].token, token, TOKEN) == 0)
            nodes |= 1u << grants[i].node;
    return (unsigned)__builtin_popcount(nodes);
}

static void drop_oldest(struct connection *connection)
{
    free(connection->pending[0]);
    connection->pending_count--;
    memmove(connection->pending, connection->pending + 1, connection->pending_count * sizeof *connection->pending);
}

/* The client closes the connection after a larger reply. It does so for deep nesting too, which this parser would
 * follow recursively. */
enum { REPLY_MOST = 1 << 16 };

/* Assigns complete replies to the requests, in order. */
static void match_replies(struct connection *connection)
{
    size_t used;
    while (!connection->lost_track && connection->pending_count && connection->out.length) {
        enum resp_progress progress = resp_parse_reply(connection->out.data, connection->out.length, &used);
        if (progress == RESP_INCOMPLETE && connection->out.length < REPLY_MOST)
            return;
        connection->lost_track = progress != RESP_WHOLE;
        if (connection->lost_track) {
            unreadable |= 1u << connection->node;
            return;
        }
        if (may_be_grant(connection->pending[0], connection->out.data, used))
            note_grants(connection->node, connection->pending[0]);
        drop_oldest(connection);
        bytes_consume(&connection->out, used);
    }
}

/* ------------------------------------------------------------------------------------------------------ connections */

static void accept_all(unsigned node, bool *news)
{
    int fd;
    while (count < CONNECTIONS && (fd = accept4(listeners[node], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        connections[count++] = (struct connection){.fd = fd, .node = node, .session.id = ++servers[node].last_id};
        *news = true;
    }
}

static void forget(size_t index)
{
    struct connection *connection = &connections[index];
    close(connection->fd);
    while (connection->pending_count)
        drop_oldest(connection);
    free(connection->pending);
    bytes_free(&connection->in);
    bytes_free(&connection->out);
    connections[index] = connections[--count];
}

static void parse_commands(struct connection *connection)
{
    size_t used;
    struct resp_command *command;
    while (resp_parse_command(connection->in.data, connection->in.length, &used, &command) == RESP_WHOLE) {
        connection->pending =
            fixture_reallocate(connection->pending, (connection->pending_count + 1) * sizeof *connection->pending);
        connection->pending[connection->pending_count++] = command;
        match_replies(connection); /* bytes sent before the request count as its reply, for the client too */
        bytes_consume(&connection->in, used);
        if (connection->in.length == 0)
            return;
    }
}

/* Returns false if the connection has ended. */
static bool read_all(struct connection *connection, bool *news)
{
    while (true) {
        ssize_t got = recv(connection->fd, bytes_room(&connection->in, 65536), 65536, 0);
        if (got < 0)
            return errno == EAGAIN;
        *news = true;
        if (got == 0)
            return false;
        connection->in.length += (size_t)got;
        parse_commands(connection);
    }
}

bool liars_take(void)
{
    bool news = false;
    for (unsigned i = 0; i < LIARS; i++)
        accept_all(i, &news);
    for (size_t i = count; i-- > 0;)
        if (!read_all(&connections[i], &news))
            forget(i);
    return news;
}

size_t liars_connections(void)
{
    return count;
}

size_t liars_pending(size_t connection)
{
    return connections[connection].pending_count;
}

void liars_hang_up(size_t connection)
{
    forget(connection);
}

void liars_forget(void)
{
    while (count)
        forget(count - 1);
    grant_count = 0;
    unreadable = 0;
}

/* Without keys except the marker of a node that an operator vouches for. */
static void restart(struct sim_server *server, unsigned node)
{
    char marker[128];
    sim_keyspace_clear(&server->keys);
    *server = (struct sim_server){.last_id = 0};
    snprintf(server->run_id, sizeof server->run_id, "%040u", node);
    snprintf(server->replid, sizeof server->replid, "%040u", node);
    snprintf(marker, sizeof marker, "2 %s 0 0 0 0 0 3000 %d trusted 0123456789abcdef default", server->run_id, LIARS);
    const struct resp_argument words[] = {resp_argument_of("SET"), resp_argument_of("redlock:marker"),
                                          resp_argument_of(marker)};
    struct bytes reply = {0};
    sim_keyspace_execute(&server->keys, sizeof words / sizeof *words, words, 0, &reply);
    bytes_free(&reply);
}

void liars_restart(bool clocks_run)
{
    for (unsigned i = 0; i < LIARS; i++)
        restart(&servers[i], i);
    clocks_running = clocks_run;
}

/* ---------------------------------------------------------------------------------------------------------- sending */

void liars_say(size_t index, const void *bytes, size_t size)
{
    struct connection *connection = &connections[index];
    bytes_append(&connection->out, bytes, size);
    match_replies(connection);
    socket_send_some(connection->fd, bytes, size); /* if the client has closed the connection, they do not matter */
}

void liars_answer(size_t index, size_t cut, long at, uint8_t byte)
{
    struct connection *connection = &connections[index];
    struct bytes reply = {0};
    if (connection->pending_count == 0)
        return;
    const struct resp_command *command = connection->pending[0];
    sim_server_execute(&servers[connection->node], &connection->session, command->argc, command->argv,
                       clocks_running ? (int64_t)(rl_now() / QUORUM_MICROSECOND) : 1000000000, &reply);
    if (at >= 0)
        reply.data[(size_t)at % reply.length] = (char)byte;
    liars_say(index, reply.data, cut < reply.length ? cut : reply.length);
    bytes_free(&reply);
}
