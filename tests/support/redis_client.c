#define _GNU_SOURCE
#include "redis_client.h"

#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

static bool explain(struct bytes *reply, const char *path, const char *what)
{
    reply->length = 0;
    bytes_print(reply, "%s: %s", path, what);
    return false;
}

static struct resp_argument word(const char *text)
{
    return (struct resp_argument){.data = text, .length = strlen(text)};
}

/* Returns true when `in` begins with a complete reply of *used bytes. */
static bool receive_reply(int fd, struct bytes *in, size_t *used, uint64_t deadline_ns)
{
    enum resp_progress progress;

    while ((progress = resp_parse_reply(in->data, in->length, used)) == RESP_INCOMPLETE) {
        long count = socket_receive(fd, bytes_room(in, CHUNK), CHUNK, deadline_ns);
        if (count <= 0) {
            errno = count == 0 ? ECONNRESET : errno;
            return false;
        }
        in->length += (size_t)count;
    }
    errno = EPROTO;
    return progress == RESP_WHOLE;
}

static void write_login(struct bytes *out, const struct redis_login *login)
{
    if (login->user != NULL)
        resp_write_command(out, 3, (struct resp_argument[]){word("AUTH"), word(login->user), word(login->password)});
    else
        resp_write_command(out, 2, (struct resp_argument[]){word("AUTH"), word(login->password)});
}

static bool exchange(int fd, const struct redis_login *login, uint64_t deadline_ns, const struct bytes *command,
                     struct bytes *reply)
{
    struct bytes out = {0};
    struct bytes in = {0};
    size_t used = 0;

    if (login->password != NULL)
        write_login(&out, login);
    bytes_append(&out, command->data, command->length);
    bool answered = socket_send_all(fd, out.data, out.length, deadline_ns);
    if (answered && login->password != NULL) {
        answered = receive_reply(fd, &in, &used, deadline_ns);
        if (answered)
            bytes_consume(&in, used);
    }
    answered = answered && receive_reply(fd, &in, &used, deadline_ns);
    int error = errno;
    if (answered)
        bytes_append(reply, in.data, used);
    bytes_free(&out);
    bytes_free(&in);
    errno = error;
    return answered;
}

bool redis_client_ask(const char *path, const struct redis_login *login, uint64_t deadline_ns, size_t argc,
                      const struct resp_argument *argv, struct bytes *reply)
{
    struct bytes command = {0};
    int fd = socket_connect_unix(path, deadline_ns);

    if (fd < 0)
        return explain(reply, path, strerror(errno));
    resp_write_command(&command, argc, argv);
    bool answered = exchange(fd, login, deadline_ns, &command, reply);
    if (!answered)
        explain(reply, path, strerror(errno));
    bytes_free(&command);
    close(fd);
    return answered;
}
