/*
 * nodes.h - inspects the nodes independently of the sale
 */
#ifndef FLASH_SALE_NODES_H
#define FLASH_SALE_NODES_H

/*
 * Prints which nodes reply. Returns 1 if the lock is free on all nodes that reply, and at least expected_missing nodes
 * do not reply; otherwise 0, and prints the reason. It runs in a separate process, because a client must not be used
 * across a fork.
 */
int nodes_inspect(const char *nodes, int expected_missing);

#endif
