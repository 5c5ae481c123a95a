#include "src/node/node.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "src/core/clock.h"
#include "src/core/histogram.h"
#include "src/core/memory.h"
#include "src/link/sigpipe.h"
#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

#define BACKOFF_FIRST (10 * QUORUM_MILLISECOND)
#define HEARTBEAT     (QUORUM_SECOND)
#define STEADY        (QUORUM_SECOND) /* a connection that breaks sooner once ready counts as a failed attempt */

static void schedule(struct rl_node *node, quorum_time due)
{
    rl_timer_set(&node->nodes->core->timers, &node->timer, due);
}

/* The node became usable or unusable. */
static void changed(struct rl_node *node)
{
    node->nodes->events->node_changed(node->nodes->client, node);
}

static void append(struct rl_requests *queue, struct rl_request *request)
{
    request->next = NULL;
    *(queue->first ? &queue->last->next : &queue->first) = request;
    queue->last = request;
    queue->count++;
}

static struct rl_request *take_first(struct rl_requests *queue)
{
    struct rl_request *request = queue->first;
    queue->first = request->next;
    queue->count--;
    return request;
}

static void answer(struct rl_request *request, enum rl_answer_kind kind, quorum_time now, const redisReply *reply)
{
    const struct rl_answer answer = {kind, now, reply};
    request->sender->type->answered(request, &answer);
}

/* ----------------------------------------------------------------------------------------------- requests in flight */

static quorum_time silence_end(const struct rl_node *node)
{
    quorum_time since = node->sent.first->sent > node->heard ? node->sent.first->sent : node->heard;
    since = since > node->held_up ? since : node->held_up;
    return quorum_time_add(since, node->nodes->core->options.silence_limit_ms * QUORUM_MILLISECOND);
}

quorum_duration rl_node_timeout(const struct rl_node *node)
{
    return quorum_deadline_timeout(&node->round_trip, &node->patience);
}

quorum_duration rl_nodes_timeout(const struct rl_nodes *nodes)
{
    quorum_duration longest = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (rl_node_timeout(&nodes->node[i]) > longest)
            longest = rl_node_timeout(&nodes->node[i]);
    return longest;
}

static quorum_time due_at(const struct rl_node *node, quorum_time sent)
{
    return quorum_deadline_due(&node->round_trip, &node->patience, sent, node->heard);
}

/* Rounded up to milliseconds, so that the nodes of one round share a wake-up. */
static quorum_time overdue_at(const struct rl_node *node, quorum_time sent)
{
    quorum_time due = quorum_time_add(due_at(node, sent), QUORUM_MILLISECOND - 1);
    return due - due % QUORUM_MILLISECOND;
}

/* The silence limit may be below the node's timeout. */
static void watch_overdue(struct rl_node *node)
{
    if (!node->sent.first)
        return;
    quorum_time due = silence_end(node);
    if (node->waiting && overdue_at(node, node->waiting->sent) < due)
        due = overdue_at(node, node->waiting->sent);
    rl_timer_set(&node->nodes->core->timers, &node->overdue_timer, due);
}

