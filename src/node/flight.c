#include "src/node/flight.h"

#include <assert.h>
#include <stddef.h>

#include "src/core/histogram.h"
#include "src/core/timer.h"
#include "src/node/reply.h"

/* A shorter delay between sending and writing does not matter beside the shortest timeouts. */
#define LATE_WRITE (5 * QUORUM_MILLISECOND)

void rl_request_answer(struct rl_request *request, struct rl_node *node, enum rl_answer_kind kind, quorum_time now,
                       const redisReply *reply)
{
    assert((kind == RL_ANSWER_REPLY) == (reply != NULL));
    const struct rl_answer answer = {kind, node, now, reply};
    request->sender->type->answered(request, &answer);
}

void rl_request_note_latency(struct rl_request *request, quorum_time now)
{
    quorum_duration latency = quorum_time_since(request->sent, now) / QUORUM_MICROSECOND;
    request->latency_us = latency > UINT32_MAX ? UINT32_MAX : latency ? (uint32_t)latency : 1;
}

/* -------------------------------------------------------------------------------------------------------- deadlines */

quorum_duration rl_flight_timeout(const struct rl_flight *flight)
{
    return quorum_deadline_timeout(&flight->round_trip, &flight->patience);
}

static quorum_time silence_end(const struct rl_flight *flight)
{
    quorum_time since = flight->sent.first->sent > flight->heard ? flight->sent.first->sent : flight->heard;
    since = since > flight->held_up ? since : flight->held_up;
    return quorum_time_add(since, flight->core->options.silence_limit_ms * QUORUM_MILLISECOND);
}

/* A request that the window holds back has not reached the node. It is late only if the node is silent: then those in
 * front of it are late, too. */
static quorum_time due_at(const struct rl_flight *flight, const struct rl_request *request)
{
    if (!request->held)
        return quorum_deadline_due(&flight->round_trip, &flight->patience, request->sent, flight->heard);
    quorum_time since = request->sent > flight->heard ? request->sent : flight->heard;
    return quorum_time_add(since, rl_flight_timeout(flight));
}

/* Rounded up to milliseconds, so that the nodes of one round share a wake-up. */
static quorum_time overdue_at(const struct rl_flight *flight, const struct rl_request *request)
{
    quorum_time due = quorum_time_add(due_at(flight, request), QUORUM_MILLISECOND - 1);
    return due - due % QUORUM_MILLISECOND;
}

/* The silence limit may be below the node's timeout. */
static void watch_overdue(struct rl_flight *flight)
{
    if (!flight->sent.first)
        return;
    quorum_time due = silence_end(flight);
    if (flight->punctual && overdue_at(flight, flight->punctual) < due)
        due = overdue_at(flight, flight->punctual);
    rl_timer_set(&flight->core->timers, &flight->timer, due);
}

/* An urgent request goes in front of others that may be overdue already. */
static struct rl_request *first_punctual(struct rl_request *request)
{
    while (request && request->overdue)
        request = request->next;
    return request;
}

/* The timer stays set when the request that it was set for is answered. */
static bool is_anything_due(const struct rl_flight *flight, quorum_time now)
{
    return silence_end(flight) <= now || (flight->punctual && due_at(flight, flight->punctual) <= now);
}

static void on_overdue(struct rl_timer *timer)
{
    struct rl_flight *flight = (struct rl_flight *)(void *)((char *)timer - offsetof(struct rl_flight, timer));
    quorum_time now = rl_now();
    if (!flight->sent.first)
        return;
    if (!is_anything_due(flight, now)) {
        watch_overdue(flight);
        return;
    }
    /* This loop was late, not the node: write the pending requests and read the replies first. */
    if (flight->link->listed || rl_link_has_unread(flight->link)) {
        flight->held_up = now;
        rl_timer_set(&flight->core->timers, timer, now + QUORUM_MILLISECOND);
        return;
    }
    /* Before the silence limit: a late loop sees both pass at once, and the requests must time out in any case. */
    while (flight->punctual && due_at(flight, flight->punctual) <= now) {
        struct rl_request *request = flight->punctual;
        assert(!request->overdue);
        request->overdue = true;
        flight->punctual = first_punctual(request->next);
        flight->statistics->timeouts++;
        rl_request_answer(request, flight->node, RL_ANSWER_OVERDUE, now, NULL);
    }
    if (flight->sent.first && rl_link_is_open(flight->link) && now >= silence_end(flight))
        flight->silent(flight);
    else
        watch_overdue(flight);
}

bool rl_flight_is_stuck(const struct rl_flight *flight, quorum_time now)
{
    const struct rl_request *first = flight->sent.first;
    return first && first->overdue &&
           quorum_time_since(first->sent, now) > 3 * rl_flight_timeout(flight) + 100 * QUORUM_MILLISECOND;
}

/* ----------------------------------------------------------------------------------------------------------- window */

/* The request may leave. If the window held it back, its time counts from now. */
static void let_go(struct rl_flight *flight, struct rl_request *request)
{
    request->held = false;
    flight->last_free = request;
    flight->bytes += request->bytes;
    if (!flight->link->listed)
        flight->unwritten = request;
    rl_link_release(flight->link, request->bytes);
    if (!flight->timed && flight->times)
        flight->timed = request;
}

