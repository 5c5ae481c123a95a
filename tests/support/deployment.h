/* The nodes that the tests against real servers use: five new servers, or servers that run already.
 *
 * $REDLOCK_TEST_NODES names running servers, for cluster_adopt(). On them only keys under DEPLOYMENT_PREFIX are counted
 * and removed. */
#ifndef TESTS_SUPPORT_DEPLOYMENT_H
#define TESTS_SUPPORT_DEPLOYMENT_H

#include "cluster.h"

#include <stdbool.h>
#include <stddef.h>

/* The prefix of every key of a test. */
#define DEPLOYMENT_PREFIX "test:"

/* Patterns of the keys that the library keeps on a node permanently; ended by NULL. */
extern const char *const deployment_marks[];

struct deployment;

/* Returns true if there are nodes, or a server program, for the tests. Otherwise prints the missing part to stderr. */
bool deployment_available(void);

/* True if nodes can be stopped and killed. */
bool deployment_has_control(void);

/* Registers itself for fixtures_end(). is_own: new servers in any case. */
struct deployment *deployment_create(bool is_own);
/* NULL does nothing. Repairs foreign nodes that still have a fault. */
void deployment_destroy(struct deployment *deployment);

struct cluster *deployment_cluster(struct deployment *deployment);

/* Number of keys on the nodes that reply, without the library's permanent keys. */
size_t deployment_keys_left(struct deployment *deployment);
/* Their names, for a message; valid until the next call. */
const char *deployment_key_names(struct deployment *deployment);
void deployment_remove_keys(struct deployment *deployment);

#endif
