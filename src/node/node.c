#include "src/node/node.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum/heartbeat.h"
#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"
#include "src/node/witnesses.h"

_Static_assert(RL_NODE_HEARTBEAT == QUORUM_HEARTBEAT, "what is not heard in turn is heard this often");

static void schedule(struct rl_node *node, quorum_time due)
{
    rl_timer_set(&node->nodes->core->timers, &node->timer, due);
}

/* The node became usable or unusable. */
static void changed(struct rl_node *node)
{
    node->nodes->events->node_changed(node->nodes->locks, node);
}

/* Of the heartbeats. */
static quorum_time next_turn(const struct rl_node *node, quorum_duration interval, quorum_time now)
{
    return quorum_heartbeat_next(node->index, node->nodes->count, interval, node->nodes->phase, now);
}

/* The client uses the node again. */
static void end_idleness(struct rl_node *node, quorum_time now)
{
    quorum_time due = next_turn(node, RL_NODE_HEARTBEAT, now);
    node->heartbeat.interval = RL_NODE_HEARTBEAT;
    rl_link_rest(&node->link, false);
    if (node->state == RL_NODE_READY && node->timer.due > due)
        schedule(node, due);
}

/* --------------------------------------------------------------------------------------------------------- requests */

quorum_duration rl_nodes_timeout(const struct rl_nodes *nodes)
{
    quorum_duration longest = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (rl_flight_timeout(&nodes->node[i].flight) > longest)
            longest = rl_flight_timeout(&nodes->node[i].flight);
    return longest;
}

quorum_nodes rl_nodes_ready(const struct rl_nodes *nodes)
{
    quorum_nodes ready = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (rl_node_is_ready(&nodes->node[i]))
            ready |= quorum_node(i);
    return ready;
}

bool rl_node_send(struct rl_node *node, struct rl_request *request, const struct rl_command *command, quorum_time now)
{
    if (node->link.rests)
        end_idleness(node, now);
    return rl_flight_send(&node->flight, request, command->bytes, command->length, now);
}

void rl_node_keep(struct rl_node *node, struct rl_request *request)
{
    assert(request->sender->type->send);
    if (node->state == RL_NODE_CLOSED) {
        rl_request_answer(request, node, RL_ANSWER_DROPPED, 0, NULL);
        return;
    }
    if (node->kept.count >= node->nodes->core->options.undos_max) {
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING,
               "%s: more than %u undos kept; the oldest is dropped, and its key expires", node->name,
               node->nodes->core->options.undos_max);
        rl_request_answer(rl_requests_take(&node->kept), node, RL_ANSWER_DROPPED, rl_now(), NULL);
    }
    rl_requests_append(&node->kept, request);
}

unsigned rl_node_unconfirmed_undos(const struct rl_node *node)
{
    unsigned undos = node->kept.count;
    for (const struct rl_request *request = node->flight.sent.first; request; request = request->next)
        undos += request->sender->type->undos ? request->sender->type->undos(request) : 0;
    return undos;
}

/* ------------------------------------------------------------------------------------------------------- usability */

bool rl_node_has_unread_replies(const struct rl_node *node)
{
    return !rl_flight_is_empty(&node->flight) && rl_link_has_unread(&node->link);
}

bool rl_node_can_renew(const struct rl_node *node, quorum_time now)
{
    return node->state == RL_NODE_READY && !rl_guard_unfit(node) && !rl_flight_is_stuck(&node->flight, now);
}

/* An operation needs the node: the broken connection of an idle client is made at once. */
static bool is_coming(struct rl_node *node)
{
    bool coming = node->state != RL_NODE_READY && node->state != RL_NODE_CLOSED && node->attempts.failures == 0;
    quorum_time now;
    if (coming && node->state == RL_NODE_BACKOFF && node->timer.due > (now = rl_now()))
        schedule(node, now);
    return coming;
}

/* This client has stood still, and its witnesses will have replied soon. */
static bool awaits_confirmation(const struct rl_node *node, quorum_time now)
{
    return !rl_node_is_confirmed(node, now) && rl_witnesses_may_confirm(node->witnesses, now);
}

