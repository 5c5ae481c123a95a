/*
 * src/node is one node: its connection and handshake, the guard and the proofs of its grants, requests and replies, the
 * Lua scripts, and the listener that receives wake-ups. struct rl_nodes is the set of a client's nodes. The floors
 * above receive its events through `struct rl_nodes_events`.
 *
 * Four files form a call cycle: attest, guard, handshake and node. node runs the connection and starts the handshake;
 * handshake, guard and attest send their requests through node, and make it break a connection that fails them. A reply
 * of the handshake or of a proof can change the guard's verdict, and the guard compares servers with handshake's help.
 */
#ifndef RL_NODES_H
#define RL_NODES_H

#include "quorum/clock_watch.h"
#include "quorum/guard.h"
#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/link/link.h"
#include "src/link/tls.h"
#include "src/node/command.h"
#include "src/node/node.h"

struct rl_locks;
struct rl_proofs;

#define RL_CHANNEL_SIZE (128 + 17)

/* A node has handed a lock over to this client. */
struct rl_handed {
    struct rl_text value; /* of the key */
    quorum_time since;    /* when the client sent the offer: before the grant */
    struct rl_text key;
    const char *shown; /* the proof; see quorum/attest.h */
    size_t shown_size;
};

/* What the client uses its nodes for. */
enum rl_engagement {
    RL_IDLE,
    RL_HOLDS, /* locks, and nothing else */
    RL_WAITS  /* an operation is in progress */
};

/* locks: as given to rl_nodes_create(); opaque on this floor. */
struct rl_nodes_events {
    enum rl_engagement (*engagement)(struct rl_locks *locks);
    /* The node has been sent its heartbeat in turn, and has the next turn after this interval. */
    void (*in_turn)(struct rl_locks *locks, unsigned node, quorum_duration interval);
    /* The node became usable or unusable, or its second connection is up, or failed. */
    void (*node_changed)(struct rl_locks *locks, struct rl_node *node);
    /* The node may have lost keys of held locks, because it restarted, was flushed, or its clock jumped; or it is connected
     * and has forgotten nothing, but lacks what it was not sent before. */
    void (*node_lacks)(struct rl_locks *locks, unsigned node, bool has_forgotten);
    /* Our own clock stopped, or jumped. */
    void (*clock_stopped)(struct rl_locks *locks);
    /* The node's messages reach this client from now on, or no longer do. */
    void (*listening)(struct rl_locks *locks, unsigned node, bool listening);
    /* The node notifies this client that the lock of this key is free; `ahead` live waiters are ahead of it. */
    void (*woken)(struct rl_locks *locks, unsigned node, const char *key, size_t size);
    void (*handed)(struct rl_locks *locks, unsigned node, const struct rl_handed *handed);
};

struct rl_nodes {
    struct rl_core *core;
    const struct rl_nodes_events *events;
    struct rl_locks *locks;
    struct rl_writes writes;
    struct rl_tls *tls;            /* NULL if no node uses TLS */
    char channel[RL_CHANNEL_SIZE]; /* the prefix and 16 random digits: wakes our waiters, and names them in queues */
    struct quorum_guard *guard;    /* with the guard on; like the next one behind the nodes, in the same memory */
    struct quorum_clock_watch *clock_watch;
    quorum_duration shortest_ttl; /* that a lock of this client has had; QUORUM_NEVER: none yet */
    uint64_t phase;               /* of the heartbeats; random */
    quorum_time clock_stopped;    /* when our own clock was last found to have stopped; 0: never */
    quorum_nodes unproven;        /* nodes that were sent requests for grants since the last proof */
    quorum_nodes aging;           /* nodes that get a look in any case */
    struct rl_proofs *proofs;     /* NULL without the guard */
    bool listens;                 /* a node without a listener has none because there was no memory for it */
    unsigned count;
    struct rl_node node[];
};

/* Creates the set; its nodes are not open. own_thread: the library runs the loop on its own thread. NULL: no memory. */
struct rl_nodes *rl_nodes_create(struct rl_core *core, unsigned count, bool own_thread,
                                 const struct rl_nodes_events *events, struct rl_locks *locks);

/* Creates the channel's name and the TLS context, and opens the nodes. Sends nothing before the loop runs. */
int rl_nodes_open(struct rl_nodes *nodes, const struct rl_address *addresses, redlock_result *result);

/* Closes all connections. Requests in flight end as broken, kept ones as dropped. */
void rl_nodes_close(struct rl_nodes *nodes);

void rl_nodes_free(struct rl_nodes *nodes);

/* How long a majority of the nodes usually takes to reply. */
quorum_duration rl_nodes_round_trip(const struct rl_nodes *nodes);

/* Sends the pending requests for proofs, and writes all pending data. */
void rl_nodes_flush(struct rl_nodes *nodes);

#endif
