/* The minimum work of a lock over N masters with hiredis and libev, as a lower bound: send the acquire to all nodes,
 * continue at the majority's grant, send the release to all, end at the majority's reply. There are no deadlines, no
 * reconnect and no validity check. floor_plain.c and floor_fence.c define the commands.
 *
 * FLOOR_FORMATS_ONCE: a command is encoded once for all nodes instead of once per node. */
#include "floor.h"

#include <ev.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "contender.h"
#include "floor_lock.h"

enum { NODES_MAX = 32 };

#define DRAIN_S 0.05

struct attempt {
    struct slot *slot;
    struct attempt *next; /* in the list of unused attempts */
    unsigned pending;     /* replies in transit */
    unsigned granted, refused, released;
    struct floor_lock lock;
};

static redisAsyncContext *nodes[NODES_MAX];
static unsigned node_count, majority, ready;
static struct attempt *unused;
static uint64_t token_state[3];
static unsigned long long allocations;

/* The first token is random, the next ones come from splitmix64: unique, and as cheap as possible. */
static void draw_token(char *token)
{
    for (unsigned i = 0, digit = 0; i < 3; i++) {
        uint64_t bits = token_state[i] += UINT64_C(0x9e3779b97f4a7c15);
        bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
        for (unsigned n = 0; n < 16 && digit < FLOOR_TOKEN_LENGTH; n++, bits >>= 4)
            token[digit++] = "0123456789abcdef"[bits & 15];
    }
}

static struct attempt *take_attempt(struct slot *slot)
{
    struct attempt *attempt = unused;
    if (attempt) {
        unused = attempt->next;
    } else {
        allocations++;
        attempt = malloc(sizeof *attempt);
        if (!attempt)
            abort();
    }
    *attempt = (struct attempt){.slot = slot};
    attempt->lock.resource = slot->resource;
    attempt->lock.resource_length = slot->resource_length;
    draw_token(attempt->lock.token);
    return attempt;
}

static void answered(struct attempt *attempt)
{
    if (--attempt->pending > 0)
        return;
    attempt->next = unused;
    unused = attempt;
}

#ifdef FLOOR_FORMATS_ONCE
static void send_all(struct attempt *attempt, redisCallbackFn *callback, struct floor_command *command)
{
    char *bytes;
    long long length = redisFormatCommandArgv(&bytes, command->count, command->words, command->lengths);
    if (length < 0)
        abort();
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i] && redisAsyncFormattedCommand(nodes[i], callback, attempt, bytes, (size_t)length) == REDIS_OK)
            attempt->pending++;
    redisFreeCommand(bytes);
}
#else
static void send_all(struct attempt *attempt, redisCallbackFn *callback, struct floor_command *command)
{
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i] && redisAsyncCommandArgv(nodes[i], callback, attempt, command->count, command->words,
                                              command->lengths) == REDIS_OK)
            attempt->pending++;
}
#endif

static void on_granted(redisAsyncContext *connection, void *data, void *private)
{
    (void)connection;
    const redisReply *reply = data;
    struct attempt *attempt = private;
    if (reply && floor_is_grant(reply)) {
        if (++attempt->granted == majority)
            slot_acquired(attempt->slot);
    } else if (++attempt->refused == node_count - majority + 1) {
        slot_failed(attempt->slot);
    }
    answered(attempt);
}

static void on_released(redisAsyncContext *connection, void *data, void *private)
{
    (void)connection;
    struct attempt *attempt = private;
    if (data && ++attempt->released == majority)
        slot_released(attempt->slot);
    answered(attempt);
}

void contender_acquire(struct slot *slot)
{
    struct attempt *attempt = slot->lock = take_attempt(slot);
    struct floor_command command = {0};
    floor_acquire(&command, &attempt->lock);
    send_all(attempt, on_granted, &command);
}

void contender_release(struct slot *slot)
{
    struct attempt *attempt = slot->lock;
    struct floor_command command = {0};
    floor_release(&command, &attempt->lock);
    send_all(attempt, on_released, &command);
}

static void on_script(redisAsyncContext *connection, void *data, void *private)
{
    (void)connection;
    const redisReply *reply = data;
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40) {
        fprintf(stderr, "floor: a node did not take the script\n");
        exit(1);
    }
    floor_script_loaded(reply->str);
    if (++ready == node_count * floor_script_count)
        ev_break(private, EVBREAK_ALL);
}

static void on_disconnect(const redisAsyncContext *connection, int status)
{
    (void)status;
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i] == connection)
            nodes[i] = NULL;
}

static void connect_node(struct ev_loop *loop, const char *address)
{
    char host[64];
    int port;
    if (node_count == NODES_MAX || sscanf(address, "%63[^:]:%d", host, &port) != 2) {
        fprintf(stderr, "floor: '%s' is not HOST:PORT, or is one node too many\n", address);
        exit(2);
    }
    redisAsyncContext *connection = redisAsyncConnect(host, port);
    if (!connection || connection->err) {
        fprintf(stderr, "floor: cannot connect to %s\n", address);
        exit(1);
    }
    nodes[node_count++] = connection;
    floor_attach(loop, connection);
    redisAsyncSetDisconnectCallback(connection, on_disconnect);
    for (unsigned i = 0; i < floor_script_count; i++)
        redisAsyncCommand(connection, on_script, loop, "SCRIPT LOAD %s", floor_script(i));
}

void contender_connect(struct ev_loop *loop, const char *list)
{
    char *copy = strdup(list), *rest = copy;
    if (!copy || getrandom(token_state, sizeof token_state, 0) != sizeof token_state)
        abort();
    for (char *address; (address = strsep(&rest, ","));)
        connect_node(loop, address);
    free(copy);
    majority = node_count / 2 + 1;
    ev_run(loop, 0);
}

static void stop_loop(int events, void *loop)
{
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

void contender_disconnect(struct ev_loop *loop)
{
    /* Wait for data in transit: closing a connection with unread replies would also discard unread commands. */
    ev_once(loop, -1, 0, DRAIN_S, stop_loop, loop);
    ev_run(loop, 0);
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i])
            redisAsyncFree(nodes[i]);
}

unsigned long long contender_allocations(void)
{
    return allocations;
}