struct rl_usable rl_node_usable(struct rl_node *node, quorum_time now, bool granting)
{
    if (node->state == RL_NODE_READY) {
        const char *unfit = rl_guard_unfit(node);
        if (unfit)
            return (struct rl_usable){RL_OUT, rl_guard_unfit_is_permanent(node), QUORUM_REFUSED, unfit};
        if (granting && awaits_confirmation(node, now))
            return (struct rl_usable){RL_COMING, false, QUORUM_PENDING, ""};
        const char *objection = granting ? rl_guard_objection(node, now) : NULL;
        if (objection)
            return (struct rl_usable){RL_OUT, false, QUORUM_REFUSED, objection};
        if (rl_flight_is_stuck(&node->flight, now))
            return (struct rl_usable){RL_OUT, false, QUORUM_TIMED_OUT,
                                      "not sent: the node owes replies to earlier requests"};
        if (node->flight.sent.count >= node->nodes->core->options.pending_max)
            return (struct rl_usable){RL_OUT, false, QUORUM_UNREACHABLE,
                                      "not sent: pending_max requests wait for the node"};
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    }
    if (is_coming(node))
        return (struct rl_usable){RL_COMING, false, QUORUM_PENDING, ""};
    return (struct rl_usable){RL_OUT, node->attempts.permanent, QUORUM_UNREACHABLE, node->attempts.error};
}

static bool has_room(struct rl_node *node, quorum_time now)
{
    return !node->flight.held && rl_node_usable(node, now, true).is == RL_USABLE;
}

/* A node that hangs is not full, and one that does not grant does not matter: requests to it fail. */
static bool is_full(struct rl_node *node)
{
    return node->flight.held && rl_node_can_renew(node, rl_now()) && !rl_guard_objection(node, rl_now());
}

bool rl_nodes_are_crowded(struct rl_nodes *nodes)
{
    unsigned roomy = 0, awaited = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        awaited += is_coming(&nodes->node[i]) || is_full(&nodes->node[i]);
    if (!awaited)
        return false; /* as for almost every acquire */
    quorum_time now = rl_now();
    for (unsigned i = 0; i < nodes->count; i++)
        roomy += has_room(&nodes->node[i], now);
    return quorum_window_crowded(roomy, awaited, nodes->count);
}

bool rl_node_is_drained(const struct rl_node *node, quorum_time since, quorum_time now)
{
    const struct rl_flight *flight = &node->flight;
    if (rl_flight_is_empty(flight) && !node->kept.first)
        return true;
    /* A node that keeps replying gets more time; but not one that replies only to heartbeats, and refuses the undos
     * that are kept for it. */
    bool answering = flight->sent.count > node->heartbeat.in_flight && flight->heard > since;
    if (quorum_time_since(answering ? flight->heard : since, now) >= rl_flight_timeout(&node->flight))
        return true;
    /* A broken connection is reopened at once, and once more, so that the undos kept for the node can be sent. */
    return node->state != RL_NODE_READY && (node->attempts.permanent || node->attempts.failures > 2);
}

/* ------------------------------------------------------------------------------------- connecting and disconnecting */

/* Records a broken connection whose commands the server may still execute. A handshake sets no keys: it is not
 * recorded, and must not replace an earlier connection. */
static void remember_stale_link(struct rl_node *node)
{
    const struct rl_server *server = &node->server;
    struct rl_stale_links *stale = &node->handshake.stale;
    if (rl_flight_is_empty(&node->flight) || node->state != RL_NODE_READY || server->client_id == 0)
        return;
    unsigned oldest = stale->count++ % RL_STALE_LINKS_MAX;
    stale->link[oldest].client_id = server->client_id;
    memcpy(stale->link[oldest].run_id, server->run_id, sizeof server->run_id);
}

/* The connection has ended, or was not established. The state changes first: handlers of the ending requests must not
 * use this connection. */
