#define _GNU_SOURCE
#include "raw_client.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000 };

struct raw_client {
    int fd;
    redisReader *reader;
    redisReply *reply; /* the last one */
    struct bytes text; /* of it */
};

static void close_all(struct raw_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    freeReplyObject(client->reply);
    redisReaderFree(client->reader);
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

struct raw_client *raw_client_connect(const char *path)
{
    struct raw_client *client = fixture_allocate(sizeof *client);
    *client = (struct raw_client){.fd = socket_connect_unix(path, test_deadline_ns(TIMEOUT_MS)),
                                  .reader = redisReaderCreate()};
    if (client->fd < 0)
        fixture_fail("cannot connect to %s: %s", path, strerror(errno));
    fixture_register(client, close_object);
    return client;
}

bool raw_client_send(struct raw_client *client, size_t argc, const struct resp_argument *argv)
{
    struct bytes command = {0};
    resp_write_command(&command, argc, argv);
    bool sent = socket_send_all(client->fd, command.data, command.length);
    bytes_free(&command);
    return sent;
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

/* NULL: errno has the reason; 0 is the end of the stream. */
const redisReply *raw_client_read(struct raw_client *client)
{
    char data[16384];
    void *reply = NULL;
    freeReplyObject(client->reply);
    client->reply = NULL;
    while (redisReaderGetReply(client->reader, &reply) == REDIS_OK && !reply) {
        ssize_t count = recv(client->fd, data, sizeof data, 0);
        if (count == 0)
            errno = 0;
        if (count > 0)
            redisReaderFeed(client->reader, data, (size_t)count);
        else if (count == 0 || errno != EINTR)
            return NULL;
    }
    if (!reply)
        errno = EPROTO;
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
        return errno == 0 ? "<end>" : errno == EAGAIN ? "<silence>" : errno == EPROTO ? "<garbage>" : "<reset>";
    client->text.length = 0;
    add_text(&client->text, reply, &elements);
    bytes_append(&client->text, "", 1);
    return client->text.data;
}

size_t raw_client_unread(const struct raw_client *client)
{
    return client->reader->len - client->reader->pos;
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
    struct raw_client client = {.reader = redisReaderCreate()};
    size_t elements = 0;
    client.fd = place->path ? socket_connect_unix(place->path, deadline_ns)
                            : socket_connect_to(place->host, place->port, deadline_ns);
    bool answered = client.fd >= 0 && (!place->password || log_in(&client, place)) &&
                    raw_client_send(&client, argc, argv) && raw_client_read(&client);
    if (answered)
        add_text(text, client.reply, &elements);
    else
        bytes_print(text, "%s: %s", place->path ? place->path : place->host, errno ? strerror(errno) : "closed");
    close_all(&client);
    return answered;
}