/* Not before it is connected: recv() would consume the connection's error, which hiredis reads. */
static bool has_unread_data(const struct rl_node *node)
{
    char byte;
    return node->context && node->adapter.connected && recv(node->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The timer is moved only when it fires, so a request with a timely reply does not touch it. */
static void on_overdue(struct rl_timer *timer)
{
    struct rl_node *node = (struct rl_node *)(void *)((char *)timer - offsetof(struct rl_node, overdue_timer));
    quorum_time now = rl_now();
    if (!node->sent.first)
        return;
    /* This loop was late, not the node: write the pending requests and read the replies first. */
    if (node->adapter.waiting || has_unread_data(node)) {
        node->held_up = now;
        rl_timer_set(&node->nodes->core->timers, timer, now + QUORUM_MILLISECOND);
        return;
    }
    /* Before the silence limit: a late loop sees both pass at once, and the requests must time out in any case. */
    while (node->waiting && due_at(node, node->waiting->sent) <= now) {
        struct rl_request *request = node->waiting;
        node->waiting = request->next;
        request->overdue = true;
        node->statistics.timeouts++;
        answer(request, RL_ANSWER_OVERDUE, now, NULL);
    }
    if (node->sent.first && node->context && now >= silence_end(node))
        rl_node_break(node, false, "silent for %u ms", node->nodes->core->options.silence_limit_ms);
    else
        watch_overdue(node);
}

static bool has_unread_replies(const redisAsyncContext *context)
{
    return context->c.reader->pos < context->c.reader->len;
}

/* Records a broken connection whose commands the server may still execute. A handshake sets no keys: it is not
 * recorded, and must not replace an earlier connection. */
static void remember_debt(struct rl_node *node)
{
    if (!node->sent.first || node->state != RL_NODE_READY || node->client_id == 0)
        return;
    struct rl_stale_links *debts = &node->debts;
    if (strcmp(debts->run_id, node->run_id) != 0)
        memset(debts, 0, sizeof *debts);
    memcpy(debts->run_id, node->run_id, sizeof debts->run_id);
    for (unsigned i = 0; i < RL_STALE_LINKS_MAX; i++)
        if (debts->client_id[i] == node->client_id)
            return; /* recorded already, for an earlier request of this connection */
    debts->client_id[debts->count++ % RL_STALE_LINKS_MAX] = node->client_id;
}

static bool has_sent_too_much(const struct rl_node *node, const redisAsyncContext *context)
{
    return rl_limit_is_exceeded(&node->adapter.limit, context->c.reader);
}

static void note_too_much(struct rl_node *node)
{
    snprintf(node->error, sizeof node->error, "sent a reply of more than %d KiB, or nested too deep",
             RL_REPLY_MAX / 1024);
}

static void on_reply(redisAsyncContext *context, void *data, void *private_data)
{
    struct rl_request *request = private_data;
    struct rl_node *node = request->node;
    const redisReply *reply = data;
    assert(node->sent.first == request);
    if (!reply && node->context && has_sent_too_much(node, context))
        note_too_much(node); /* the reason, for the requests that end with the connection */
    if (!reply && node->context)
        remember_debt(node); /* hiredis has ended the connection, but calls on_disconnect() only after all requests */
    take_first(&node->sent);
    if (node->waiting == request)
        node->waiting = request->next;
    bool timed = node->timed == request;
    if (timed)
        node->timed = NULL;
    quorum_time now = rl_now();
    if (reply && !node->sent.first && has_unread_replies(context)) {
        /* One reply too many: hiredis would abort the process at the next one. Any of the replies may be the extra
         * one. */
        if (node->context)
            rl_node_break(node, false, "sent a reply to no request");
        reply = NULL;
    }
    if (reply) {
        node->heard = now;
        if (timed)
            quorum_deadline_measured(&node->round_trip, &node->patience, quorum_time_since(request->sent, now));
        rl_histogram_add(&node->statistics.latency, quorum_time_since(request->sent, now));
    }
    answer(request, reply ? RL_ANSWER_REPLY : RL_ANSWER_BROKEN, now, reply);
}

bool rl_node_send(struct rl_node *node, struct rl_request *request, const struct rl_command *command)
{
    return rl_node_send_at(node, request, command, rl_now());
}

bool rl_node_send_at(struct rl_node *node, struct rl_request *request, const struct rl_command *command,
                     quorum_time now)
{
    if (!node->context)
        return false;
    request->node = node;
    request->overdue = false;
    request->sent = now;
    if (redisAsyncFormattedCommand(node->context, on_reply, request, command->bytes, command->length) != REDIS_OK)
        return false;
    append(&node->sent, request);
    node->statistics.requests++;
    if (!node->waiting)
        node->waiting = request;
    if (!node->timed && node->state == RL_NODE_READY) /* a handshake's time includes connecting */
        node->timed = request;
    /* The timer may be set for the silence limit, which is much later. */
    if (!node->overdue_timer.set || node->overdue_timer.due > due_at(node, request->sent))
        watch_overdue(node);
    return true;
}

void rl_node_keep(struct rl_node *node, struct rl_request *request)
{
    request->node = node;
    if (node->state == RL_NODE_CLOSED) {
        answer(request, RL_ANSWER_DROPPED, 0, NULL);
        return;
    }
    if (node->kept.count >= node->nodes->core->options.undos_max) {
        rl_log(node->nodes->core, REDLOCK_LOG_WARNING,
               "%s: more than %u undos kept; the oldest is dropped, its key expires", node->address.name,
               node->nodes->core->options.undos_max);
        answer(take_first(&node->kept), RL_ANSWER_DROPPED, rl_now(), NULL);
    }
    append(&node->kept, request);
}

/* Only undos can be kept, so only they have a send(). */
unsigned rl_node_unconfirmed_undos(const struct rl_node *node)
{
    unsigned undos = node->kept.count;
    for (const struct rl_request *request = node->sent.first; request; request = request->next)
        undos += request->sender->type->send != NULL;
    return undos;
}

/* ------------------------------------------------------------------------------------------------------- usability */

bool rl_node_has_unread_replies(const struct rl_node *node)
{
    return node->sent.first && has_unread_data(node);
}

bool rl_node_is_ready(const struct rl_node *node)
{
    return node->state == RL_NODE_READY;
}

/* The node owes a reply for three timeouts: another request would only be one more to undo. */
static bool is_stuck(const struct rl_node *node, quorum_time now)
{
    const struct rl_request *first = node->sent.first;
    return first && first->overdue &&
           quorum_time_since(first->sent, now) > 3 * rl_node_timeout(node) + 100 * QUORUM_MILLISECOND;
}

bool rl_node_can_renew(const struct rl_node *node, quorum_time now)
{
    return node->state == RL_NODE_READY && !node->unfit && !is_stuck(node, now) &&
           node->sent.count < node->nodes->core->options.pending_max;
}

struct rl_usable rl_node_usable(struct rl_node *node, quorum_time now, bool granting)
{
    if (node->state == RL_NODE_READY) {
        if (node->unfit)
            return (struct rl_usable){RL_OUT, true, QUORUM_REFUSED, node->unfit};
        const char *objection = granting ? rl_guard_objection(node, now) : NULL;
        if (objection)
            return (struct rl_usable){RL_OUT, false, QUORUM_REFUSED, objection};
        if (is_stuck(node, now))
            return (struct rl_usable){RL_OUT, false, QUORUM_TIMED_OUT, "not asked: it owes older answers"};
        if (node->sent.count >= node->nodes->core->options.pending_max)
            return (struct rl_usable){RL_OUT, false, QUORUM_UNREACHABLE, "not asked: too many requests wait for it"};
        return (struct rl_usable){RL_USABLE, false, QUORUM_PENDING, ""};
    }
    if (node->failures == 0 && node->state != RL_NODE_CLOSED)
        return (struct rl_usable){RL_COMING, false, QUORUM_PENDING, ""};
    return (struct rl_usable){RL_OUT, node->permanent, QUORUM_UNREACHABLE, node->error};
}

/* ------------------------------------------------------------------------------------- connecting and disconnecting */

static void connect_now(struct rl_node *node);

static quorum_time next_attempt(struct rl_node *node, quorum_time now)
{
    if (node->failures == 0)
        return now;
    unsigned doublings = node->failures < 16 ? node->failures - 1 : 15;
    quorum_duration longest = node->nodes->core->options.backoff_max_ms * QUORUM_MILLISECOND;
    quorum_duration pause = BACKOFF_FIRST << doublings;
    if (pause > longest)
        pause = longest;
    /* Half of it is jitter, so that the clients of a recovering node do not all connect at once. */
    return now + pause / 2 + rl_random_u64(&node->nodes->core->random) % (pause / 2 + 1);
}

/* The connection has ended, or was not established. */
static void ended(struct rl_node *node)
{
    quorum_time now = rl_now();
    bool steady = node->state == RL_NODE_READY && quorum_time_since(node->ready_since, now) >= STEADY;
    bool more_addresses =
        node->state == RL_NODE_CONNECTING && node->resolution && node->attempt + 1 < node->resolution->count;
    if (node->state == RL_NODE_CLOSED)
        return;
    if (steady)
        node->failures = 0;
    else if (!more_addresses && node->failures < UINT32_MAX)
        node->failures++;
    node->attempt = more_addresses ? node->attempt + 1 : 0;
    node->state = RL_NODE_BACKOFF;
    node->context = NULL;
    rl_log(node->nodes->core, node->failures > 1 ? REDLOCK_LOG_DEBUG : REDLOCK_LOG_WARNING, "%s: %s",
           node->address.name, node->error);
    schedule(node, more_addresses ? now : next_attempt(node, now));
    rl_attest_end(node, now);
    changed(node);
}

void rl_node_break(struct rl_node *node, bool permanent, const char *format, ...)
{
    redisAsyncContext *context = node->context;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->error, sizeof node->error, format, arguments);
    va_end(arguments);
    node->permanent = permanent;
    remember_debt(node);
    /* The state changes first: handlers of the ending requests must not use this connection. */
    ended(node);
    if (context) {
        context->data = NULL;
        redisAsyncFree(context);
    }
}

/* After a failure of TLS hiredis reports an unrelated errno. */
static bool is_told_by_tls(struct rl_node *node)
{
    char why[RL_NODE_TEXT_SIZE];
    if (!node->adapter.tls)
        return false;
    bool permanent = rl_tls_explain(node->nodes->tls, node->adapter.tls, node->address.host, why, sizeof why);
    if (!why[0])
        return false;
    memcpy(node->error, why, sizeof node->error);
    node->permanent = permanent;
    return true;
}

/* hiredis has ended the connection, and frees the context when this returns. */
static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct rl_node *node = context->data;
    if (!node)
        return; /* this client has ended it */
    if (is_told_by_tls(node)) {
        ended(node);
        return;
    }
    if (has_sent_too_much(node, context))
        note_too_much(node);
    else if (status == REDIS_OK || !context->c.errstr[0])
        snprintf(node->error, sizeof node->error, "the connection was closed");
    else
        snprintf(node->error, sizeof node->error, "the connection broke: %.60s", context->c.errstr);
    node->permanent = false;
    ended(node);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct rl_node *node = context->data;
    if (!node)
        return;
    if (status == REDIS_OK) {
        node->adapter.connected = true;
        node->state = RL_NODE_HANDSHAKE;
        node->connected_at = rl_now();
        return;
    }
    snprintf(node->error, sizeof node->error, "cannot connect: %.64s", context->c.errstr);
    node->permanent = false;
    ended(node);
}