static void end(struct rl_node *node, bool permanent)
{
    bool connecting = node->state == RL_NODE_CONNECTING, was_ready = node->state == RL_NODE_READY;
    if (node->state == RL_NODE_CLOSED)
        return;
    remember_stale_link(node);
    rl_link_close(&node->link);
    node->state = RL_NODE_BACKOFF;
    node->attempts.permanent = permanent;
    bool idle = was_ready && node->heartbeat.interval > RL_NODE_HEARTBEAT;
    quorum_duration spread = idle ? rl_random_u64(&node->nodes->core->random) % RL_NODE_SPREAD : 0;
    schedule(node,
             quorum_time_add(rl_attempts_failed(&node->attempts, node->nodes->core, connecting, was_ready), spread));
    rl_log(node->nodes->core, node->attempts.failures > 1 ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_WARNING, "%s: %s",
           node->name, node->attempts.error);
    rl_attest_end(node, rl_now());
    changed(node);
    rl_flight_break(&node->flight, rl_now());
}

void rl_node_break(struct rl_node *node, bool permanent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->attempts.error, sizeof node->attempts.error, format, arguments);
    va_end(arguments);
    end(node, permanent);
}

static struct rl_node *node_of(const struct rl_link *link)
{
    return (struct rl_node *)(void *)((char *)(uintptr_t)link - offsetof(struct rl_node, link));
}

static void on_connected(struct rl_link *link)
{
    struct rl_node *node = node_of(link);
    assert(node->state == RL_NODE_CONNECTING);
    node->state = RL_NODE_HANDSHAKE;
    node->attempts.connected_at = rl_now();
}

static bool expects_reply(const struct rl_link *link)
{
    return rl_flight_in_flight(&node_of(link)->flight) > 0;
}

/* With one reply too many, any of the replies may be the extra one. */
static void on_replied(struct rl_link *link, const redisReply *reply)
{
    struct rl_node *node = node_of(link);
    if (rl_flight_in_flight(&node->flight) <= rl_link_has_more(link))
        rl_node_break(node, false, "sent a reply to no request");
    else
        rl_flight_replied(&node->flight, reply);
}

static void on_ended(struct rl_link *link, const struct rl_link_end *why)
{
    struct rl_node *node = node_of(link);
    /* A TLS port ends a connection at the first byte that is not of TLS, often without a message. Its alerts begin with
     * the byte 21; any other byte that is not of the protocol comes from a server of another kind. */
    bool was_silent = node->state == RL_NODE_HANDSHAKE && node->flight.heard <= node->attempts.connected_at;
    bool is_foreign = strstr(why->text, "Protocol error") && !strstr(why->text, "\\x15");
    if (was_silent && !is_foreign && !node->address->tls && !node->address->path[0])
        snprintf(node->attempts.error, sizeof node->attempts.error, "no reply before %.48s; does this port speak TLS?",
                 why->text);
    else
        memcpy(node->attempts.error, why->text, sizeof node->attempts.error);
    end(node, why->permanent);
}

static void on_silent(struct rl_flight *flight)
{
    struct rl_node *node = (struct rl_node *)(void *)((char *)flight - offsetof(struct rl_node, flight));
    rl_node_break(node, false, "no reply for %u ms", node->nodes->core->options.silence_limit_ms);
}

static void connect_now(struct rl_node *node)
{
    static const struct rl_link_type type = {.reply_max = RL_REPLY_MAX,
                                             .connected = on_connected,
                                             .expects = expects_reply,
                                             .replied = on_replied,
                                             .ended = on_ended};
    struct rl_link_target target = rl_attempts_target(&node->attempts, node->address, node->nodes->tls);
    struct rl_link_end why;
    assert(node->state == RL_NODE_BACKOFF || node->state == RL_NODE_RESOLVING);
    node->state = RL_NODE_CONNECTING;
    rl_flight_begin(&node->flight);
    schedule(node, quorum_time_add(rl_now(), node->attempts.timeout));
    if (!rl_link_open(&node->link, &type, &target, &why)) {
        on_ended(&node->link, &why);
        return;
    }
    /* Queued now, so that it leaves with the connection's first write. A partial handshake could lack the database or
     * the guard. */
    if (!rl_handshake_start(node) && rl_link_is_open(&node->link))
        rl_node_break(node, false, "no memory for the handshake");
}

void rl_node_resolved(struct rl_node *node)
{
    const char *error;
    if (node->witnesses)
        rl_witnesses_resolved(node->witnesses);
    if (node->state != RL_NODE_RESOLVING || node->awaits_master || !rl_attempts_take_name(&node->attempts, &error))
        return;
    if (!*error)
        connect_now(node);
    else
        rl_node_break(node, false, "%s", error);
}

