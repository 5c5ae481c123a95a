/* A TCP proxy between a client and several servers on loopback, in a separate thread. It adds a delay to each
 * direction of each route, holds back one or both directions, and breaks connections. All of this can change at any
 * time.
 *
 * The delay is that of a network: bytes that are read at t are written at t + delay, and later bytes do not
 * overtake. It does not slow down connecting, because the kernel accepts before the proxy sees the connection. A
 * held direction is a partition: no bytes are lost, as TCP would send them again; they arrive in order when the
 * direction is released. New settings apply to everything read afterwards; hold and let_go also apply to bytes in
 * transit. */
#ifndef TESTS_SUPPORT_DELAY_PROXY_H
#define TESTS_SUPPORT_DELAY_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delay_proxy;

enum proxy_direction { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2, PROXY_BOTH = PROXY_TO_SERVER | PROXY_TO_CLIENT };

/* Opens one route for each port, without delay, to a numeric IPv4 address for each; hosts NULL: to 127.0.0.1. The proxy
 * registers itself for fixtures_end(). */
struct delay_proxy *delay_proxy_start(const char *const *hosts, const uint16_t *server_ports, size_t routes);

uint16_t delay_proxy_port(const struct delay_proxy *proxy, size_t route);
const char *delay_proxy_nodes_string(const struct delay_proxy *proxy); /* all routes, separated by commas */

/* From now on the connections of every route lead to the servers in turn, as through a load balancer. */
void delay_proxy_spread(struct delay_proxy *proxy);

/* One-way delay in microseconds. A round trip takes the sum of both directions. */
void delay_proxy_set_delay_us(struct delay_proxy *proxy, size_t route, enum proxy_direction direction,
                              uint32_t delay_us);

/* Begins and ends a one-way or full partition. The proxy accepts new connections, but forwards nothing. */
void delay_proxy_hold(struct delay_proxy *proxy, size_t route, enum proxy_direction direction);
void delay_proxy_let_go(struct delay_proxy *proxy, size_t route, enum proxy_direction direction);

/* Breaks the route's connections on both sides, by RST or by FIN, and drops the bytes in transit. */
void delay_proxy_drop(struct delay_proxy *proxy, size_t route, bool reset);

#endif
