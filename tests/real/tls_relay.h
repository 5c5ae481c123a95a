/* A TLS server in front of a plain server on loopback, for behaviour that a real TLS server cannot be made to show.
 * It runs in a separate thread. One connection at a time: a new one replaces the old one. */
#ifndef TESTS_REAL_TLS_RELAY_H
#define TESTS_REAL_TLS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_relay;

/* Presents the certificate of this name, of certificates_make(). protocol: TLS1_2_VERSION or TLS1_3_VERSION. fixtures_end() stops the relay. */
struct tls_relay *tls_relay_start(const char *name, int protocol, uint16_t server_port);
void tls_relay_stop(struct tls_relay *relay);

uint16_t tls_relay_port(const struct tls_relay *relay);

/* The number of completed handshakes. */
unsigned tls_relay_handshakes(const struct tls_relay *relay);

/* TLS 1.3: sends a key update, without data, and requests one from the client. There must be a client. */
void tls_relay_change_keys(struct tls_relay *relay);
/* The number of key updates by the client. */
unsigned tls_relay_key_changes(const struct tls_relay *relay);

/* held: accept no client and read nothing from the present one; not held: continue. */
void tls_relay_hold(struct tls_relay *relay, bool held);

#endif
