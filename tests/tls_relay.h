/* A TLS server in front of a plain one on loopback, in a thread of its own, for what a real server with TLS cannot be
 * made to do. One connection at a time: a new one takes the place of the old. */
#ifndef TESTS_TLS_RELAY_H
#define TESTS_TLS_RELAY_H

#include "tls_certificates.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_relay;

/* Shows the identity's certificate. protocol: TLS1_2_VERSION or TLS1_3_VERSION. Registers itself for fixtures_end(). */
struct tls_relay *tls_relay_start(const struct identity *identity, int protocol, uint16_t server_port);
void tls_relay_stop(struct tls_relay *relay);

uint16_t tls_relay_port(const struct tls_relay *relay);

/* How many handshakes were finished. */
unsigned tls_relay_handshakes(const struct tls_relay *relay);

/* TLS 1.3: sends nothing but a message of TLS' own, which changes the keys and asks the client to do the same. */
void tls_relay_change_keys(struct tls_relay *relay);
/* How often the client has. */
unsigned tls_relay_key_changes(const struct tls_relay *relay);

/* Breaks the connection by an RST in the middle of the next `count` handshakes. */
void tls_relay_break_handshakes(struct tls_relay *relay, unsigned count);

/* Reads nothing more from the client until it is let go. */
void tls_relay_hold(struct tls_relay *relay, bool held);

#endif
