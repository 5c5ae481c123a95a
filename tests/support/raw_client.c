#define _GNU_SOURCE
#include "raw_client.h"

#include "clock.h"
#include "fixture.h"
#include "sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, CHUNK = 65536 };

struct raw_client {
    int fd;
    struct bytes in;
    struct bytes text;
};

static void close_object(void *client)
{
    raw_client_close(client);
}

static struct raw_client *wrap(int fd)
{
    if (fd < 0)
        fixture_fail("cannot connect: %s", strerror(errno));
    struct raw_client *client = fixture_allocate(sizeof *client);
    client->fd = fd;
    fixture_register(client, close_object);
    return client;
}

struct raw_client *raw_client_connect(uint16_t port)
{
    return wrap(socket_connect_to("127.0.0.1", port, test_deadline_ns(TIMEOUT_MS)));
}

struct raw_client *raw_client_connect_unix(const char *path)
{
    return wrap(socket_connect_unix(path, test_deadline_ns(TIMEOUT_MS)));
}

void raw_client_close(struct raw_client *client)
{
    fixture_unregister(client);
    close(client->fd);
    bytes_free(&client->in);
    bytes_free(&client->text);
    free(client);
}

bool raw_client_send(struct raw_client *client, const void *data, size_t length)
{
    return socket_send_all(client->fd, data, length, test_deadline_ns(TIMEOUT_MS));
}

bool raw_client_say(struct raw_client *client, ...)
{
    struct resp_argument argv[RESP_MOST_WORDS];
    struct bytes command = {0};
    va_list words;
    va_start(words, client);
    size_t argc = resp_words(argv, words);
    va_end(words);
    resp_write_command(&command, argc, argv);
    bool sent = raw_client_send(client, command.data, command.length);
    bytes_free(&command);
    return sent;
}

static const char *take_text(struct raw_client *client, size_t used)
{
    bytes_append(&client->text, "", 1);
    bytes_consume(&client->in, used);
    return client->text.data;
}

/* Receives until `in` begins with a complete reply of *used bytes. RESP_INCOMPLETE: errno has the reason; 0 is the end of
 * the stream. */
static enum resp_progress receive_reply(int fd, struct bytes *in, size_t *used, uint64_t deadline_ns)
{
    enum resp_progress progress;
    while ((progress = resp_parse_reply(in->data, in->length, used)) == RESP_INCOMPLETE) {
        long count = socket_receive(fd, bytes_room(in, CHUNK), CHUNK, deadline_ns);
        if (count == 0)
            errno = 0;
        if (count <= 0)
            return progress;
        in->length += (size_t)count;
    }
    return progress;
}

/* Returns NULL if a complete reply of *used bytes has been read; otherwise the text that stands for it. */
static const char *read_reply(struct raw_client *client, size_t *used)
{
    client->text.length = 0;
    switch (receive_reply(client->fd, &client->in, used, test_deadline_ns(TIMEOUT_MS))) {
    case RESP_WHOLE:
        return NULL;
    case RESP_MALFORMED:
        return "<garbage>";
    case RESP_INCOMPLETE:
        break;
    }
    return errno == 0 ? "<end>" : errno == ETIMEDOUT ? "<silence>" : "<reset>";
}

const char *raw_client_reply(struct raw_client *client)
{
    size_t used;
    const char *instead = read_reply(client, &used);
    if (instead)
        return instead;
    resp_reply_text(client->in.data, used, &client->text);
    return take_text(client, used);
}

const char *raw_client_reply_bytes(struct raw_client *client, size_t *size)
{
    const char *instead = read_reply(client, size);
    if (instead) {
        *size = strlen(instead);
        return instead;
    }
    bytes_append(&client->text, client->in.data, *size);
    return take_text(client, *size);
}

size_t raw_client_unread(const struct raw_client *client)
{
    return client->in.length;
}

static void write_login(struct bytes *out, const struct raw_client_place *place)
{
    const char *user = place->user ? place->user : place->password;
    struct resp_argument words[] = {{"AUTH", 4}, {user, strlen(user)}, {place->password, strlen(place->password)}};
    resp_write_command(out, place->user ? 3 : 2, words);
}

bool raw_client_ask(const struct raw_client_place *place, uint64_t deadline_ns, size_t argc,
                    const struct resp_argument *argv, struct bytes *reply)
{
    struct bytes out = {0}, in = {0};
    size_t used = 0;
    int fd = place->path ? socket_connect_unix(place->path, deadline_ns)
                         : socket_connect_to(place->host, place->port, deadline_ns);
    if (place->password)
        write_login(&out, place);
    resp_write_command(&out, argc, argv);
    bool answered = fd >= 0 && socket_send_all(fd, out.data, out.length, deadline_ns);
    for (unsigned owed = place->password ? 2 : 1; answered && owed > 0; owed--) {
        bytes_consume(&in, used);
        answered = receive_reply(fd, &in, &used, deadline_ns) == RESP_WHOLE;
    }
    if (answered)
        bytes_append(reply, in.data, used);
    else
        bytes_print(reply, "%s: %s", place->path ? place->path : place->host, errno ? strerror(errno) : "closed");
    if (fd >= 0)
        close(fd);
    bytes_free(&out);
    bytes_free(&in);
    return answered;
}
