/*
 * nodes.h - a look at the nodes from outside the sale
 */
#ifndef FLASH_SALE_NODES_H
#define FLASH_SALE_NODES_H

/*
 * Prints which nodes answer. Returns 1 when the lock is free on all that do and expected_missing or more do not;
 * else 0, and prints why. A process of its own looks, since a client may not be used across a fork.
 */
int nodes_inspect(const char *nodes, int expected_missing);

#endif
