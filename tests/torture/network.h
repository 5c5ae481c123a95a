/*
 * A private network for one run: a namespace for the clients, which this process enters, and one for each node,
 * connected by a pair of virtual interfaces. The network disappears with its processes. It needs root, ip(8),
 * nsenter(1) and iptables(8); without them only loopback is used.
 */
#ifndef TORTURE_NETWORK_H
#define TORTURE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NETWORK_NODES = 9 };

enum network_way { NETWORK_TO_NODE = 1, NETWORK_FROM_NODE = 2 };

/* Returns false, with the reason in *why, if this is not possible here. Call it before any thread or server is
 * started. */
bool network_make(size_t nodes, const char **why);
bool network_is_made(void);

/* The address of a node in its namespace, and the PID of a process in it. Without a network these are "127.0.0.1"
 * and 0. */
const char *network_host(size_t node);
pid_t network_owner(size_t node);

/* Drops the packets in these directions (a set of enum network_way; 0: drops none). Only with a network. */
void network_cut(size_t node, unsigned ways);

#endif
