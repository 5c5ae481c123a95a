/* The unit of cost: one PING on one blocking hiredis connection, to the first node. Its release does nothing. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "contender.h"

static redisContext *connection;

void contender_open(const char *nodes)
{
    char host[64];
    int port;
    if (sscanf(nodes, "%63[^:]:%d", host, &port) != 2)
        exit(2);
    connection = redisConnect(host, port);
    if (!connection || connection->err) {
        fprintf(stderr, "ping: cannot connect to %s:%d\n", host, port);
        exit(1);
    }
}

bool contender_lock(struct slot *slot)
{
    (void)slot;
    redisReply *reply = redisCommand(connection, "PING");
    bool answered = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    return answered;
}

bool contender_unlock(struct slot *slot)
{
    (void)slot;
    return true;
}

void contender_close(void)
{
    redisFree(connection);
}

void contender_state(struct contender_state *state)
{
    *state = (struct contender_state){0};
}
