/*
 * hiredis' reader with limits, and without an allocation for most replies.
 *
 * The limits protect this process from a server that is hostile or not Redis: a reply ends the connection if it is too
 * large or nested too deep. A status, a number, nil, or a short string that is not part of an array is returned in
 * memory of the reader; every other reply is hiredis' own. hiredis calls these functions through the public table
 * `redisReader.fn`, in all versions.
 */
#ifndef RL_READER_H
#define RL_READER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/* The most bytes of a reply to a request. */
#define RL_REPLY_MAX (1024 * 1024)
/* Arrays in arrays. hiredis 0.14 supports no more; later versions do, and recurse when they free the reply. */
#define RL_NESTING_MAX 7
/* Strings of fewer bytes need no allocation: errors, and a marker with the default names. */
#define RL_REPLY_SHORT 256

struct rl_reader {
    redisReplyObjectFunctions functions; /* hiredis' functions, except those that create strings, numbers and arrays */
    const redisReplyObjectFunctions *original;
    size_t most;  /* bytes of a reply, parsed or still in hiredis' buffer */
    size_t spent; /* bytes of the present reply */
    bool exceeded;
    redisReply reply; /* the present reply, unless it was allocated */
    char text[RL_REPLY_SHORT];
};

/* Call it before the reader's first data. It must live as long as hiredis' reader. */
void rl_reader_attach(struct rl_reader *reader, redisReader *hiredis, size_t most);

/* The present reply exceeds a limit. Check it after each read. */
bool rl_reader_is_exceeded(const struct rl_reader *reader, const redisReader *hiredis);

/* Bytes have arrived behind the last reply that was taken. */
static inline bool rl_reader_has_more(const redisReader *hiredis)
{
    return hiredis->pos < hiredis->len;
}

/* Frees a reply. Each reply must be freed before the next one is taken. */
void rl_reader_free(const struct rl_reader *reader, void *reply);

#endif
