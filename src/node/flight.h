/*
 * The requests in flight to one node: their order, their deadlines, and the window that bounds how many of them the
 * node has to answer. Its files know neither nodes nor locks.
 *
 * One timer serves all requests. It is moved only when it fires, so a request with a timely reply does not touch it.
 */
#ifndef RL_FLIGHT_H
#define RL_FLIGHT_H

#include <assert.h>
#include <stdbool.h>

#include "quorum/deadline.h"
#include "quorum/window.h"
#include "redlock/redlock.h"
#include "src/core/core.h"
#include "src/core/histogram.h"
#include "src/link/link.h"
#include "src/node/request.h"

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
