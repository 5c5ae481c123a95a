/* Finds the queues of a client by their resources. */
#ifndef RL_QUEUE_TABLE_H
#define RL_QUEUE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct rl_lease;
struct rl_locks;
struct rl_names;
struct rl_queue;

/* The queue of the readers, or of the others, for a resource; NULL: none of them waits there, and none has within the
 * last second. */
struct rl_queue *rl_queue_find(struct rl_locks *locks, const struct rl_names *names, bool shared);

/* A waiter of this client has, or soon has, the entries on the nodes that one for this lease had: it waits for the same
 * resources. shared: as a reader. */
bool rl_queue_is_waiting(struct rl_locks *locks, const struct rl_lease *lease, bool shared);

/* The list with all queues for this resource, and others. count: of resources. */
struct rl_queue **rl_queue_table_bucket(struct rl_locks *locks, unsigned count, const char *key, size_t size);

void rl_queue_table_add(struct rl_queue *queue);
void rl_queue_table_remove(struct rl_queue *queue);

#endif
