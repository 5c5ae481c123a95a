/*
 * One node: its connection and what is under way on it. Never blocks the loop.
 *
 *   backoff -> resolving -> connecting -> handshake -> ready -> backoff ...
 *
 * Requests are answered in the order they were sent, on one connection: that is what makes an undo final.
 */
#ifndef RL_NODE_H
#define RL_NODE_H

#include <stdbool.h>

#include "quorum/deadline.h"
#include "quorum/tally.h"
#include "src/core/timer.h"
#include "src/link/adapter.h"
#include "src/link/address.h"
#include "src/link/resolver.h"
#include "src/node/attest.h"
#include "src/node/command.h"
#include "src/node/listener.h"
#include "src/node/request.h"

#define RL_RUN_ID_SIZE     41
#define RL_NODE_TEXT_SIZE  96
#define RL_STALE_LINKS_MAX 8
#define RL_NONCE_SIZE      17

enum rl_node_state {
    RL_NODE_BACKOFF,
    RL_NODE_RESOLVING,
    RL_NODE_CONNECTING,
    RL_NODE_HANDSHAKE,
    RL_NODE_READY,
    RL_NODE_CLOSED
};

enum rl_handshake_step {
    RL_STEP_AUTH,
    RL_STEP_SELECT,
    RL_STEP_NAME,
    RL_STEP_CLIENT_ID,
    RL_STEP_SERVER,
    RL_STEP_REPLICATION,
    RL_STEP_MEMORY,
    RL_STEP_PERSISTENCE,
    RL_STEP_GUARD,
    RL_STEP_SCRIPTS,
    RL_STEPS = RL_STEP_SCRIPTS + RL_SCRIPTS
};

struct rl_nodes;

struct rl_requests {
    struct rl_request *first;
    struct rl_request *last;
    unsigned count;
};

/* Links that broke with replies outstanding: what they were sent the server may still execute. */
struct rl_stale_links {
    int64_t client_id[RL_STALE_LINKS_MAX]; /* at the server; 0: none */
    unsigned count;                        /* that were ever noted; the oldest makes way */
    char run_id[RL_RUN_ID_SIZE];           /* of the server's process that knows them */
};

/* What it is like, for people: nothing is decided by it. */
struct rl_facts {
    int append_only; /* 1, 0, -1 unknown */
    int snapshots;
    uint32_t marker_nodes;
    uint32_t marker_max_ttl_ms;
    char maxmemory_policy[24];
    char append_fsync[12];
    char marker_why[12];
    char marker_deployment[72];
    char lacking[512];               /* ACL rules that the user lacks */
    char user[128];                  /* of the last AUTH, cut; "default" where it named none */
    char renewal[RL_NODE_TEXT_SIZE]; /* why the last renewal that failed on it did */
};

struct rl_node_statistics {
    uint64_t requests;
    uint64_t timeouts;
    uint64_t connections; /* that became ready */
    uint64_t quarantines;
    redlock_histogram latency;
};

struct rl_node {
    struct rl_nodes *nodes; /* the set it belongs to */
    unsigned index;         /* in the set */
    struct rl_address address;
    struct quorum_patience patience; /* with its answers */
    struct quorum_round_trip round_trip;
    quorum_duration connect_timeout; /* to connect and shake hands */

    enum rl_node_state state;
    char peer[RL_NUMERIC_SIZE];  /* the address of the link, or of the last one */
    struct rl_listener listener; /* the second connection */
    redisAsyncContext *context;  /* NULL: none, or on its way out */
    struct rl_adapter adapter;
    struct rl_timer timer;         /* backoff: next attempt; up to ready: give up; ready: heartbeat */
    struct rl_timer overdue_timer; /* the first of `sent` that is not overdue yet, or the silence limit */

    struct rl_requests sent;     /* waiting for their replies, in order */
    struct rl_request *waiting;  /* the first of them that is not overdue */
    struct rl_request *timed;    /* the one whose round trip is being measured */
    struct rl_requests kept;     /* undos to be sent when the node is back */
    struct rl_stale_links debts; /* of earlier links */

    struct rl_resolution *resolution; /* under way, or the last */
    unsigned attempt;                 /* which of the resolved addresses is tried */
    unsigned failures;                /* attempts in a row that did not become ready */
    bool permanent;                   /* what failed last will not pass by itself */
    char error[RL_NODE_TEXT_SIZE];    /* why it is not ready; "" before the first attempt ended */
    quorum_time connected_at;
    quorum_time ready_since;
    quorum_time heard;   /* last reply on this link */
    quorum_time held_up; /* when our own loop was last found too slow to blame the node */

