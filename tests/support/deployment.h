/* The nodes that the tests against real servers use: five servers of their own, or those that run already.
 *
 * $REDLOCK_TEST_NODES names running ones, host:port,host:port. $REDLOCK_NODE_CONTROL is then a command that takes an
 * action (kill, start, pause, unpause) and a node's number, counted from 1; without it nothing can be made to fail. Of
 * foreign nodes only keys under DEPLOYMENT_PREFIX are counted and removed. */
#ifndef TESTS_SUPPORT_DEPLOYMENT_H
#define TESTS_SUPPORT_DEPLOYMENT_H

#include "cluster.h"

#include <stdbool.h>
#include <stddef.h>

/* What every key of a test begins with. */
#define DEPLOYMENT_PREFIX "test:"

/* Patterns of the keys that the library keeps on a node for itself; ended by NULL. */
extern const char *const deployment_marks[];

struct deployment;

/* Is there anything to run against? Says on stderr what is missing. */
bool deployment_available(void);

/* Were the nodes started by somebody else? */
bool deployment_is_foreign(void);

/* Can nodes be stopped and killed? */
bool deployment_has_control(void);

/* Registers itself for fixtures_end(). */
struct deployment *deployment_create(void);
/* NULL does nothing. Foreign nodes that were made to fail are repaired. */
void deployment_destroy(struct deployment *deployment);

size_t deployment_size(const struct deployment *deployment);
const char *deployment_nodes(const struct deployment *deployment);

/* As cluster_command() and cluster_integer(). */
bool deployment_command(struct deployment *deployment, size_t node, char *reply, size_t size, ...)
    __attribute__((sentinel));
long long deployment_integer(struct deployment *deployment, size_t node, ...) __attribute__((sentinel));

/* Keys on the nodes that answer, the library's own marks left out. */
size_t deployment_keys_left(struct deployment *deployment);
/* Their names, for a message; valid until the next call. */
const char *deployment_key_names(struct deployment *deployment);
void deployment_remove_keys(struct deployment *deployment);

/* Faults; each has taken effect when the function returns. */
void deployment_kill(struct deployment *deployment, size_t node);
void deployment_start(struct deployment *deployment, size_t node);
void deployment_stop(struct deployment *deployment, size_t node);
void deployment_resume(struct deployment *deployment, size_t node);
/* Resumes what is stopped and starts what is killed. */
void deployment_repair(struct deployment *deployment);

#endif
