/*
 * One node: its connection and the requests on it. Never blocks the loop.
 *
 *   backoff -> resolving -> connecting -> handshake -> ready -> backoff ...
 * All requests go over one connection, which replies in order: so an undo is final, because it follows the request.
 */
#ifndef RL_NODE_H
#define RL_NODE_H

#include <stdbool.h>

#include "quorum/marker.h"
#include "quorum/tally.h"
#include "src/link/address.h"
#include "src/node/attempts.h"
#include "src/node/attest.h"
#include "src/node/command.h"
#include "src/node/flight.h"
#include "src/node/listener.h"

#define RL_RUN_ID_SIZE     41
#define RL_NODE_TEXT_SIZE  RL_LINK_TEXT_SIZE
#define RL_STALE_LINKS_MAX 8
#define RL_LACKING_SIZE    512
#define RL_NODE_HEARTBEAT  QUORUM_SECOND        /* of a client that holds or waits for something; longer in turn */
#define RL_NODE_IDLE       (60 * QUORUM_SECOND) /* of one that does not, at most; and how long a reading lasts */
#define RL_NODE_SPREAD     (2 * QUORUM_SECOND)  /* the time over which idle clients connect to a node that comes back */

enum rl_node_state {
    RL_NODE_BACKOFF,
    RL_NODE_RESOLVING,
    RL_NODE_CONNECTING,
    RL_NODE_HANDSHAKE,
    RL_NODE_READY,
    RL_NODE_CLOSED
};

/* The requests of a handshake. Those from SERVER to TIME are the guard's reading, which is repeated on a connection that
 * is ready; without the guard it ends with MEMORY. The marker comes behind the facts, and the clock behind the marker. */
enum rl_handshake_step {
    RL_STEP_AUTH,
    RL_STEP_SELECT,
    RL_STEP_NAME,
    RL_STEP_CLIENT_ID,
    RL_STEP_CLUSTER,
    RL_STEP_PERSISTENCE,
    RL_STEP_SERVER,
    RL_STEP_REPLICATION,
    RL_STEP_MEMORY,
    RL_STEP_STATISTICS,
    RL_STEP_COMMANDS,
    RL_STEP_MARKER,
    RL_STEP_TIME,
    RL_STEP_WRITE, /* the script that writes the marker, if that is necessary */
    RL_STEPS
};

struct rl_nodes;
struct rl_witnesses;

/* A name that results refer to: it stays as long as the client. */
struct rl_node_name {
    struct rl_node_name *next;
    char text[];
};

/* Connections that broke while replies were outstanding: the server may still execute their commands. The node's address
 * may lead to another server and back, as behind Sentinels, so each connection has its server. */
struct rl_stale_links {
    struct {
        int64_t client_id;           /* the server's ID of the connection; 0: none */
        char run_id[RL_RUN_ID_SIZE]; /* of the server process that assigned it */
    } link[RL_STALE_LINKS_MAX];
    unsigned count; /* ever recorded; a new one replaces the oldest */
};

/* Facts for operators. Only maxmemory_policy affects decisions: see rl_guard_evicts(). */
struct rl_facts {
    int append_only; /* 1, 0, -1 unknown */
    int snapshots;
    struct quorum_marker marker; /* as it was judged last */
    char maxmemory_policy[24];
    char append_fsync[12];
    char user[RL_USER_SIZE]; /* of the last AUTH, truncated; "default" if unnamed */
};

/* What the server says about itself at the handshake. */
struct rl_server {
    int64_t client_id;                /* its ID of this connection; 0: unknown */
    char run_id[RL_RUN_ID_SIZE];      /* of the server process; "": unknown */
    char last_run_id[RL_RUN_ID_SIZE]; /* when the node was last ready */
    char name[16];                    /* "redis", "valkey"; "" unknown */
    char version[24];
    bool gets;                     /* it executes SET with both NX and GET: Redis 7.0 and later, and Valkey */
    char unfit[RL_NODE_TEXT_SIZE]; /* the error text, if the server is too old, or hides a fact */
};

/* What the requests of a reading have shown so far. */
struct rl_reading {
    quorum_time sent;     /* the request for the evidence */
    quorum_time received; /* the reply to TIME */
    bool not_permitted;
    bool unreadable;    /* the marker key holds no text */
    bool jumped;        /* the marker must say that the clock jumped */
    const char *hidden; /* a fact that the server does not show; NULL: none */
    struct quorum_marker_facts facts;
    char role[16];
    char replid[41]; /* of the present replication history */
    char evicted[24];
    uint64_t time;                /* us, by the node's clock */
    struct quorum_marker written; /* as the script is to write it */
    uint16_t size;                /* of the marker's text; 0: none */
    char text[QUORUM_MARKER_SIZE];
};

struct rl_handshake {
    unsigned steps_left;
    char refusal[RL_NODE_TEXT_SIZE]; /* of AUTH or SELECT; "": none */
    struct rl_request steps[RL_STEPS];
    struct rl_request kill[RL_STALE_LINKS_MAX];
    struct rl_stale_links stale; /* stale connections, to be killed before any undo */
};

struct rl_heartbeat {
    struct rl_request request; /* TIME, without the guard; otherwise the heartbeat is a proof, or a reading */
    uint32_t round_trip_us;    /* of the last one */
    quorum_duration interval;  /* until the next one, at most: grows while the client is idle; less: see node.c */
    bool in_flight;
    bool again; /* send another one after its reply */
};

/* The marker that was seen last. */
struct rl_marker {
    bool known;
    uint64_t since; /* its last start, in ms of the node's clock */
    char nonce[sizeof((struct quorum_marker *)0)->nonce];
    uint64_t seen_us; /* when, by the node's clock */
};

