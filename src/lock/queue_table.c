#include "src/lock/queue_table.h"

#include <assert.h>

#include "src/lock/lease.h"
#include "src/lock/locks.h"
#include "src/lock/queue.h"

/* Queues for several resources are few, and share one bucket. */
struct rl_queue **rl_queue_table_bucket(struct rl_locks *locks, unsigned count, const char *key, size_t size)
{
    uint64_t hash = rl_hash(RL_HASH_OF_NOTHING, key, size);
    return &locks->queues.buckets[count > 1 ? RL_QUEUE_BUCKETS : (hash ^ hash >> 32) % RL_QUEUE_BUCKETS];
}

static struct rl_queue **bucket_of(struct rl_locks *locks, const struct rl_lease *lease)
{
    return rl_queue_table_bucket(locks, rl_lease_resources(lease), rl_lease_resource(lease, 0).bytes,
                                 rl_lease_resource(lease, 0).size);
}

struct rl_queue *rl_queue_find(struct rl_locks *locks, const struct rl_names *names, bool shared)
{
    assert(names->count >= 1);
    struct rl_queue *queue = *rl_queue_table_bucket(locks, names->count, names->name[0].bytes, names->name[0].size);
    while (queue && (queue->lease->shared != shared || !rl_lease_is_on(queue->lease, names)))
        queue = queue->next;
    return queue;
}

bool rl_queue_is_waiting(struct rl_locks *locks, const struct rl_lease *lease, bool shared)
{
    const struct rl_names names = rl_lease_names(lease);
    const struct rl_queue *queue = rl_queue_find(locks, &names, shared);
    return queue && queue->first && queue->known;
}

void rl_queue_table_add(struct rl_queue *queue)
{
    struct rl_queue **link = bucket_of(queue->locks, queue->lease);
    queue->next = *link;
    *link = queue;
}

void rl_queue_table_remove(struct rl_queue *queue)
{
    struct rl_queue **link = bucket_of(queue->locks, queue->lease);
    while (*link != queue) {
        assert(*link); /* every queue is in the table */
        link = &(*link)->next;
    }
    *link = queue->next;
}
