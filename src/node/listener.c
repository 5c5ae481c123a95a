#include "src/node/listener.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "src/core/clock.h"
#include "src/link/sigpipe.h"
#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

static void start_watcher(struct rl_listener *listener)
{
    ev_io_start(listener->node->nodes->core->loop, &listener->watcher);
}

static void stop_watcher(struct rl_listener *listener)
{
    ev_io_stop(listener->node->nodes->core->loop, &listener->watcher);
}

static void disconnect(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    bool was_up = listener->up;
    if (listener->context) {
        stop_watcher(listener);
        redisFree(listener->context);
        listener->context = NULL;
        listener->tls = NULL; /* freed with it */
    }
    listener->up = false;
    if (was_up)
        node->nodes->events->listening(node->nodes->client, node->index, false);
}

static void failed(struct rl_listener *listener)
{
    quorum_duration pause = QUORUM_SECOND / 4 << (listener->failures < 5 ? listener->failures : 5);
    listener->failures++;
    disconnect(listener);
    if (listener->wanted && rl_node_is_ready(listener->node))
        rl_timer_set(&listener->node->nodes->core->timers, &listener->timer, rl_now() + pause);
    listener->node->nodes->events->listener_changed(listener->node->nodes->client);
}

/* --------------------------------------------------------------------------------------------------------- messages */

static bool is(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == strlen(word) &&
           memcmp(reply->str, word, (size_t)reply->len) == 0;
}

static void subscribed(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    assert(listener->context);
    listener->up = true;
    listener->failures = 0;
    listener->error[0] = '\0';
    rl_guard_find(node, REDLOCK_FINDING_NO_SUBSCRIBE, false);
    rl_timer_stop(&node->nodes->core->timers, &listener->timer);
    node->nodes->events->listening(node->nodes->client, node->index, true);
    node->nodes->events->listener_changed(node->nodes->client);
}

/* Reads digits and the space behind them. */
static const char *read_number(const char *at, const char *end, uint64_t *number)
{
    const char *begin = at;
    *number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (*number > (UINT64_MAX - 9) / 10)
            return NULL;
        *number = 10 * *number + (uint64_t)(*at - '0');
    }
    return at > begin && at < end && *at == ' ' ? at + 1 : NULL;
}

/* A grant, as include/handing.lua describes it. */
static void handed(struct rl_listener *listener, const char *at, const char *end)
{
    struct rl_nodes *nodes = listener->node->nodes;
    struct rl_handed handed = {.value.bytes = at};
    const char *space = memchr(at, ' ', (size_t)(end - at));
    uint64_t since, size;
    if (!space)
        return;
    handed.value.size = (size_t)(space - at);
    at = read_number(space + 1, end, &since);
    at = at ? read_number(at, end, &size) : NULL;
    if (!at || size > (size_t)(end - at))
        return;
    handed.since = since;
    handed.key = (struct rl_text){at, (size_t)size};
    handed.shown = at + size;
    handed.shown_size = (size_t)(end - handed.shown);
    nodes->events->handed(nodes->client, listener->node->index, &handed);
}

/* A wake-up is '0' and the key. */
static void take_message(struct rl_listener *listener, const redisReply *text)
{
    if (text->type == REDIS_REPLY_STRING && text->len > 1 && text->str[0] == 'G')
        handed(listener, text->str + 1, text->str + text->len);
    if (text->type != REDIS_REPLY_STRING || text->len < 2 || text->str[0] != '0')
        return;
    listener->node->nodes->events->woken(listener->node->nodes->client, listener->node->index, text->str + 1,
                                         (size_t)text->len - 1);
}

/* false: an error, or no reply to a subscriber. */
static bool take(struct rl_listener *listener, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        rl_reply_text(reply, listener->error, sizeof listener->error);
    if (listener->replies_left > 0) {
        listener->replies_left--;
        return reply->type != REDIS_REPLY_ERROR;
    }
    if (rl_reply_error(reply) == RL_ERROR_NOT_PERMITTED)
        rl_guard_find(listener->node, REDLOCK_FINDING_NO_SUBSCRIBE, true);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3)
        return false;
    if (is(reply->element[0], "subscribe"))
        subscribed(listener);
    else if (is(reply->element[0], "message"))
        take_message(listener, reply->element[2]);
    return true;
}

static bool take_all(struct rl_listener *listener)
{
    void *reply = NULL;
    while (listener->context) {
        if (redisReaderGetReply(listener->context->reader, &reply) != REDIS_OK)
            return false;
        if (!reply)
            return !rl_reader_is_exceeded(&listener->reader, listener->context->reader);
        bool taken = take(listener, reply);
        rl_reader_free(&listener->reader, reply);
        if (!taken)
            return false;
    }
    return true; /* the handling of a message closed it */
}

/* ------------------------------------------------------------------------------------------------------- connection */

static void watch(struct rl_listener *listener, int events)
{
    if ((listener->watcher.events & (EV_READ | EV_WRITE)) == events)
        return;
    stop_watcher(listener);
    ev_io_set(&listener->watcher, listener->context->fd, events);
    start_watcher(listener);
}

/* TLS reports when it needs a writable socket. While it waits for the server, write interest would only spin the
 * loop. */
static bool waits_to_write(const struct rl_listener *listener)
{
    return listener->unwritten && (!listener->tls || rl_tls_wants_to_write(listener->tls));
}