static void start(struct rl_node *node)
{
    assert(node->state == RL_NODE_BACKOFF);
    node->awaits_master = !rl_node_is_confirmed(node, rl_now());
    if (!node->awaits_master && !rl_attempts_need_name(&node->attempts, node->address)) {
        connect_now(node);
        return;
    }
    node->state = RL_NODE_RESOLVING;
    schedule(node, quorum_time_add(rl_now(), node->attempts.timeout));
    if (node->awaits_master)
        return;
    if (rl_attempts_resolve(&node->attempts, node->address, node->nodes->core->wakeup))
        rl_node_resolved(node);
    else
        rl_node_break(node, false, "cannot resolve the name: no thread or no memory");
}

/* --------------------------------------------------------------------------------------------------------- witnesses */

#define NAMES_MAX 64

/* Results keep pointers to the names. A master with ever new addresses has its listed name in the end. */
static void set_name(struct rl_node *node)
{
    char text[sizeof node->address->name + RL_MASTER_SIZE];
    const struct rl_address *address = node->address;
    bool is_v6 = strchr(address->host, ':');
    unsigned count = 0;
    snprintf(text, sizeof text, "%s (%s%s%s:%u)", address->master, is_v6 ? "[" : "", address->host, is_v6 ? "]" : "",
             (unsigned)address->port);
    node->name = address->name;
    for (struct rl_node_name *name = node->names; name; name = name->next, count++)
        if (strcmp(name->text, text) == 0)
            node->name = name->text;
    if (node->name != address->name || count >= NAMES_MAX)
        return;
    struct rl_node_name *name = rl_core_allocate(node->nodes->core, sizeof *name + strlen(text) + 1);
    if (!name)
        return;
    strcpy(name->text, text);
    name->next = node->names;
    node->names = name;
    node->name = name->text;
}

/* Starts to connect in the next turn, not from inside the reply of a witness. */
static void hurry(struct rl_node *node)
{
    if (node->state == RL_NODE_RESOLVING)
        node->state = RL_NODE_BACKOFF;
    if (node->state == RL_NODE_BACKOFF)
        schedule(node, rl_now());
}

/* The node's master is at this address from now on. */
static void follow(struct rl_node *node, const char *master)
{
    size_t host = strcspn(master, " ");
    assert(master[host] && host < sizeof node->address->host);
    if (rl_link_is_open(&node->link)) /* it uses the address */
        rl_node_break(node, false, "its master is %.40s now", master);
    memset(node->address->host, 0, sizeof node->address->host);
    memcpy(node->address->host, master, host);
    node->address->port = (uint16_t)strtoul(master + host, NULL, 10);
    rl_attempts_end(&node->attempts); /* of another name */
    node->attempts.address = node->attempts.failures = 0;
    set_name(node);
    rl_log(node->nodes->core, REDLOCK_LOG_INFO, "%s: it is the master now", node->name);
    hurry(node);
}

static void on_judged(struct rl_node *node, const struct rl_verdict *verdict)
{
    quorum_time now = rl_now();
    bool was_confirmed = rl_node_is_confirmed(node, now);
    for (uint32_t bit = 1; bit && !verdict->pending; bit <<= 1)
        if (bit & RL_FINDINGS_WITNESSES)
            rl_guard_find(node, bit, bit == verdict->finding);
    node->confirmed_until = verdict->confirmed_until;
    if (verdict->master)
        follow(node, verdict->master);
    bool again = !verdict->master && verdict->term > node->term;
    node->term = verdict->master || again ? verdict->term : node->term;
    if (again && node->state == RL_NODE_READY)
        rl_guard_doubt(node); /* it may have been failed over, there and back */
    if (was_confirmed)
        return;
    if (rl_node_is_confirmed(node, now) && (node->state != RL_NODE_RESOLVING || node->awaits_master))
        hurry(node);
    changed(node);
}

/* -------------------------------------------------------------------------------------------------------- heartbeat */

/* A partial reading would never end. */
static bool read_anew(struct rl_node *node)
{
    bool sent = rl_handshake_read(node);
    if (!sent && rl_link_is_open(&node->link))
        rl_node_break(node, false, "no memory for the guard");
    return sent;
}

