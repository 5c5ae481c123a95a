/* The transport of floors A, B and C: hiredis and libev. FLOOR_ENCODES_ONCE: a command is encoded once for all nodes
 * instead of once per node. */
#include <ev.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "floor.h"

#define DRAIN_S 0.05

static redisAsyncContext *nodes[FLOOR_NODES_MAX];
static unsigned node_count, ready;

static void pass_on(struct floor_attempt *attempt, enum floor_step step, const redisReply *reply)
{
    char type = !reply                               ? 0
                : reply->type == REDIS_REPLY_STATUS  ? '+'
                : reply->type == REDIS_REPLY_INTEGER ? ':'
                : reply->type == REDIS_REPLY_NIL     ? '$'
                                                     : '-';
    floor_replied(attempt, step, type, reply ? reply->integer : 0);
}

static void on_granted(redisAsyncContext *connection, void *reply, void *attempt)
{
    (void)connection;
    pass_on(attempt, FLOOR_ACQUIRE, reply);
}

static void on_released(redisAsyncContext *connection, void *reply, void *attempt)
{
    (void)connection;
    pass_on(attempt, FLOOR_RELEASE, reply);
}

#ifdef FLOOR_ENCODES_ONCE
unsigned transport_send(struct floor_attempt *attempt, enum floor_step step, const struct floor_command *command)
{
    char *bytes;
    unsigned sent = 0;
    redisCallbackFn *callback = step == FLOOR_ACQUIRE ? on_granted : on_released;
    long long length =
        redisFormatCommandArgv(&bytes, command->count, (const char **)(uintptr_t)command->words, command->lengths);
    if (length < 0)
        abort();
    for (unsigned i = 0; i < node_count; i++)
        sent += nodes[i] && redisAsyncFormattedCommand(nodes[i], callback, attempt, bytes, (size_t)length) == REDIS_OK;
    redisFreeCommand(bytes);
    return sent;
}
#else
unsigned transport_send(struct floor_attempt *attempt, enum floor_step step, const struct floor_command *command)
{
    unsigned sent = 0;
    redisCallbackFn *callback = step == FLOOR_ACQUIRE ? on_granted : on_released;
    for (unsigned i = 0; i < node_count; i++)
        sent +=
            nodes[i] && redisAsyncCommandArgv(nodes[i], callback, attempt, command->count,
                                              (const char **)(uintptr_t)command->words, command->lengths) == REDIS_OK;
    return sent;
}
#endif

static void on_disconnect(const redisAsyncContext *connection, int status)
{
    (void)status;
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i] == connection)
            nodes[i] = NULL;
}

void transport_connect(struct ev_loop *loop, const char *host, int port)
{
    redisAsyncContext *connection = redisAsyncConnect(host, port);
    if (!connection || connection->err) {
        fprintf(stderr, "floor: cannot connect to %s:%d\n", host, port);
        exit(1);
    }
    nodes[node_count++] = connection;
    floor_attach(loop, connection);
    redisAsyncSetDisconnectCallback(connection, on_disconnect);
}

static void on_script(redisAsyncContext *connection, void *data, void *loop)
{
    (void)connection;
    const redisReply *reply = data;
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40) {
        fprintf(stderr, "floor: a node did not take the script\n");
        exit(1);
    }
    floor_script_loaded(reply->str);
    if (++ready == node_count * floor_script_count)
        ev_break(loop, EVBREAK_ALL);
}

void transport_load(struct ev_loop *loop)
{
    for (unsigned node = 0; node < node_count; node++)
        for (unsigned i = 0; i < floor_script_count; i++)
            redisAsyncCommand(nodes[node], on_script, loop, "SCRIPT LOAD %s", floor_script(i));
    ev_run(loop, 0);
}

static void stop_loop(int events, void *loop)
{
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

void transport_close(struct ev_loop *loop)
{
    /* Wait for data in transit: closing a connection with unread replies would also discard unread commands. */
    ev_once(loop, -1, 0, DRAIN_S, stop_loop, loop);
    ev_run(loop, 0);
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i])
            redisAsyncFree(nodes[i]);
}
