/* A connection of hiredis to a server, which waits 20 seconds at the most for each reply and does not raise SIGPIPE. */
#ifndef TESTS_SUPPORT_RAW_CLIENT_H
#define TESTS_SUPPORT_RAW_CLIENT_H

#include "resp.h"

#include <hiredis/hiredis.h>
#include <stdint.h>

struct raw_client;

/* To a unix socket. The client registers itself for fixtures_end(), and ends the test if the server cannot be reached. */
struct raw_client *raw_client_connect(const char *path);
void raw_client_close(struct raw_client *client);

/* Sends a command, or one of words ended by NULL. Returns false and sets errno if it could not be sent. */
bool raw_client_send(struct raw_client *client, size_t argc, const struct resp_argument *argv);
bool raw_client_say(struct raw_client *client, ...) __attribute__((sentinel));

/* Returns the next reply, valid until the next call: as text (see raw_client_ask()), or as hiredis reads it. Without a
 * reply the text is hiredis' error, and the other function returns NULL. */
const char *raw_client_reply(struct raw_client *client);
const redisReply *raw_client_read(struct raw_client *client);

/* Number of bytes read that are not yet a complete reply. */
size_t raw_client_unread(const struct raw_client *client);

/* --- One command on a connection of its own --- */

struct raw_client_place {
    const char *path; /* of a unix socket; NULL: the host */
    const char *host;
    uint16_t port;
    const char *user;     /* NULL: the default user */
    const char *password; /* NULL: no AUTH */
};

/* Connects, logs in, sends the command and appends its reply as text: "OK", "17", the bytes of a bulk string, "(nil)",
 * "-ERR text", and the elements of an array one per line. Returns false if the server did not reply in time; the text is
 * then the reason. */
bool raw_client_ask(const struct raw_client_place *place, uint64_t deadline_ns, size_t argc,
                    const struct resp_argument *argv, struct bytes *text);

#endif