    int64_t client_id;                /* of this link at the server; 0: unknown */
    char run_id[RL_RUN_ID_SIZE];      /* of the server's process; "" unknown */
    char last_run_id[RL_RUN_ID_SIZE]; /* when it was ready last */
    char server[16];                  /* "redis", "valkey"; "" unknown */
    char version[24];
    char too_old[RL_NODE_TEXT_SIZE]; /* says so, if it is */
    const char *unfit;               /* why its vote cannot count though it answers; NULL when it can */

    unsigned steps_left; /* of the handshake */
    struct rl_request steps[RL_STEPS];
    struct rl_request kill[RL_STALE_LINKS_MAX];
    struct rl_request heartbeat;
    struct rl_node_statistics statistics;
    uint32_t findings; /* bits of enum redlock_finding */
    struct rl_facts facts;
    char role[16];
    uint32_t round_trip_us;     /* of the last heartbeat */
    quorum_time quarantine_end; /* it grants no new lock before */
    const char *quarantine_why;
    char quarantine_text[RL_NODE_TEXT_SIZE];
    bool suspect;      /* its clock jumped, or ours: not judged yet, or not written down on it yet */
    bool jumped;       /* judged, and to be written down */
    bool writing_jump; /* the heartbeat under way does that */
    bool beating;      /* heartbeat is on its way */
    bool beat_again;   /* send another heartbeat when this one is answered */
    bool marker_known;
    uint64_t marker_since; /* what the marker said last, in ms of the node's clock */
    bool forgot;           /* its marker started anew while it was away */
    struct rl_attest attest;
    char marker_nonce[RL_NONCE_SIZE]; /* of the marker seen last; "" none */
    uint64_t marker_seen_us;          /* when, by the node's clock */
};

/* Whether a round can ask it. */
enum rl_usability { RL_USABLE, RL_COMING, RL_OUT };

struct rl_usable {
    enum rl_usability is;
    bool permanent;        /* OUT: waiting does not help */
    enum quorum_vote vote; /* OUT: how it counts */
    const char *reason;    /* OUT: a text of the node's, or static */
};

/* Prepares and starts connecting at the next turn. address is copied. */
void rl_node_open(struct rl_node *node, struct rl_nodes *nodes, unsigned index, const struct rl_address *address);

/* Ends the link; everything on it, and everything kept, is answered now. In a forked child nothing but memory and
 * descriptors is touched. */
void rl_node_close(struct rl_node *node);

/* granting: for a new lock, which a node in quarantine does not grant. */
struct rl_usable rl_node_usable(struct rl_node *node, quorum_time now, bool granting);

/* Sends a heartbeat at the next turn of the loop; where one is under way, behind its reply. */
void rl_node_beat(struct rl_node *node);

/* Replies have arrived, and the loop has not come to read them yet. */
bool rl_node_has_unread_replies(const struct rl_node *node);

/* Can it be asked to renew? It may be, where it may not grant. */
bool rl_node_can_renew(const struct rl_node *node, quorum_time now);

/* Sends a formatted command. false: the link does not take it, and there will be no answer. */
bool rl_node_send(struct rl_node *node, struct rl_request *request, const struct rl_command *command);

/* now: read for this command, before any node was sent it. */
bool rl_node_send_at(struct rl_node *node, struct rl_request *request, const struct rl_command *command,
                     quorum_time now);

/* How long an answer of it is waited for, by its measured round trip. */
quorum_duration rl_node_timeout(const struct rl_node *node);

/* The longest of them. */
quorum_duration rl_nodes_timeout(const struct rl_nodes *nodes);

/* Can something be sent now? */
bool rl_node_is_ready(const struct rl_node *node);

/* Keeps a request for when the node can be reached; the oldest kept is dropped beyond the bound. */
void rl_node_keep(struct rl_node *node, struct rl_request *request);

/* Undos that the node has not answered, sent and kept. What else it owes leaves nothing on it. */
unsigned rl_node_unconfirmed_undos(const struct rl_node *node);

/* For the node's other files: the link is of no use (any more), and why. */
void rl_node_break(struct rl_node *node, bool permanent, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rl_node_ready(struct rl_node *node);

/* The client's wakeup rang: a name may have been resolved. */
void rl_node_resolved(struct rl_node *node);

#endif
