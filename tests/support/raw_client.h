/* One connection that sends exactly the bytes of a test and returns exactly the received ones. It waits 20 seconds at
 * the most. */
#ifndef TESTS_SUPPORT_RAW_CLIENT_H
#define TESTS_SUPPORT_RAW_CLIENT_H

#include "bytes.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_client;

/* They register themselves for fixtures_end(), and end the test if the server cannot be reached. */
struct raw_client *raw_client_connect(uint16_t port);
struct raw_client *raw_client_connect_unix(const char *path);
void raw_client_close(struct raw_client *client);

/* Sends a command of words ended by NULL. Returns false and sets errno if it could not be sent. */
bool raw_client_say(struct raw_client *client, ...) __attribute__((sentinel));
bool raw_client_send(struct raw_client *client, const void *data, size_t length);

/* Returns the next reply as text (resp_reply_text()), valid until the next call. Without a reply it returns "<end>"
 * at the end of the stream, "<reset>" after an RST, "<silence>" after the timeout, "<garbage>" for bytes that are
 * not RESP. */
const char *raw_client_reply(struct raw_client *client);
/* Returns the same as raw RESP, with a NUL after its *size bytes. So a string can be distinguished from a number. */
const char *raw_client_reply_bytes(struct raw_client *client, size_t *size);

/* Number of bytes read that are not yet a complete reply. */
size_t raw_client_unread(const struct raw_client *client);

/* --- One command on a connection of its own. Unlike hiredis this cannot hang, and does not raise SIGPIPE. --- */

struct raw_client_place {
    const char *path; /* of a unix socket; NULL: the host */
    const char *host;
    uint16_t port;
    const char *user;     /* NULL: the default user */
    const char *password; /* NULL: no AUTH */
};

/* Connects, logs in, sends the command and reads its reply as RESP. Returns false if the server did not reply in
 * time; the reply is then a text with the reason. */
bool raw_client_ask(const struct raw_client_place *place, uint64_t deadline_ns, size_t argc,
                    const struct resp_argument *argv, struct bytes *reply);

#endif
