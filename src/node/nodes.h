/*
 * The set of nodes of one client, and what its members share. The lock and client floors hear of what happens through `events`.
 */
#ifndef RL_NODES_H
#define RL_NODES_H

#include "quorum/clock_watch.h"
#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/link/adapter.h"
#include "src/link/tls.h"
#include "src/node/node.h"

struct rl_proof;

#define RL_CHANNEL_SIZE (128 + 17)

/* client: the owner given to rl_nodes_create(), opaque on this floor. */
struct rl_nodes_events {
    /* The node became usable, or stopped being so. */
    void (*node_changed)(redlock_client *client, struct rl_node *node);
    /* The node may have lost what it held: it restarted, was flushed, or its clock jumped. */
    void (*node_forgot)(redlock_client *client, unsigned node);
    /* Our own clock stopped, or jumped. */
    void (*clock_stopped)(redlock_client *client);
    /* Messages of the node reach us, or no longer do. */
    void (*listening)(redlock_client *client, unsigned node, bool listening);
    /* The node's second connection is up, or failed. */
    void (*listener_changed)(redlock_client *client);
    /* The node says that the lock of this key is free for us; `ahead` live waiters come first. */
    void (*woken)(redlock_client *client, unsigned node, unsigned ahead, const char *key, size_t size);
};

struct rl_nodes {
    struct rl_core *core;
    const struct rl_nodes_events *events;
    redlock_client *client;
    struct rl_writes writes;
    struct rl_tls *tls; /* NULL when no node needs it */
    char channel
        [RL_CHANNEL_SIZE]; /* where waiters of this client are woken, and its name in queues: the prefix and 16 random digits */
    struct quorum_clock_watch clock_watch;
    quorum_time clock_stopped;     /* when our own clock was last found to have stopped; 0: never */
    quorum_nodes unproven;         /* nodes that were sent grants since the last proof */
    struct rl_proof *spare_proofs; /* kept for reuse */
    unsigned count;
    struct rl_node node[];
};

/* No node is open yet. NULL: no memory. own_thread: the loop's thread is ours. */
struct rl_nodes *rl_nodes_create(struct rl_core *core, unsigned count, bool own_thread,
                                 const struct rl_nodes_events *events, redlock_client *client);

/* Gives the set its name and TLS context, and opens the nodes; nothing is sent before the loop turns. */
int rl_nodes_open(struct rl_nodes *nodes, const struct rl_address *addresses, redlock_result *result);

/* Ends all links; requests under way, and kept ones, are answered as dropped. */
void rl_nodes_close(struct rl_nodes *nodes);

void rl_nodes_free(struct rl_nodes *nodes);

/* Sends the proofs that are owed and writes what has gathered. */
void rl_nodes_flush(struct rl_nodes *nodes);

#endif
