#include "liars.h"

#include "src/node/guard.h"
#include "src/node/script.h"
#include "support/bytes.h"
#include "support/fixture.h"
#include "support/resp.h"
#include "support/sockets.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 64, TOKEN = 40 };

struct connection {
    int fd;
    unsigned node;
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

static bool is_token(const struct resp_argument *argument)
{
    return argument->length == TOKEN && strspn(argument->data, "0123456789abcdef") == TOKEN;
}

static const char *script_of(const struct resp_command *command)
{
    if (command->argc < 3 || !resp_command_is(command, "EVALSHA"))
        return command->argc >= 3 && resp_command_is(command, "EVAL") ? command->argv[1].data : NULL;
    for (unsigned i = 0; i < RL_SCRIPTS; i++)
        if (strcmp(command->argv[1].data, rl_scripts[i].sha1) == 0)
            return rl_scripts[i].text;
    return NULL;
}

static bool is_script(const struct resp_command *command, enum rl_script_id script)
{
    const char *text = script_of(command);
    return text && strcmp(text, rl_scripts[script].text) == 0;
}

/* Any reply that could count as a grant counts as one. */
static bool may_be_grant(const struct resp_command *command, const char *reply, size_t length)
{
    if (resp_command_is(command, "SET"))
        return length == 5 && memcmp(reply, "+OK\r\n", 5) == 0;
    if (!script_of(command) || is_script(command, RL_SCRIPT_RELEASE) || is_script(command, RL_SCRIPT_QUERY))
        return false;
    if (is_script(command, RL_SCRIPT_WAIT))
        return length > 8 && memcmp(reply, "*5\r\n:", 5) == 0 && memcmp(reply, "*5\r\n:0\r\n", 8) != 0;
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
        if (strcmp(grants[i].token, token) == 0)
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
        connections[count++] = (struct connection){.fd = fd, .node = node};
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

/* ---------------------------------------------------------------------------------------------------------- sending */

void liars_say(size_t index, const void *bytes, size_t size)
{
    struct connection *connection = &connections[index];
    bytes_append(&connection->out, bytes, size);
    match_replies(connection);
    socket_send_some(connection->fd, bytes, size); /* if the client has closed the connection, they do not matter */
}

#define HISTORY "0123456789abcdef0123456789abcdef01234567"

static void info(struct bytes *reply, unsigned node)
{
    char text[256];
    snprintf(text, sizeof text,
             "# Server\r\nredis_version:7.0.15\r\nrun_id:%040u\r\nrole:master\r\nmaster_replid:" HISTORY "\r\n", node);
    resp_write_text(reply, text);
}

static void guard(struct bytes *reply, const struct resp_command *command, unsigned node)
{
    char run_id[41];
    bool trust = resp_argument_is(&command->argv[command->argc - 4], "trust");
    snprintf(run_id, sizeof run_id, "%040u", node);
    resp_write_array(reply, RL_GUARD_ELEMENTS);
    resp_write_text(reply, run_id);
    resp_write_text(reply, "master");
    resp_write_integer(reply, 1700000000000000);
    resp_write_integer(reply, 0);
    resp_write_integer(reply, strtoll(command->argv[4].data, NULL, 10));
    resp_write_integer(reply, strtoll(command->argv[6].data, NULL, 10));
    resp_write_text(reply, trust ? "trusted" : "new");
    resp_write_text(reply, command->argv[5].data);
    resp_write_text(reply, "noeviction");
    resp_write_text(reply, "0123456789abcdef");
    resp_write_text(reply, "master " HISTORY " -\nmarker");
}

static void script(struct bytes *reply, const struct resp_command *command, unsigned node)
{
    size_t keys = (size_t)strtoull(command->argv[2].data, NULL, 10);
    if (is_script(command, RL_SCRIPT_GUARD)) {
        guard(reply, command, node);
    } else if (is_script(command, RL_SCRIPT_RENEW) || is_script(command, RL_SCRIPT_HEAL)) {
        char ones[256];
        memset(ones, '1', sizeof ones);
        resp_write_bulk(reply, ones, keys < sizeof ones ? keys : sizeof ones);
    } else if (is_script(command, RL_SCRIPT_QUERY)) {
        bytes_print(reply, "*4\r\n$-1\r\n:-2\r\n:0\r\n*2\r\n:%u\r\n$6\r\npermit\r\n", node);
    } else if (is_script(command, RL_SCRIPT_WAIT)) {
        const struct resp_argument *task = &command->argv[keys + 6];
        bytes_print(reply, "*5\r\n:%d\r\n:100\r\n:0\r\n:0\r\n:0\r\n", !resp_argument_is(task, "enqueue"));
    } else {
        resp_write_integer(reply, 1);
    }
}

static void subscribe(struct bytes *reply, const struct resp_command *command)
{
    resp_write_array(reply, 3);
    resp_write_text(reply, "subscribe");
    resp_write_text(reply, command->argc > 1 ? command->argv[1].data : "");
    resp_write_integer(reply, 1);
}

/* The reply of a healthy node. */
static void healthy(struct bytes *reply, const struct resp_command *command, unsigned node)
{
    if (resp_command_is(command, "CLIENT ID"))
        resp_write_integer(reply, 7);
    else if (resp_command_is(command, "INFO"))
        info(reply, node);
    else if (resp_command_is(command, "GET"))
        resp_write_text(reply, "marker");
    else if (resp_command_is(command, "SCRIPT"))
        resp_write_text(reply, "0123456789012345678901234567890123456789");
    else if (resp_command_is(command, "EVAL") || resp_command_is(command, "EVALSHA"))
        script(reply, command, node);
    else if (resp_command_is(command, "SUBSCRIBE"))
        subscribe(reply, command);
    else
        resp_write_status(reply, "OK");
}

void liars_answer(size_t index, size_t cut, long at, uint8_t byte)
{
    struct connection *connection = &connections[index];
    struct bytes reply = {0};
    if (connection->pending_count == 0)
        return;
    healthy(&reply, connection->pending[0], connection->node);
    if (at >= 0)
        reply.data[(size_t)at % reply.length] = (char)byte;
    liars_say(index, reply.data, cut < reply.length ? cut : reply.length);
    bytes_free(&reply);
}