/* With the guard the heartbeat is a proof and the time. A node that has not been judged, or not for long, or whose
 * marker must say that its clock jumped, is read instead: no proof shows the policy of its memory. */
static bool send_heartbeat(struct rl_node *node)
{
    struct rl_heartbeat *heartbeat = &node->heartbeat;
    quorum_time now = rl_now();
    assert(!heartbeat->in_flight);
    bool judged =
        (node->attest.rules.size && quorum_time_since(node->reading.sent, now) < RL_NODE_IDLE) || node->attest.refused;
    if (node->nodes->core->options.guard)
        return judged && !node->jumped ? rl_attest_beat(node) : read_anew(node);
    struct rl_command command;
    bool sent = rl_command_words(&command, "TIME", NULL) &&
                rl_flight_send(&node->flight, &heartbeat->request, command.bytes, command.length, now);
    rl_command_free(&command);
    return sent;
}

void rl_node_beat(struct rl_node *node)
{
    if (node->state != RL_NODE_READY)
        return;
    node->heartbeat.again = node->heartbeat.in_flight;
    if (!node->heartbeat.in_flight)
        schedule(node, rl_now());
}

/* The node's state can change by itself, or needs a verdict, or an undo is to be repeated. */
static bool is_unsettled(const struct rl_node *node, quorum_time now)
{
    return node->suspect || node->jumped || rl_guard_unfit(node) || node->kept.first ||
           (node->nodes->core->options.guard && !node->attest.rules.size) || rl_guard_withholds(node, now) > 0;
}

static bool are_healthy(const struct rl_nodes *nodes, quorum_time now)
{
    bool healthy = true;
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct rl_node *node = &nodes->node[i];
        healthy =
            healthy && rl_node_can_renew(node, now) && rl_node_is_confirmed(node, now) && !is_unsettled(node, now);
    }
    return healthy;
}

/* How often each node is heard if they are heard in turn; 0: they are not. */
static quorum_duration interval_in_turn(const struct rl_nodes *nodes, enum rl_engagement engagement, quorum_time now)
{
    if (engagement != RL_HOLDS || !are_healthy(nodes, now))
        return 0;
    return quorum_heartbeat_in_turn(nodes->count, nodes->shortest_ttl);
}

/*
 * The heartbeat only notices early what exclusion does not rest on: a grant is judged by what is read behind it, and
 * after idleness that is all that a heartbeat reads. So the intervals of an idle client grow: 1 s, 4 s, 16 s, 60 s,
 * less a random part, because a service's clients start together. A client that uses the node hears it at its turns.
 */
static void plan_heartbeat(struct rl_node *node, quorum_time now)
{
    struct rl_heartbeat *heartbeat = &node->heartbeat;
    const struct rl_nodes *nodes = node->nodes;
    enum rl_engagement engagement = nodes->events->engagement(nodes->locks);
    bool idle = engagement == RL_IDLE && rl_flight_is_empty(&node->flight) && !is_unsettled(node, now);
    quorum_duration longer = 4 * heartbeat->interval < RL_NODE_IDLE ? 4 * heartbeat->interval : RL_NODE_IDLE;
    heartbeat->interval = idle ? longer : RL_NODE_HEARTBEAT;
    rl_link_rest(&node->link, idle);
    if (!idle) {
        quorum_duration in_turn = interval_in_turn(nodes, engagement, now);
        schedule(node, next_turn(node, in_turn ? in_turn : RL_NODE_HEARTBEAT, now));
        return;
    }
    quorum_duration jitter = rl_random_u64(&node->nodes->core->random) % (heartbeat->interval / 4);
    schedule(node, quorum_time_add(now, heartbeat->interval - jitter));
}

void rl_nodes_note_ttl(struct rl_nodes *nodes, quorum_duration ttl)
{
    if (ttl >= nodes->shortest_ttl)
        return;
    nodes->shortest_ttl = ttl;
    quorum_time now = rl_now();
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *node = &nodes->node[i];
        quorum_time due = next_turn(node, quorum_heartbeat_in_turn(nodes->count, ttl), now);
        if (node->state == RL_NODE_READY && !node->heartbeat.in_flight && node->timer.due > due)
            schedule(node, due);
    }
}

