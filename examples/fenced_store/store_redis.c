/* A hash with its token, on the application's own Redis. A script checks and writes in one step. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "store.h"

/* Returns 0 if it has written, otherwise the larger token. */
static const char script[] = "local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) "
                             "if tonumber(ARGV[2]) < seen then return seen end "
                             "redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fence', ARGV[2]) "
                             "return 0";

static enum store_outcome judge(const redisContext *context, const redisReply *reply, uint64_t *seen)
{
    if (!reply || reply->type != REDIS_REPLY_INTEGER) {
        fprintf(stderr, "redis: %s\n", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : context->errstr);
        return STORE_FAILED;
    }
    *seen = (uint64_t)reply->integer;
    return *seen ? STORE_REFUSED : STORE_WRITTEN;
}

enum store_outcome store_write_redis(const char *port, const char *value, uint64_t fence, uint64_t *seen)
{
    redisContext *context = redisConnect("127.0.0.1", atoi(port));
    if (!context || context->err) {
        fprintf(stderr, "redis: %s\n", context ? context->errstr : "no memory");
        redisFree(context);
        return STORE_FAILED;
    }
    redisReply *reply =
        redisCommand(context, "EVAL %s 1 fenced-store-data %s %llu", script, value, (unsigned long long)fence);
    enum store_outcome outcome = judge(context, reply, seen);
    freeReplyObject(reply);
    redisFree(context);
    return outcome;
}
