#include "src/node/listener.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "src/node/guard.h"
#include "src/node/handshake.h"
#include "src/node/limits.h"
#include "src/node/nodes.h"
#include "src/node/reply.h"

_Static_assert(RL_MESSAGE_MAX >= 256 + RL_CHANNEL_SIZE + REDLOCK_TOKEN_MAX + 128 + REDLOCK_RESOURCE_MAX +
                                     RL_SUFFIX_MAX + RL_MARKER_LAST + 128 + 3 * sizeof(redisReply),
               "a message holds a hand-over: token, numbers, key and proof");

static void disconnect(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    bool was_up = listener->up;
    rl_link_close(&listener->link);
    listener->up = false;
    if (was_up)
        node->nodes->events->listening(node->nodes->locks, node->index, false);
}

static void failed(struct rl_listener *listener)
{
    quorum_duration pause = QUORUM_SECOND / 4 << (listener->failures < 5 ? listener->failures : 5);
    listener->failures++;
    disconnect(listener);
    if (rl_node_is_ready(listener->node))
        rl_timer_set(&listener->node->nodes->core->timers, &listener->timer, rl_now() + pause);
    listener->node->nodes->events->node_changed(listener->node->nodes->locks, listener->node);
}

/* --------------------------------------------------------------------------------------------------------- messages */

static void subscribed(struct rl_listener *listener)
{
    struct rl_node *node = listener->node;
    assert(rl_link_is_open(&listener->link));
    listener->up = true;
    listener->failures = 0;
    listener->error[0] = '\0';
    rl_guard_find(node, REDLOCK_FINDING_NO_SUBSCRIBE, false);
    rl_timer_stop(&listener->timer);
    node->nodes->events->listening(node->nodes->locks, node->index, true);
    node->nodes->events->node_changed(node->nodes->locks, node);
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
    nodes->events->handed(nodes->locks, listener->node->index, &handed);
}

