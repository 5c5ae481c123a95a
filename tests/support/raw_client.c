#define _GNU_SOURCE
#include "raw_client.h"

#include "clock.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { TIMEOUT_MS = 20000 };

struct raw_client {
    redisContext *context;
    redisReply *reply; /* the last one */
    struct bytes text; /* of it */
};

static void close_all(struct raw_client *client)
{
    redisFree(client->context);
    freeReplyObject(client->reply);
    bytes_free(&client->text);
}

void raw_client_close(struct raw_client *client)
{
    fixture_unregister(client);
    close_all(client);
    free(client);
}

static void close_object(void *client)
{
    raw_client_close(client);
}

/* Each wait ends by the time that is left now until the deadline. */
static redisContext *connect_to(const struct raw_client_place *place, uint64_t deadline_ns)
{
    int left_ms = test_ms_left(deadline_ns);
    const struct timeval limit = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000 + 1}; /* 0: no limit */
    redisContext *context = place->path ? redisConnectUnixWithTimeout(place->path, limit)
                                        : redisConnectWithTimeout(place->host, place->port, limit);
    if (!context)
        fixture_fail("out of memory for a connection");
    if (context->err == 0 && redisSetTimeout(context, limit) == REDIS_OK)
        (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    return context;
}

struct raw_client *raw_client_connect(const char *path)
{
    struct raw_client *client = fixture_allocate(sizeof *client);
    client->context = connect_to(&(struct raw_client_place){.path = path}, test_deadline_ns(TIMEOUT_MS));
    if (client->context->err != 0)
        fixture_fail("cannot connect to %s: %s", path, client->context->errstr);
    fixture_register(client, close_object);
    return client;
}

/* hiredis' own write could end the process by SIGPIPE. */
bool raw_client_send(struct raw_client *client, size_t argc, const struct resp_argument *argv)
{
    struct bytes command = {0};
    ssize_t sent = 0;
    resp_write_command(&command, argc, argv);
    while (command.length > 0 && (sent >= 0 || errno == EINTR)) {
        sent = send(client->context->fd, command.data, command.length, MSG_NOSIGNAL);
        bytes_consume(&command, sent > 0 ? (size_t)sent : 0);
    }
    bytes_free(&command);
    return sent >= 0;
}

bool raw_client_say(struct raw_client *client, ...)
{
    struct resp_argument argv[RESP_MOST_WORDS];
    va_list words;
    va_start(words, client);
    size_t argc = resp_words(argv, words);
    va_end(words);
    return raw_client_send(client, argc, argv);
}

const redisReply *raw_client_read(struct raw_client *client)
{
    void *reply = NULL;
    freeReplyObject(client->reply);
    redisGetReply(client->context, &reply);
    return client->reply = reply;
}

static void add_text(struct bytes *out, const redisReply *reply, size_t *elements)
{
    for (size_t i = 0; i < reply->elements; i++)
        add_text(out, reply->element[i], elements);
    if (reply->type == REDIS_REPLY_ARRAY)
        return;
    if ((*elements)++ > 0)
        bytes_print(out, "\n");
    if (reply->type == REDIS_REPLY_INTEGER)
        bytes_print(out, "%lld", reply->integer);
    else if (reply->type == REDIS_REPLY_NIL)
        bytes_print(out, "(nil)");
    else if (reply->type == REDIS_REPLY_ERROR)
        bytes_print(out, "-");
    bytes_append(out, reply->str, reply->len);
}

const char *raw_client_reply(struct raw_client *client)
{
    size_t elements = 0;
    const redisReply *reply = raw_client_read(client);
    if (!reply)
        return client->context->errstr;
    client->text.length = 0;
    add_text(&client->text, reply, &elements);
    bytes_append(&client->text, "", 1);
    return client->text.data;
}

size_t raw_client_unread(const struct raw_client *client)
{
    return client->context->reader->len - client->context->reader->pos;
}

static bool log_in(struct raw_client *client, const struct raw_client_place *place)
{
    struct resp_argument words[3] = {resp_argument_of("AUTH")};
    size_t count = 1;
    if (place->user)
        words[count++] = resp_argument_of(place->user);
    words[count++] = resp_argument_of(place->password);
    return raw_client_send(client, count, words) && raw_client_read(client);
}

bool raw_client_ask(const struct raw_client_place *place, uint64_t deadline_ns, size_t argc,
                    const struct resp_argument *argv, struct bytes *text)
{
    struct raw_client client = {.context = connect_to(place, deadline_ns)};
    size_t elements = 0;
    bool answered = client.context->err == 0 && (!place->password || log_in(&client, place)) &&
                    raw_client_send(&client, argc, argv) && raw_client_read(&client);
    if (answered)
        add_text(text, client.reply, &elements);
    else
        bytes_print(text, "%s: %s", place->path ? place->path : place->host,
                    client.context->err ? client.context->errstr : strerror(errno));
    close_all(&client);
    return answered;
}
