#define _GNU_SOURCE
#include "redis_client.h"

#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

enum resp_progress redis_client_receive(int fd, struct bytes *in, size_t *used, uint64_t deadline_ns)
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

static void write_login(struct bytes *out, const struct redis_place *place)
{
    const char *user = place->user ? place->user : place->password;
    struct resp_argument words[] = {{"AUTH", 4}, {user, strlen(user)}, {place->password, strlen(place->password)}};
    resp_write_command(out, place->user ? 3 : 2, words);
}

bool redis_client_ask(const struct redis_place *place, uint64_t deadline_ns, size_t argc,
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
    if (answered && place->password) {
        answered = redis_client_receive(fd, &in, &used, deadline_ns) == RESP_WHOLE;
        if (answered)
            bytes_consume(&in, used);
    }
    answered = answered && redis_client_receive(fd, &in, &used, deadline_ns) == RESP_WHOLE;
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