/* A wake-up is '0' and the key. */
static void take_message(struct rl_listener *listener, const redisReply *text)
{
    if (text->type == REDIS_REPLY_STRING && text->len > 1 && text->str[0] == 'G')
        handed(listener, text->str + 1, text->str + text->len);
    if (text->type != REDIS_REPLY_STRING || text->len < 2 || text->str[0] != '0')
        return;
    listener->node->nodes->events->woken(listener->node->nodes->locks, listener->node->index, text->str + 1,
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
    if (!rl_reply_has(reply, 3))
        return false;
    if (rl_reply_is_text(reply->element[0], "subscribe"))
        subscribed(listener);
    else if (rl_reply_is_text(reply->element[0], "message"))
        take_message(listener, reply->element[2]);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- connection */

static struct rl_listener *listener_of(struct rl_link *link)
{
    return (struct rl_listener *)(void *)((char *)link - offsetof(struct rl_listener, link));
}

static void on_replied(struct rl_link *link, const redisReply *reply)
{
    if (!take(listener_of(link), reply))
        failed(listener_of(link));
}

static void on_ended(struct rl_link *link, const struct rl_link_end *why)
{
    (void)why; /* the first link of the node reports the same */
    failed(listener_of(link));
}

static bool send_commands(struct rl_listener *listener)
{
    struct rl_command auth = {0}, subscribe;
    struct rl_node *node = listener->node;
    int authenticates = rl_attempts_auth(&node->nodes->core->options, node->address, &auth, node->facts.user);
    bool formatted = rl_command_words(&subscribe, "SUBSCRIBE", node->nodes->channel, NULL);
    bool sent = formatted && authenticates >= 0 &&
                (authenticates == 0 || rl_link_send(&listener->link, auth.bytes, auth.length)) &&
                rl_link_send(&listener->link, subscribe.bytes, subscribe.length);
    listener->replies_left = authenticates > 0;
    rl_attempts_auth_free(&auth);
    rl_command_free(&subscribe);
    return sent;
}

static void connect_now(struct rl_listener *listener)
{
    static const struct rl_link_type type = {.reply_max = RL_MESSAGE_MAX, .replied = on_replied, .ended = on_ended};
    struct rl_node *node = listener->node;
    struct rl_link_end why;
    const struct rl_link_target target = {.path = node->address->path,
                                          .numeric = node->attempts.peer,
                                          .port = node->address->port,
                                          .host = node->address->host,
                                          .tls = node->address->tls ? node->nodes->tls : NULL};
    assert(!rl_link_is_open(&listener->link) && !listener->up && rl_node_is_ready(node));
    rl_timer_set(&node->nodes->core->timers, &listener->timer, quorum_time_add(rl_now(), node->attempts.timeout));
    if (!rl_link_open(&listener->link, &type, &target, &why) || !send_commands(listener))
        failed(listener);
}

static void on_timer(struct rl_timer *timer)
{
    struct rl_listener *listener = (struct rl_listener *)(void *)((char *)timer - offsetof(struct rl_listener, timer));
    if (rl_link_is_open(&listener->link))
        failed(listener); /* not up in time */
    else if (rl_node_is_ready(listener->node))
        connect_now(listener);
}

static struct rl_listener *create(struct rl_node *node)
{
    struct rl_listener *listener = rl_allocate(&node->nodes->core->allocator, sizeof *listener);
    if (!listener)
        return NULL;
    listener->node = node;
    listener->timer.fire = on_timer;
    if (rl_link_init(&listener->link, &node->nodes->writes, RL_LISTENER_OUTPUT))
        return listener;
    rl_core_free(node->nodes->core, listener);
    return NULL;
}

/* A listener ends with the node's first connection, because it does not notice by itself that its server hangs. */
void rl_listener_node_changed(struct rl_listener *listener)
{
    if (!listener)
        return;
    struct rl_node *node = listener->node;
    if (!rl_node_is_ready(node) && rl_link_is_open(&listener->link)) {
        rl_timer_stop(&listener->timer);
        disconnect(listener);
    }
    if (rl_node_is_ready(node) && !rl_link_is_open(&listener->link) && !listener->timer.set)
        rl_timer_set(&node->nodes->core->timers, &listener->timer, rl_now()); /* later, not inside the node's change */
}

void rl_listener_close(struct rl_listener *listener)
{
    if (!listener)
        return;
    rl_timer_stop(&listener->timer);
    disconnect(listener);
}

void rl_listener_free(struct rl_listener *listener)
{
    if (!listener)
        return;
    rl_link_free(&listener->link);
    rl_core_free(listener->node->nodes->core, listener);
}

bool rl_listeners_start(struct rl_nodes *nodes)
{
    bool all = true;
    nodes->listens = true;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct rl_node *node = &nodes->node[i];
        if (node->listener)
            continue;
        node->listener = create(node);
        all = all && node->listener;
        rl_listener_node_changed(node->listener);
    }
    return all;
}

void rl_listeners_renew(struct rl_nodes *nodes, quorum_nodes silent)
{
    for (quorum_nodes left = silent & rl_listeners_up(nodes); left; left &= left - 1) {
        struct rl_listener *listener = nodes->node[__builtin_ctz(left)].listener;
        listener->failures++;
        disconnect(listener);
        rl_listener_node_changed(listener);
    }
}

bool rl_listeners_are_deaf(const struct rl_nodes *nodes)
{
    unsigned silent = 0;
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct rl_listener *listener = nodes->node[i].listener;
        silent += listener ? listener->failures > 0 : nodes->listens;
    }
    return silent > nodes->count - quorum_majority(nodes->count);
}

quorum_nodes rl_listeners_up(const struct rl_nodes *nodes)
{
    quorum_nodes up = 0;
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->node[i].listener && nodes->node[i].listener->up)
            up |= quorum_node(i);
    return up;
}