/* The renewals for which the node would be woken otherwise go into the same write. */
static void take_turn(struct rl_node *node)
{
    const struct rl_nodes *nodes = node->nodes;
    quorum_duration interval = interval_in_turn(nodes, nodes->events->engagement(nodes->locks), rl_now());
    node->heartbeat.in_flight = send_heartbeat(node);
    if (node->heartbeat.in_flight && interval)
        nodes->events->in_turn(nodes->locks, node->index, interval);
}

static const char *awaited(const struct rl_node *node)
{
    if (node->state == RL_NODE_CONNECTING)
        return "connection";
    if (rl_link_is_negotiating(&node->link))
        return "TLS handshake (does the port speak TLS?)";
    return "reply to the handshake";
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_node *node = (struct rl_node *)(void *)((char *)timer - offsetof(struct rl_node, timer));
    switch (node->state) {
    case RL_NODE_BACKOFF:
        start(node);
        break;
    case RL_NODE_RESOLVING:
        if (node->awaits_master)
            rl_node_break(node, node->findings & REDLOCK_FINDING_MASTER_UNKNOWN, "%s",
                          rl_witnesses_explain(node->witnesses, rl_now()));
        else
            rl_node_break(node, false, "the name was not resolved within %llu ms",
                          (unsigned long long)(node->attempts.timeout / QUORUM_MILLISECOND));
        break;
    case RL_NODE_CONNECTING:
    case RL_NODE_HANDSHAKE:
        rl_node_break(node, false, "no %s within %llu ms", awaited(node),
                      (unsigned long long)(node->attempts.timeout / QUORUM_MILLISECOND));
        break;
    case RL_NODE_READY:
        if (!node->heartbeat.in_flight)
            take_turn(node);
        if (node->state == RL_NODE_READY)
            schedule(node, quorum_time_add(rl_now(), RL_NODE_HEARTBEAT));
        break;
    case RL_NODE_CLOSED:
        break;
    }
}

static void send_kept(struct rl_node *node)
{
    struct rl_requests kept = node->kept;
    node->kept = (struct rl_requests){NULL, NULL, 0};
    while (kept.first) {
        struct rl_request *request = rl_requests_take(&kept);
        if (!request->sender->type->send(request, node))
            rl_requests_append(&node->kept, request);
    }
}

void rl_node_beat_answered(struct rl_node *node, bool proven, quorum_time sent, quorum_time now)
{
    struct rl_heartbeat *heartbeat = &node->heartbeat;
    if (node->state != RL_NODE_READY)
        return;
    heartbeat->round_trip_us = (uint32_t)((now - sent) / QUORUM_MICROSECOND);
    if (!proven) {
        quorum_attest_forget(&node->attest.rules);
        heartbeat->in_flight = read_anew(node);
        return;
    }
    bool again = heartbeat->again;
    heartbeat->in_flight = heartbeat->again = false;
    rl_handshake_settle(node); /* kills that the node refused while busy: it has replied to them before the heartbeat */
    plan_heartbeat(node, now);
    if (again)
        rl_node_beat(node);
    if (node->kept.first)
        send_kept(node); /* undos that the node refused while loading or full */
    changed(node);       /* a quarantine may have ended */
}

static void time_answered(struct rl_request *request, const struct rl_answer *given)
{
    struct rl_node *node = given->node;
    if (given->kind != RL_ANSWER_REPLY || !rl_link_is_open(&node->link))
        return;
    uint64_t time_us;
    if (rl_guard_parse_time(given->reply, &time_us))
        rl_guard_take_time(node, time_us, request->sent, given->now);
    rl_node_beat_answered(node, true, request->sent, given->now);
}