/* hiredis handles the end of the connection and errors. */
static bool on_readable_tls(struct rl_node *node)
{
    enum rl_tls_sight sight = rl_tls_look(node->adapter.tls);
    if (sight == RL_TLS_DATA)
        rl_node_break(node, false, "sent a reply to no request");
    return sight == RL_TLS_END;
}

static bool on_readable(struct rl_adapter *adapter)
{
    struct rl_node *node = (struct rl_node *)(void *)((char *)adapter - offsetof(struct rl_node, adapter));
    if (node->sent.first || !node->context)
        return true;
    if (adapter->tls)
        return on_readable_tls(node);
    char byte;
    ssize_t got = recv(node->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) {
        rl_node_break(node, false, "sent a reply to no request");
        return false;
    }
    /* hiredis handles the end of the connection and errors. Without data it must not read: a reply may arrive
     * meanwhile. */
    return !(got < 0 && (errno == EAGAIN || errno == EINTR));
}

static const char *target(const struct rl_node *node)
{
    return node->resolution ? node->resolution->numeric[node->attempt] : node->address.host;
}

static void settle_socket(redisAsyncContext *context, bool tcp)
{
    fcntl(context->c.fd, F_SETFD, FD_CLOEXEC);
    if (tcp)
        redisEnableKeepAlive(&context->c);
}

