/* Sends one command to a Redis server over its unix socket, with a deadline. Unlike hiredis it cannot hang. */
#ifndef TESTS_SUPPORT_REDIS_CLIENT_H
#define TESTS_SUPPORT_REDIS_CLIENT_H

#include "bytes.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_login {
    const char *user;     /* NULL: the default user */
    const char *password; /* NULL: no AUTH */
};

/* Connects, logs in, sends the command and reads its reply as RESP. Returns false if the server did not reply in
 * time; the reply is then a text with the reason. */
bool redis_client_ask(const char *path, const struct redis_login *login, uint64_t deadline_ns, size_t argc,
                      const struct resp_argument *argv, struct bytes *reply);

#endif
