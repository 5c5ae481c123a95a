/*
 * A network of a run's own: one namespace for the clients, which this process moves into, and one for each node, joined
 * by a pair of virtual interfaces. All of it is gone with the processes. Needs root, and ip(8), nsenter(1) and
 * iptables(8); without them there is loopback only.
 */
#ifndef TORTURE_NETWORK_H
#define TORTURE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NETWORK_NODES = 9 };

enum network_way { NETWORK_TO_NODE = 1, NETWORK_FROM_NODE = 2 };

/* false: not possible here, and *why says why. Before any thread or server is started. */
bool network_make(size_t nodes, const char **why);
bool network_is_made(void);

/* The address of a node in its namespace, and a process in it; "127.0.0.1" and 0 without a network. */
const char *network_host(size_t node);
pid_t network_owner(size_t node);

/* Drops the packets of these ways (a set of enum network_way), or none. */
void network_cut(size_t node, unsigned ways);

#endif