static bool start_tls(struct rl_node *node)
{
    char error[RL_NODE_TEXT_SIZE];
    bool permanent;
    struct rl_sigpipe guard;
    if (!node->address.tls)
        return true;
    rl_sigpipe_block(&guard);
    rl_tls_enter();
    node->adapter.tls =
        rl_tls_start(node->nodes->tls, &node->context->c, node->address.host, error, sizeof error, &permanent);
    rl_tls_leave();
    rl_sigpipe_restore(&guard, !node->adapter.tls);
    if (!node->adapter.tls)
        rl_node_break(node, permanent, "%s", error);
    return node->adapter.tls;
}

static void connect_now(struct rl_node *node)
{
    assert(!node->sent.first && !node->context && !node->timed);
    const char *path = node->address.path;
    node->waiting = NULL;
    node->state = RL_NODE_CONNECTING;
    snprintf(node->peer, sizeof node->peer, "%.*s", RL_NUMERIC_SIZE - 1, path[0] ? "" : target(node));
    redisAsyncContext *context =
        path[0] ? redisAsyncConnectUnix(path) : redisAsyncConnect(node->peer, node->address.port);
    if (!context || context->err) {
        snprintf(node->error, sizeof node->error, "cannot connect: %.64s", context ? context->errstr : "no memory");
        node->permanent = false;
        if (context)
            redisAsyncFree(context);
        ended(node);
        return;
    }
    context->data = node;
    node->context = context;
    settle_socket(context, !path[0]);
    rl_adapter_attach(&node->adapter, context, &node->nodes->writes);
    schedule(node, quorum_time_add(rl_now(), node->connect_timeout));
    if (!start_tls(node))
        return;
    redisAsyncSetConnectCallback(context, on_connect);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
    /* Queued now, so that it leaves with the connection's first write. A partial handshake could lack the database or
     * the guard. */
    if (!rl_handshake_start(node) && node->context)
        rl_node_break(node, false, "no memory for the handshake");
}