/* Its end is in quorum/guard.h. */
struct rl_quarantine {
    bool on; /* as of the last reading; for the log and the counters */
    const char *why;
    char text[RL_NODE_TEXT_SIZE];
};

struct rl_node {
    struct rl_nodes *nodes; /* the set it belongs to */
    unsigned index;         /* in the set */
    struct rl_address *address;
    const char *name;           /* for messages and results: the address', or the master's with its present address */
    struct rl_node_name *names; /* all that it ever had, beside the address' */
    struct rl_witnesses *witnesses; /* NULL: the address does not change */
    quorum_time
        confirmed_until; /* its votes count before this, because its witnesses confirm its address; others: never ends */
    uint64_t term;       /* of the configuration that its witnesses confirm; see quorum/marker.h */
    bool awaits_master;  /* resolving: no address is confirmed */
    enum rl_node_state state;
    struct rl_timer timer; /* backoff: the next attempt; then until ready: the timeout; ready: the next heartbeat */
    struct rl_attempts attempts;
    struct rl_link link;
    struct rl_flight flight;
    struct rl_requests kept;      /* undos to send when the node is connected again */
    struct rl_listener *listener; /* the second connection; NULL until something waits, or without memory for it */
    struct rl_server server;
    struct rl_handshake handshake;
    struct rl_heartbeat heartbeat;
    struct rl_reading reading;
    struct rl_attest attest;
    struct rl_marker marker;
    struct rl_quarantine quarantine;
    bool suspect;      /* its clock or ours jumped: no verdict yet, or its marker does not say so yet */
    bool jumped;       /* the verdict: its marker must say so */
    bool forgot;       /* the node lost data while it was disconnected: renew its locks when it is ready */
    uint32_t findings; /* bits of enum redlock_finding */
    struct rl_facts facts;
    char *lacking;                           /* missing ACL rules, in RL_LACKING_SIZE bytes; NULL: never inspected */
    char renewal_failure[RL_NODE_TEXT_SIZE]; /* why the last failed renewal failed here, on this connection or before */
    struct rl_node_statistics statistics;
};

/* Whether a round can send to the node: now, perhaps soon, or not. */
enum rl_usability { RL_USABLE, RL_COMING, RL_OUT };

struct rl_usable {
    enum rl_usability is;
    bool permanent;        /* OUT: waiting does not help */
    enum quorum_vote vote; /* OUT: the vote that it counts as */
    const char *reason;    /* OUT: a text in the node, or static */
};

/* Prepares the node, which connects in the next turn. Copies the address. false: no memory; free it in any case. */
bool rl_node_open(struct rl_node *node, struct rl_nodes *nodes, unsigned index, const struct rl_address *address);

/* Closes the connection. Its requests, and the kept ones, end now. In a forked child it touches only memory and
 * descriptors. */
void rl_node_close(struct rl_node *node);

/* granting: for a new lock, which a node in quarantine does not grant. */
struct rl_usable rl_node_usable(struct rl_node *node, quorum_time now, bool granting);

/* Sends a heartbeat in the next turn of the loop, or after the reply to the one in flight. */
void rl_node_beat(struct rl_node *node);

/* The heartbeat has been answered by a proof, or by a reading. proven: the node is as it was judged; otherwise it is read
 * anew first. */
void rl_node_beat_answered(struct rl_node *node, bool proven, quorum_time sent, quorum_time now);

/* Replies have arrived that the loop has not read yet. */
bool rl_node_has_unread_replies(const struct rl_node *node);

/* The node can renew locks; it may, even where it may not grant new ones. */
bool rl_node_can_renew(const struct rl_node *node, quorum_time now);

/* Sends a formatted command of the floors above, which shows that the client uses the node; otherwise as
 * rl_flight_send(). */
bool rl_node_send(struct rl_node *node, struct rl_request *request, const struct rl_command *command, quorum_time now);

/* An acquire would only wait in the nodes' windows, or for connections. */
bool rl_nodes_are_crowded(struct rl_nodes *nodes);

/* The client may hold a lock with this ttl from now on. */
void rl_nodes_note_ttl(struct rl_nodes *nodes, quorum_duration ttl);

/* The nodes that a request can be sent to now. */
quorum_nodes rl_nodes_ready(const struct rl_nodes *nodes);

/* The longest reply timeout of all nodes. */
quorum_duration rl_nodes_timeout(const struct rl_nodes *nodes);

/* A request can be sent now. */
static inline bool rl_node_is_ready(const struct rl_node *node)
{
    return node->state == RL_NODE_READY;
}

/* A client that closes since `since` need not wait for the node: it has replied to all requests, or its time is over. */
bool rl_node_is_drained(const struct rl_node *node, quorum_time since, quorum_time now);

/* Keeps a request until the node is connected again. Beyond undos_max it drops the oldest. */
void rl_node_keep(struct rl_node *node, struct rl_request *request);

/* The number of undos without a reply, sent and kept. Other requests leave no key on the node. */
unsigned rl_node_unconfirmed_undos(const struct rl_node *node);

/* For the other files of this floor: breaks a connection that cannot be used, with the reason. */
void rl_node_break(struct rl_node *node, bool permanent, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rl_node_ready(struct rl_node *node);

/* The client's wakeup was signalled: a resolution may be done. */
void rl_node_resolved(struct rl_node *node);

/* The votes of the node count. */
static inline bool rl_node_is_confirmed(const struct rl_node *node, quorum_time now)
{
    return node->confirmed_until > now;
}

void rl_node_free(struct rl_node *node);

#endif
