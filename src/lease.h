/* A lock on the nodes: its key and token, who may have it, and until when it may be relied on. */
#ifndef RL_LEASE_H
#define RL_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "quorum/tally.h"
#include "quorum/time.h"
#include "redlock/redlock.h"

struct rl_lease;

/* What a successful acquire hands out. */
struct redlock_lock {
    struct rl_lease *lease;
};

struct rl_lease {
    unsigned references; /* the handle's, those of rounds and of requests under way; by the loop's thread only */
    redlock_client *client;
    struct redlock_lock handle;
    struct rl_lease *next; /* of the client's held ones */
    struct rl_lease *previous;
    struct rl_lease *chain; /* of the table's bucket */
    bool held;              /* on the list and in the table */
    uint32_t ttl_ms;
    uint64_t hash;
    quorum_nodes
        may_hold; /* nodes that were sent the token and have not said that they do not have it: what an undo goes to */
    _Atomic quorum_time validity_end; /* 0: lost, or not yet held. Read by any thread */
    char token[REDLOCK_TOKEN_SIZE];
    size_t key_size;
    size_t prefix_size;
    char key[]; /* prefix + resource, and a NUL */
};

struct rl_leases {
    struct rl_lease *first;
    struct rl_lease **buckets; /* by hash of the key; NULL until the first */
    size_t bucket_count;       /* a power of two */
    size_t count;
};

/* One reference, the caller's; its token is drawn fresh. NULL: status tells why. */
struct rl_lease *rl_lease_create(redlock_client *client, const char *resource, size_t size, int *status);
struct rl_lease *rl_lease_retain(struct rl_lease *lease);
void rl_lease_release(struct rl_lease *lease);

/* Acquired: the handle's reference is added. false: no memory for the table. */
bool rl_lease_hold(struct rl_lease *lease, quorum_time validity_end, uint32_t ttl_ms);

/* No longer the client's: off the list. The handle's reference stays. */
void rl_lease_drop(struct rl_lease *lease);

/* The lease is over for good. */
void rl_lease_lose(struct rl_lease *lease);

/* What is left of it; 0 when it is over. Any thread. */
quorum_duration rl_lease_validity(const struct rl_lease *lease);

/* A valid one on the resource, or NULL. */
struct rl_lease *rl_leases_find(redlock_client *client, const char *resource, size_t size);
void rl_leases_free(redlock_client *client);

#endif
