/* Sends one command to a Redis server, with a deadline. Unlike hiredis it cannot hang, and does not raise SIGPIPE. */
#ifndef TESTS_SUPPORT_REDIS_CLIENT_H
#define TESTS_SUPPORT_REDIS_CLIENT_H

#include "bytes.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_place {
    const char *path; /* of a unix socket; NULL: the host */
    const char *host;
    uint16_t port;
    const char *user;     /* NULL: the default user */
    const char *password; /* NULL: no AUTH */
};

/* Connects, logs in, sends the command and reads its reply as RESP. Returns false if the server did not reply in
 * time; the reply is then a text with the reason. */
bool redis_client_ask(const struct redis_place *place, uint64_t deadline_ns, size_t argc,
                      const struct resp_argument *argv, struct bytes *reply);

/* Receives until `in` begins with a complete reply of *used bytes. RESP_INCOMPLETE: errno has the reason; 0 is the end of
 * the stream. */
enum resp_progress redis_client_receive(int fd, struct bytes *in, size_t *used, uint64_t deadline_ns);

#endif
