/* One connection that says exactly what a test tells it to say and shows exactly what came back; never waits longer than
 * five seconds. */
#ifndef TESTS_SUPPORT_RAW_CLIENT_H
#define TESTS_SUPPORT_RAW_CLIENT_H

#include "bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_client;

/* Register themselves for fixtures_end(); end the test when the server cannot be reached. */
struct raw_client *raw_client_connect(bool ipv6, uint16_t port);
struct raw_client *raw_client_connect_unix(const char *path);
/* NULL does nothing. */
void raw_client_close(struct raw_client *client);
int raw_client_descriptor(const struct raw_client *client);

/* A command of words ended by NULL. False and errno when it could not be sent. */
bool raw_client_say(struct raw_client *client, ...) __attribute__((sentinel));
bool raw_client_send(struct raw_client *client, const void *data, size_t length);

/* The next reply as text (resp_reply_text()), valid until the next call. Instead of one: "<end>" at the end of the stream,
 * "<reset>" after an RST, "<silence>" when the time is over, "<garbage>" for what is no RESP. */
const char *raw_client_reply(struct raw_client *client);
/* The same as it came, in RESP, with a NUL behind its *size bytes: what is a text and what a number stays to be seen. */
const char *raw_client_reply_bytes(struct raw_client *client, size_t *size);
/* The same, waiting so long only. */
const char *raw_client_reply_within(struct raw_client *client, unsigned timeout_ms);

/* What is read but no whole reply yet. */
size_t raw_client_unread(const struct raw_client *client);

#endif
