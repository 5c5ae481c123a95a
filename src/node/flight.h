/*
 * The requests in flight to one node: their order, their deadlines, and the window that bounds how many of them the
 * node has to answer. This file knows neither nodes nor locks.
 *
 * A request is part of its sender (a fan-out, the node), which must stay in memory until the request's last answer: the
 * node's replies are matched to the requests by their order.
 *
 * One timer serves all requests. It is moved only when it fires, so a request with a timely reply does not touch it.
 */
#ifndef RL_FLIGHT_H
#define RL_FLIGHT_H

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "quorum/attest.h"
#include "quorum/deadline.h"
#include "quorum/window.h"
#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/core/histogram.h"
#include "src/link/link.h"

struct rl_node;
struct rl_request;

enum rl_answer_kind {
    RL_ANSWER_REPLY,   /* last: the node's reply */
    RL_ANSWER_OVERDUE, /* not last: the node's timeout has passed; the connection stays, and a late reply may arrive */
    RL_ANSWER_BROKEN,  /* last: the connection broke; the node may have executed the command or not */
    RL_ANSWER_DROPPED  /* last, for kept requests only: it will not be sent */
};

struct rl_answer {
    enum rl_answer_kind kind;
    struct rl_node *node;
    quorum_time now;         /* read for this answer */
    const redisReply *reply; /* REPLY: lives for the call */
};

struct rl_request_type {
    void (*answered)(struct rl_request *request, const struct rl_answer *answer);
    /* Sends a request that was kept for a disconnected node. */
    bool (*send)(struct rl_request *request, struct rl_node *node);
    /* How many undos the request stands for, until its last answer. NULL: none. */
    unsigned (*undos)(const struct rl_request *request);
    /* The last call for a grant that has waited for its proof: of a plain request, or after rl_attest_await() in
     * answered(); unless answered() reports the end of the connection. */
    void (*proven)(struct rl_request *request, struct rl_node *node, enum quorum_proof proof, quorum_time now);
};

/* The sender's struct begins with this, and outlives its requests. */
struct rl_sender {
    const struct rl_request_type *type;
};

#define RL_REQUEST_BYTES_MAX ((1u << 25) - 1)

/* Half a cache line: with many in flight each is a miss. */
struct rl_request {
    const struct rl_sender *sender;
    struct rl_request *next; /* in the order of sending or keeping */
    union {
        quorum_time sent;
        uint64_t record; /* of a grant by a script, which waits for its proof: see struct rl_vote */
    };
    uint32_t latency_us; /* of its reply; 0: none yet */
    bool overdue : 1;    /* RL_ANSWER_OVERDUE was reported */
    bool use_eval : 1;   /* sent with the script's text instead of its hash */
    bool held : 1;       /* the node's window holds it back */
    bool plain : 1;      /* OK in reply is a grant, and the request for its proof has been sent behind it */
    bool gets : 1;       /* a SET with GET: nil in reply is the grant, and the holder's token a refusal */
    bool urgent : 1;     /* keeps a held lock: overtakes the requests that the window holds back */
    bool kept : 1;       /* was kept: it may follow requests that were made after it */
    uint32_t bytes : 25; /* of the command */
};

_Static_assert(sizeof(struct rl_request) <= 32, "two fit into a cache line");

struct rl_requests {
    struct rl_request *first;
    struct rl_request *last;
    unsigned count;
};

struct rl_node_statistics {
    uint64_t requests;
    uint64_t timeouts;
    uint64_t connections; /* those that became ready */
    uint64_t quarantines;
    struct rl_latency latency;
};

struct rl_flight {
    struct rl_node *node; /* for the answers only */
    struct rl_core *core;
    struct rl_link *link;
    struct rl_node_statistics *statistics;
    struct rl_requests sent;      /* in order: those that the node may have, then those that the window holds back */
    struct rl_request *last_free; /* the last one that the node may have; NULL: none */
    struct rl_request *held;      /* the first one that the window holds back */
    unsigned held_count;          /* of those */
    unsigned bytes;               /* of the requests that the node may have */
    struct rl_request *unwritten; /* the first one that the link has not written; NULL: unknown, or none */
    struct rl_request *punctual;  /* the first one that is not overdue */
    struct rl_request *timed;     /* the one that measures the round trip */
    bool times;                   /* round trips count: the node is ready */
    struct quorum_window window;
    struct quorum_round_trip round_trip;
    struct quorum_patience patience;          /* the bounds of the reply timeout */
    quorum_time heard;                        /* the last reply on this connection */
    quorum_time held_up;                      /* when this client's loop was last found to be the late one */
    struct rl_timer timer;                    /* the next timeout of a request, or the silence limit */
    void (*silent)(struct rl_flight *flight); /* no reply within the silence limit */
    /* A plain request was granted. Its sender is not read before the proof: with many in flight it is not in the cache. */
    void (*granted)(struct rl_node *node, struct rl_request *request);
};

static inline void rl_requests_append(struct rl_requests *queue, struct rl_request *request)
{
    request->next = NULL;
    *(queue->first ? &queue->last->next : &queue->first) = request;
    queue->last = request;
    queue->count++;
}

static inline struct rl_request *rl_requests_take(struct rl_requests *queue)
{
    struct rl_request *request = queue->first;
    assert(request && queue->count > 0);
    queue->first = request->next;
    queue->count--;
    assert((queue->first == NULL) == (queue->count == 0));
    return request;
}

void rl_request_note_latency(struct rl_request *request, quorum_time now);
void rl_request_answer(struct rl_request *request, struct rl_node *node, enum rl_answer_kind kind, quorum_time now,
                       const redisReply *reply);

/* patience, silent and granted are set by the caller before the first request. */
void rl_flight_init(struct rl_flight *flight, struct rl_node *node, struct rl_core *core, struct rl_link *link,
                    struct rl_node_statistics *statistics);

/* A new connection. No request may be in flight. */
void rl_flight_begin(struct rl_flight *flight);

/* The node is ready after `took`: from now on round trips count. */
void rl_flight_measure(struct rl_flight *flight, quorum_duration took);

/* Sends a request, at once or when the window has room. now: the time before the first node was sent it. false: the link
 * does not accept it, and answered() will not be called. */
bool rl_flight_send(struct rl_flight *flight, struct rl_request *request, const char *bytes, size_t size,
                    quorum_time now);

/* The link is about to be written. If this loop was busy since the requests were sent, their time counts from now: the
 * node must not be called late for it. */
void rl_flight_written(struct rl_flight *flight, quorum_time now);

/* Answers the oldest request. */
void rl_flight_replied(struct rl_flight *flight, const redisReply *reply);

/* Answers all requests as broken. The link must be closed. */
void rl_flight_break(struct rl_flight *flight, quorum_time now);

static inline bool rl_flight_is_empty(const struct rl_flight *flight)
{
    return !flight->sent.first;
}

/* The requests that the node may have, without those that the window holds back. */
static inline unsigned rl_flight_in_flight(const struct rl_flight *flight)
{
    return flight->sent.count - flight->held_count;
}

/* The reply timeout, by the measured round trip. */
quorum_duration rl_flight_timeout(const struct rl_flight *flight);

/* The node owes a reply for three timeouts: another request would only be one more to undo. */
bool rl_flight_is_stuck(const struct rl_flight *flight, quorum_time now);

#endif
