/* A TCP proxy between a client and several servers on loopback, in a thread of its own: adds a delay to each direction of
 * each route, holds one or both directions back, breaks connections; all of it changeable at any time.
 *
 * The delay is that of a network: what is read at t is written at t + delay, and later data does not overtake. It does
 * not slow down the establishment of a connection, which the kernel does before the proxy sees it. A held direction is
 * that of a partition: bytes are not lost, as TCP would send them again; they arrive, in order, when it is let go.
 * What a function changes holds for everything read afterwards; hold and let_go at once for what is on its way. */
#ifndef TESTS_SUPPORT_DELAY_PROXY_H
#define TESTS_SUPPORT_DELAY_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delay_proxy;

enum proxy_direction { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2, PROXY_BOTH = PROXY_TO_SERVER | PROXY_TO_CLIENT };

/* One route for each port of 127.0.0.1, without delay. Registers itself for fixtures_end(). */
struct delay_proxy *delay_proxy_start(const uint16_t *server_ports, size_t routes);
/* To servers elsewhere: a numeric IPv4 address for each. */
struct delay_proxy *delay_proxy_start_to(const char *const *hosts, const uint16_t *server_ports, size_t routes);
/* NULL does nothing. */
void delay_proxy_stop(struct delay_proxy *proxy);

uint16_t delay_proxy_port(const struct delay_proxy *proxy, size_t route);
const char *delay_proxy_address(const struct delay_proxy *proxy, size_t route); /* "127.0.0.1:4711" */
const char *delay_proxy_nodes_string(const struct delay_proxy *proxy);          /* all of them, with commas */

/* One way, in microseconds; a round trip takes the sum of both directions. */
void delay_proxy_set_delay_us(struct delay_proxy *proxy, size_t route, enum proxy_direction direction,
                              uint32_t delay_us);

/* A one-way or full partition, and its end. New connections are accepted, but nothing passes. */
void delay_proxy_hold(struct delay_proxy *proxy, size_t route, enum proxy_direction direction);
void delay_proxy_let_go(struct delay_proxy *proxy, size_t route, enum proxy_direction direction);

/* Breaks the route's connections on both sides, by RST or by FIN, and throws away what was on its way. */
void delay_proxy_drop(struct delay_proxy *proxy, size_t route, bool reset);

/* While refused, new connections are refused; open ones stay. */
void delay_proxy_refuse(struct delay_proxy *proxy, size_t route, bool refused);

size_t delay_proxy_connections(struct delay_proxy *proxy, size_t route);
/* Bytes read from the given side (one direction) since the start: shows that something arrived. */
uint64_t delay_proxy_bytes(struct delay_proxy *proxy, size_t route, enum proxy_direction direction);

#endif
