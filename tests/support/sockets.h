/* Loopback and unix sockets for fixtures: close-on-exec, never raising SIGPIPE, every wait bounded. */
#ifndef TESTS_SUPPORT_SOCKETS_H
#define TESTS_SUPPORT_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some machines have no ::1; what needs it is skipped there. */
bool socket_ipv6_available(void);

/* A port of 127.0.0.1 (or ::1) that is ours for as long as the returned descriptor stays open: bound, not listening.
 * Nobody else is given it, a connect() to it is refused, and a listener with SO_REUSEADDR may come and go on it. */
int socket_reserve_port(bool ipv6, uint16_t *port);

/* Non-blocking listeners; they end the test if they cannot be had. */
int socket_listen(bool ipv6, uint16_t port);
int socket_listen_unix(const char *path);

/* Non-blocking connection under way to the loopback address; -1 and errno. */
int socket_connect_start(bool ipv6, uint16_t port);

/* The same to a numeric IPv4 address. */
int socket_connect_start_to(const char *ipv4, uint16_t port);

/* Connected non-blocking sockets; -1 and errno (ETIMEDOUT when the deadline passed). */
int socket_connect(bool ipv6, uint16_t port, uint64_t deadline_ns);
int socket_connect_unix(const char *path, uint64_t deadline_ns);

/* All bytes, or false and errno. */
bool socket_send_all(int fd, const void *data, size_t length, uint64_t deadline_ns);

/* At least one byte; 0 at the end of the stream; -1 and errno. */
long socket_receive(int fd, void *data, size_t size, uint64_t deadline_ns);

void socket_no_delay(int fd);

/* Closes with an RST instead of a FIN. */
void socket_close_with_reset(int fd);

#endif
