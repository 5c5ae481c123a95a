/*
 * Limits the memory of one reply. hiredis trusts the server: it allocates an array of two thousand million elements
 * before the first one arrives, and buffers a bulk string without an end for as long as the server sends. A node's
 * replies are short; one beyond these limits closes the connection.
 */
#ifndef RL_LIMIT_H
#define RL_LIMIT_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes of a reply, parsed or still in the reader's buffer. */
#define RL_REPLY_MAX (1024 * 1024)
/* Arrays in arrays. hiredis 0.14 supports no more; later versions do, and recurse when they free the reply. */
#define RL_NESTING_MAX 7

struct rl_limit {
    redisReplyObjectFunctions functions; /* hiredis' functions, except the two that check the limit first */
    const redisReplyObjectFunctions *original;
    size_t spent; /* bytes of the present reply */
    bool exceeded;
};

/* Call it before the reader's first data. The limit must live as long as the reader. */
void rl_limit_attach(struct rl_limit *limit, redisReader *reader);

/* The present reply exceeds a limit. Check it after each read. */
bool rl_limit_is_exceeded(const struct rl_limit *limit, const redisReader *reader);

#endif