static void refill(struct rl_flight *flight, quorum_time now)
{
    while (flight->held && quorum_window_admits(&flight->window, flight->bytes)) {
        struct rl_request *request = flight->held;
        assert(request->held && flight->held_count > 0);
        flight->held = request->next;
        flight->held_count--;
        request->sent = now;
        let_go(flight, request);
    }
}

/* --------------------------------------------------------------------------------------------------------- requests */

void rl_flight_init(struct rl_flight *flight, struct rl_node *node, struct rl_core *core, struct rl_link *link,
                    struct rl_node_statistics *statistics)
{
    flight->node = node;
    flight->core = core;
    flight->link = link;
    flight->statistics = statistics;
    flight->timer.fire = on_overdue;
    quorum_window_init(&flight->window);
}

void rl_flight_begin(struct rl_flight *flight)
{
    assert(!flight->sent.first && !flight->held && !flight->timed);
    flight->times = false;
    quorum_window_init(&flight->window);
}

void rl_flight_measure(struct rl_flight *flight, quorum_duration took)
{
    flight->times = true;
    quorum_deadline_measured(&flight->round_trip, &flight->patience, took);
}

/* At the end of the queue. */
static bool append(struct rl_flight *flight, struct rl_request *request, const char *bytes, size_t size)
{
    if (!rl_link_append(flight->link, bytes, size))
        return false;
    rl_requests_append(&flight->sent, request);
    if (!flight->punctual)
        flight->punctual = request;
    if (!flight->held && (request->urgent || quorum_window_admits(&flight->window, flight->bytes))) {
        let_go(flight, request);
    } else {
        request->held = true;
        flight->held_count++;
        flight->held = flight->held ? flight->held : request;
    }
    return true;
}

/* In front of the requests that the window holds back. */
static bool insert(struct rl_flight *flight, struct rl_request *request, const char *bytes, size_t size)
{
    struct rl_request **link = flight->last_free ? &flight->last_free->next : &flight->sent.first;
    assert(flight->held && *link == flight->held);
    if (!rl_link_insert(flight->link, bytes, size))
        return false;
    request->next = flight->held;
    *link = request;
    flight->sent.count++;
    if (!flight->punctual || flight->punctual->held)
        flight->punctual = request;
    let_go(flight, request);
    return true;
}

bool rl_flight_send(struct rl_flight *flight, struct rl_request *request, const char *bytes, size_t size,
                    quorum_time now)
{
    assert(request->sender && request->sender->type->answered);
    if (size > RL_REQUEST_BYTES_MAX)
        return false;
    request->overdue = false;
    request->sent = now;
    request->bytes = (uint32_t)size & RL_REQUEST_BYTES_MAX;
    if (!(request->urgent && flight->held ? insert : append)(flight, request, bytes, size))
        return false;
    flight->statistics->requests++;
    /* No timeout is shorter than the configured one. The timer may be set for the silence limit, which is later. */
    if (!flight->timer.set || flight->timer.due > now + flight->patience.least)
        watch_overdue(flight);
    return true;
}

void rl_flight_written(struct rl_flight *flight, quorum_time now)
{
    struct rl_request *request = flight->unwritten;
    flight->unwritten = NULL;
    if (!request || !flight->link->listed || quorum_time_since(request->sent, now) < LATE_WRITE)
        return; /* one that is not listed has been written, or waits for the socket */
    for (; request && !request->held; request = request->next)
        request->sent = now;
}

static void note_round_trip(struct rl_flight *flight, const struct rl_request *request, quorum_time now)
{
    quorum_duration took = quorum_time_since(request->sent, now);
    flight->heard = now;
    if (flight->timed == request) {
        quorum_deadline_measured(&flight->round_trip, &flight->patience, took);
        quorum_window_measured(&flight->window, took, flight->patience.least);
        flight->timed = NULL;
    }
    rl_latency_add(&flight->statistics->latency, took);
}

static struct rl_request *take(struct rl_flight *flight)
{
    struct rl_request *request = rl_requests_take(&flight->sent);
    if (!request->held) {
        assert(flight->bytes >= request->bytes);
        flight->bytes -= request->bytes;
    }
    if (flight->punctual == request)
        flight->punctual = first_punctual(request->next);
    if (flight->unwritten == request)
        flight->unwritten = NULL;
    if (flight->last_free == request)
        flight->last_free = NULL;
    return request;
}

void rl_flight_replied(struct rl_flight *flight, const redisReply *reply)
{
    quorum_time now = rl_now();
    struct rl_request *request = take(flight);
    assert(!request->held);
    note_round_trip(flight, request, now);
    if (flight->held)
        refill(flight, now);
    if (request->plain && (request->gets ? reply->type == REDIS_REPLY_NIL : rl_reply_is_ok(reply))) {
        rl_request_note_latency(request, now);
        flight->granted(flight->node, request);
        return;
    }
    request->plain = false;
    rl_request_answer(request, flight->node, RL_ANSWER_REPLY, now, reply);
}

void rl_flight_break(struct rl_flight *flight, quorum_time now)
{
    assert(!rl_link_is_open(flight->link));
    flight->timed = flight->held = flight->last_free = flight->unwritten = NULL;
    flight->held_count = 0;
    while (flight->sent.first)
        rl_request_answer(take(flight), flight->node, RL_ANSWER_BROKEN, now, NULL);
    assert(!flight->punctual && flight->sent.count == 0 && flight->bytes == 0);
}