static bool write_out(struct rl_listener *listener)
{
    int done = 0;
    bool written = redisBufferWrite(listener->context, &done) == REDIS_OK;
    listener->unwritten = !done;
    return written;
}

static bool read_in(struct rl_listener *listener)
{
    return redisBufferRead(listener->context) == REDIS_OK && take_all(listener);
}

/* Reading over TLS can write, too, and can unblock the pending write. */
static bool exchange(struct rl_listener *listener, int events)
{
    struct rl_sigpipe guard;
    if (!listener->tls && !(events & EV_WRITE))
        return read_in(listener); /* a message: nothing is written */
    rl_sigpipe_block(&guard);
    rl_tls_enter();
    bool good = !(events & EV_WRITE) || write_out(listener);
    good = good && (!(events & EV_READ) || read_in(listener));
    if (good && listener->context && listener->tls && listener->unwritten)
        good = write_out(listener);
    rl_tls_leave();
    rl_sigpipe_restore(&guard, !good);
    return good;
}

static void on_event(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    struct rl_listener *listener = watcher->data;
    if (!rl_process_is(listener->node->nodes->core->owner))
        return;
    if (!exchange(listener, events))
        failed(listener);
    else if (listener->context)
        watch(listener, waits_to_write(listener) ? EV_READ | EV_WRITE : EV_READ);
}

static bool start_tls(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    char error[RL_NODE_TEXT_SIZE];
    bool permanent;
    listener->tls = NULL;
    if (!node->address.tls)
        return true;
    struct rl_sigpipe guard;
    rl_sigpipe_block(&guard); /* TLS writes at once */
    rl_tls_enter();
    listener->tls =
        rl_tls_start(node->nodes->tls, listener->context, node->address.host, error, sizeof error, &permanent);
    rl_tls_leave();
    rl_sigpipe_restore(&guard, !listener->tls);
    return listener->tls;
}

static bool queue_commands(struct rl_listener *listener)
{
    struct rl_nodes *nodes = listener->node->nodes;
    struct rl_command auth = {0}, subscribe = {0};
    int authenticates = rl_handshake_auth(listener->node, &auth);
    rl_command_add_text(&subscribe, "SUBSCRIBE");
    rl_command_add_text(&subscribe, nodes->channel);
    bool queued = authenticates >= 0 && rl_command_format(&subscribe);
    if (queued && authenticates > 0)
        queued = redisAppendFormattedCommand(listener->context, auth.bytes, auth.length) == REDIS_OK;
    queued = queued && redisAppendFormattedCommand(listener->context, subscribe.bytes, subscribe.length) == REDIS_OK;
    listener->replies_left = authenticates > 0;
    rl_handshake_auth_free(&auth);
    rl_command_free(&subscribe);
    return queued;
}

static void connect_now(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    const char *path = node->address.path;
    assert(!listener->context && !listener->up && rl_node_is_ready(node));
    listener->context =
        path[0] ? redisConnectUnixNonBlock(path) : redisConnectNonBlock(node->attempts.peer, node->address.port);
    if (!listener->context || listener->context->err) {
        if (listener->context)
            redisFree(listener->context);
        listener->context = NULL;
        failed(listener);
        return;
    }
    fcntl(listener->context->fd, F_SETFD, FD_CLOEXEC);
    if (!path[0]) /* there are no heartbeats that would find out that the peer is gone */
        redisEnableKeepAlive(listener->context);
    rl_reader_attach(&listener->reader, listener->context->reader);
    ev_io_init(&listener->watcher, on_event, listener->context->fd, EV_WRITE);
    listener->watcher.data = listener;
    start_watcher(listener);
    rl_timer_set(&node->nodes->core->timers, &listener->timer, quorum_time_add(rl_now(), node->attempts.timeout));
    listener->unwritten = true;
    if (!start_tls(listener) || !queue_commands(listener))
        failed(listener);
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_listener *listener = (struct rl_listener *)(void *)((char *)timer - offsetof(struct rl_listener, timer));
    if (listener->context)
        failed(listener); /* not up in time */
    else if (listener->wanted && rl_node_is_ready(listener->node))
        connect_now(listener);
}

void rl_listener_init(struct rl_listener *listener, struct rl_node *node)
{
    listener->node = node;
    listener->timer.fire = on_timer;
}

/* A listener ends with the node's first connection, because it cannot notice by itself that its server hangs. */
void rl_listener_node_changed(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    bool possible = listener->wanted && rl_node_is_ready(node);
    if (!possible && listener->context) {
        rl_timer_stop(&node->nodes->core->timers, &listener->timer);
        disconnect(listener);
    }
    if (possible && !listener->context && !listener->timer.set)
        rl_timer_set(&node->nodes->core->timers, &listener->timer, rl_now()); /* later, not inside the node's change */
}

void rl_listener_close(struct rl_listener *listener)
{
    listener->wanted = false;
    rl_timer_stop(&listener->node->nodes->core->timers, &listener->timer);
    disconnect(listener);
}

void rl_listeners_start(struct rl_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_listener *listener = &nodes->node[i].listener;
        if (listener->wanted)
            continue;
        listener->wanted = true;
        rl_listener_node_changed(listener);
    }
}

quorum_nodes rl_listeners_up(const struct rl_nodes *nodes)
{
    quorum_nodes up = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->node[i].listener.up)
            up |= quorum_node(i);
    return up;
}