void rl_node_resolved(struct rl_node *node)
{
    struct rl_resolution *resolution = node->resolution;
    if (node->state != RL_NODE_RESOLVING || !atomic_load(&resolution->done))
        return;
    node->attempt = 0;
    resolution->taken = true;
    if (resolution->count)
        connect_now(node);
    else
        rl_node_break(node, false, "%s", resolution->error);
}

/* Each attempt resolves the name again; but if the last resolution is still in progress or unused, it waits for that
 * one: otherwise an unreachable name server would cost more and more threads. */
static void resolve(struct rl_node *node)
{
    if (!node->resolution || node->resolution->taken) {
        rl_resolver_unref(node->resolution);
        node->resolution = rl_resolver_start(node->address.host, node->nodes->core->wakeup);
    }
    node->state = RL_NODE_RESOLVING;
    schedule(node, quorum_time_add(rl_now(), node->connect_timeout));
    if (node->resolution)
        rl_node_resolved(node);
    else
        rl_node_break(node, false, "cannot resolve the name: no thread or no memory");
}

static void start(struct rl_node *node)
{
    /* Tries the addresses of one name in turn. */
    if (node->address.path[0] || node->attempt > 0 || rl_resolver_is_numeric(node->address.host))
        connect_now(node);
    else
        resolve(node);
}

static bool send_heartbeat(struct rl_node *node, bool whole)
{
    struct rl_command command = {0};
    struct rl_guard_numbers numbers;
    if (node->nodes->core->options.guard)
        rl_guard_command(node->nodes, node, node->jumped ? RL_GUARD_JUMPED : RL_GUARD_LOOK, whole, &command, &numbers);
    else
        rl_command_add_text(&command, "TIME");
    node->beating = rl_command_format(&command) && rl_node_send(node, &node->heartbeat, &command);
    node->writing_jump = node->beating && node->jumped;
    rl_command_free(&command);
    return node->beating;
}

void rl_node_beat(struct rl_node *node)
{
    if (node->state != RL_NODE_READY)
        return;
    node->beat_again = node->beating;
    if (!node->beating)
        schedule(node, rl_now());
}

static const char *awaited(const struct rl_node *node)
{
    if (node->state == RL_NODE_CONNECTING)
        return "connection";
    if (node->adapter.tls && !rl_tls_is_established(node->adapter.tls))
        return "TLS handshake (does the port speak TLS?)";
    return "answer to the handshake";
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_node *node = (struct rl_node *)(void *)((char *)timer - offsetof(struct rl_node, timer));
    switch (node->state) {
    case RL_NODE_BACKOFF:
        start(node);
        break;
    case RL_NODE_RESOLVING:
        rl_node_break(node, false, "the name was not resolved within %llu ms",
                      (unsigned long long)(node->connect_timeout / QUORUM_MILLISECOND));
        break;
    case RL_NODE_CONNECTING:
    case RL_NODE_HANDSHAKE:
        rl_node_break(node, false, "no %s within %llu ms", awaited(node),
                      (unsigned long long)(node->connect_timeout / QUORUM_MILLISECOND));
        break;
    case RL_NODE_READY:
        if (!node->beating)
            send_heartbeat(node, false);
        schedule(node, quorum_time_add(rl_now(), HEARTBEAT));
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
        struct rl_request *request = take_first(&kept);
        if (!request->sender->type->send(request))
            append(&node->kept, request);
    }
}

/* Handles a heartbeat's reply. false: the connection has ended, or the heartbeat was sent again. */
static bool take_heartbeat(struct rl_node *node, const struct rl_answer *given)
{
    quorum_time sent = node->heartbeat.sent;
    node->round_trip_us = (uint32_t)((given->now - sent) / QUORUM_MICROSECOND);
    if (!node->nodes->core->options.guard) {
        rl_guard_take_time(node, given->reply, sent, given->now);
        return true;
    }
    if (rl_reply_is_error(given->reply, "NOSCRIPT") && send_heartbeat(node, true))
        return false;
    bool jump_written = node->writing_jump;
    if (!rl_guard_take_reply(node, given->reply, sent, given->now))
        return false;
    if (jump_written && !(node->findings & REDLOCK_FINDING_FULL))
        node->jumped = node->suspect = false;
    return true;
}

