/*
 * A private network for one run: a namespace for the clients, which this process enters, and one for each node,
 * connected by a pair of virtual interfaces. The network disappears with its processes, and fixtures_end() returns to
 * the namespace from before. It needs root, ip(8), nsenter(1) and iptables(8); without them only loopback is used.
 */
#ifndef TESTS_SUPPORT_NETWORK_H
#define TESTS_SUPPORT_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { NETWORK_NODES = 9, NETWORK_CLIENTS = NETWORK_NODES };

enum network_way { NETWORK_TO_NODE = 1, NETWORK_FROM_NODE = 2 };

/* Returns false, with the reason in *why, if this is not possible here. Call it before any thread or server is
 * started. */
bool network_make(size_t nodes, const char **why);
bool network_is_made(void);

/* The address of a node in its namespace, and the PID of a process in it. Without a network these are "127.0.0.1"
 * and 0. */
const char *network_host(size_t node);
pid_t network_owner(size_t node);
/* The address at which the node reaches the clients. */
const char *network_clients(size_t node);

/* The calling thread, and each thread and process that it starts, is in the node's namespace from now on, until it
 * enters that of NETWORK_CLIENTS again. Its sockets stay where they were created. Only with a network. */
void network_enter(size_t node);

/* Drops the packets in these directions (a set of enum network_way; 0: drops none), except those that stay in the node's
 * namespace. Only with a network. */
void network_cut(size_t node, unsigned ways);

/* The same for one TCP port of the node, beside what is cut already; network_cut(node, 0) ends both. */
void network_cut_port(size_t node, uint16_t port);

#endif