void rl_node_ready(struct rl_node *node)
{
    assert(node->state == RL_NODE_HANDSHAKE && node->handshake.steps_left == 0);
    quorum_time now = rl_now();
    struct rl_server *server = &node->server;
    const char *unfit = rl_guard_unfit(node);
    bool restarted = node->attempts.ready_since && strcmp(server->last_run_id, server->run_id) != 0;
    bool lost_keys = restarted || node->forgot;
    memcpy(server->last_run_id, server->run_id, sizeof server->last_run_id);
    node->forgot = false;
    node->state = RL_NODE_READY;
    node->heartbeat.in_flight = node->heartbeat.again = false;
    node->heartbeat.interval = RL_NODE_HEARTBEAT;
    rl_flight_measure(&node->flight, quorum_time_since(node->attempts.connected_at, now));
    rl_attempts_succeeded(&node->attempts, now);
    node->statistics.connections++;
    rl_handshake_settle(node);
    send_kept(node);
    schedule(node, quorum_time_add(now, RL_NODE_HEARTBEAT / 2 +
                                            rl_random_u64(&node->nodes->core->random) % (RL_NODE_HEARTBEAT / 2)));
    rl_log(node->nodes->core, REDLOCK_LOG_INFO, "%s: ready, %s %s%s%s", node->name,
           server->name[0] ? server->name : "unknown server", server->version, unfit ? ", " : "", unfit ? unfit : "");
    if (node->jumped)
        rl_node_beat(node);
    node->nodes->events->node_lacks(node->nodes->locks, node->index, lost_keys);
    changed(node);
}

bool rl_node_open(struct rl_node *node, struct rl_nodes *nodes, unsigned index, const struct rl_address *address)
{
    static const struct rl_request_type heartbeat = {.answered = time_answered};
    static const struct rl_sender sender = {&heartbeat};
    assert(index < nodes->count);
    const redlock_options *options = &nodes->core->options;
    node->address = rl_allocate(&nodes->core->allocator, rl_address_size(address));
    if (!node->address)
        return false;
    memcpy(node->address, address, rl_address_size(address));
    node->nodes = nodes;
    node->index = index;
    node->name = node->address->name;
    node->confirmed_until = address->witness_count ? 0 : QUORUM_NEVER;
    node->flight.patience.least =
        (address->timeout_ms ? address->timeout_ms : options->node_timeout_ms) * QUORUM_MILLISECOND;
    /* A renewal must fail early enough for a warning and for retries, at any measured round trip. */
    unsigned longest_ms =
        options->ttl_ms / 4 < options->silence_limit_ms ? options->ttl_ms / 4 : options->silence_limit_ms;
    node->flight.patience.most = longest_ms * QUORUM_MILLISECOND;
    node->attempts.timeout =
        (address->connect_timeout_ms ? address->connect_timeout_ms : options->connect_timeout_ms) * QUORUM_MILLISECOND;
    node->timer.fire = on_timer;
    rl_flight_init(&node->flight, node, nodes->core, &node->link, &node->statistics);
    node->flight.silent = on_silent;
    node->flight.granted = rl_attest_await;
    node->heartbeat.request.sender = &sender;
    node->facts = (struct rl_facts){.append_only = -1, .snapshots = -1};
    node->state = RL_NODE_BACKOFF;
    schedule(node, rl_now());
    if (!address->witness_count)
        return true;
    struct rl_text tag = {NULL, 0};
    if (address->cluster && rl_handshake_tag(options, &tag))
        rl_address_tag(node->address, tag.bytes, tag.size);
    nodes->guard->node[index].changes = true;
    return rl_witnesses_open(node, quorum_slot(tag.bytes, tag.size), on_judged);
}

void rl_node_close(struct rl_node *node)
{
    node->state = RL_NODE_CLOSED;
    rl_timer_stop(&node->timer);
    if (node->witnesses)
        rl_witnesses_close(node->witnesses);
    rl_link_close(&node->link);
    rl_flight_break(&node->flight, rl_now());
    rl_attest_end(node, 0);
    rl_timer_stop(&node->flight.timer);
    while (node->kept.first)
        rl_request_answer(rl_requests_take(&node->kept), node, RL_ANSWER_DROPPED, 0, NULL);
    assert(rl_flight_is_empty(&node->flight) && !node->attest.waiting.first);
    rl_attempts_end(&node->attempts);
    rl_address_wipe(node->address); /* results point to its name */
}

void rl_node_free(struct rl_node *node)
{
    if (!node->nodes)
        return; /* the set was not opened */
    rl_witnesses_free(node);
    while (node->names) {
        struct rl_node_name *name = node->names;
        node->names = name->next;
        rl_core_free(node->nodes->core, name);
    }
    rl_free(&node->nodes->core->allocator, node->lacking);
    rl_core_free(node->nodes->core, node->address);
}