static void heartbeat_answered(struct rl_request *request, const struct rl_answer *given)
{
    struct rl_node *node = request->node;
    if (given->kind == RL_ANSWER_OVERDUE)
        return;
    bool again = node->beat_again;
    node->beating = node->beat_again = false;
    if (given->kind != RL_ANSWER_REPLY || !node->context)
        return;
    if (!take_heartbeat(node, given)) {
        node->beat_again = again && node->beating;
        return;
    }
    if (again)
        rl_node_beat(node);
    if (node->kept.first)
        send_kept(node); /* undos that the node refused while loading or full */
    changed(node);       /* a quarantine may have ended */
}

void rl_node_ready(struct rl_node *node)
{
    quorum_time now = rl_now();
    bool restarted = node->ready_since && node->last_run_id[0] && strcmp(node->last_run_id, node->run_id) != 0;
    bool forgot = restarted || node->forgot;
    memcpy(node->last_run_id, node->run_id, sizeof node->last_run_id);
    node->forgot = false;
    if (restarted)
        quorum_clock_forget(&node->nodes->clock_watch, node->index);
    node->state = RL_NODE_READY;
    node->ready_since = now;
    quorum_deadline_measured(&node->round_trip, &node->patience, quorum_time_since(node->connected_at, now));
    node->statistics.connections++;
    node->failures = 0;
    node->attempt = 0;
    node->permanent = false;
    node->error[0] = '\0';
    rl_handshake_settle(node);
    send_kept(node);
    schedule(node, quorum_time_add(now, HEARTBEAT / 2 + rl_random_u64(&node->nodes->core->random) % (HEARTBEAT / 2)));
    rl_log(node->nodes->core, REDLOCK_LOG_INFO, "%s: ready, %s %s%s%s", node->address.name,
           node->server[0] ? node->server : "unknown server", node->version, node->unfit ? ", " : "",
           node->unfit ? node->unfit : "");
    if (node->jumped)
        rl_node_beat(node);
    if (forgot)
        node->nodes->events->node_forgot(node->nodes->client, node->index);
    changed(node);
}

void rl_node_open(struct rl_node *node, struct rl_nodes *nodes, unsigned index, const struct rl_address *address)
{
    static const struct rl_request_type heartbeat = {.answered = heartbeat_answered};
    static const struct rl_sender sender = {&heartbeat};
    const redlock_options *options = &nodes->core->options;
    node->nodes = nodes;
    node->index = index;
    node->address = *address;
    node->patience.least = (address->timeout_ms ? address->timeout_ms : options->node_timeout_ms) * QUORUM_MILLISECOND;
    /* A renewal must fail early enough for a warning and for retries, at any measured round trip. */
    unsigned longest_ms =
        options->ttl_ms / 4 < options->silence_limit_ms ? options->ttl_ms / 4 : options->silence_limit_ms;
    node->patience.most = longest_ms * QUORUM_MILLISECOND;
    node->connect_timeout =
        (address->connect_timeout_ms ? address->connect_timeout_ms : options->connect_timeout_ms) * QUORUM_MILLISECOND;
    node->adapter.readable = on_readable;
    node->timer.fire = on_timer;
    node->overdue_timer.fire = on_overdue;
    node->heartbeat.sender = &sender;
    node->heartbeat.node = node;
    node->facts = (struct rl_facts){.append_only = -1, .snapshots = -1};
    node->state = RL_NODE_BACKOFF;
    schedule(node, rl_now());
}

void rl_node_close(struct rl_node *node)
{
    redisAsyncContext *context = node->context;
    node->state = RL_NODE_CLOSED;
    node->context = NULL;
    rl_timer_stop(&node->nodes->core->timers, &node->timer);
    if (context) {
        context->data = NULL;
        redisAsyncFree(context);
    }
    rl_attest_end(node, 0);
    rl_timer_stop(&node->nodes->core->timers, &node->overdue_timer);
    while (node->kept.first)
        answer(take_first(&node->kept), RL_ANSWER_DROPPED, 0, NULL);
    rl_resolver_unref(node->resolution);
    node->resolution = NULL;
    rl_wipe(&node->address, sizeof node->address);
}
