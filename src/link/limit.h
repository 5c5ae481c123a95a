/*
 * What one reply may cost. hiredis believes a server's numbers: an array that is said to have two thousand million
 * elements gets its memory before the first of them comes, and one without an end grows for as long as it is sent. A
 * node's answers are short; what goes beyond ends the link.
 */
#ifndef RL_LIMIT_H
#define RL_LIMIT_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes of a reply, made or still in the reader's buffer. */
#define RL_REPLY_MAX (1024 * 1024)
/* Arrays in arrays. hiredis 0.14 knows no more; later ones do, and recurse when they free it. */
#define RL_NESTING_MAX 7

struct rl_limit {
    redisReplyObjectFunctions functions; /* hiredis' own, but for those that ask here first */
    const redisReplyObjectFunctions *original;
    size_t spent; /* on the reply that is being read */
    bool exceeded;
};

/* Before the reader is fed; the limit lives as long as the reader. */
void rl_limit_attach(struct rl_limit *limit, redisReader *reader);

/* The reply under way has gone too far, or would. After each read. */
bool rl_limit_is_exceeded(const struct rl_limit *limit, const redisReader *reader);

#endif
