/* Replies of a node, written as words: a space ends a line, and _ is a space. hiredis parses them from the bytes. */
#ifndef TESTS_PARTS_REPLIES_H
#define TESTS_PARTS_REPLIES_H

#include <hiredis/hiredis.h>

#include "support/test.h"

static inline redisReader *reader_of(const char *words)
{
    char bytes[1024], *at = bytes;
    redisReader *reader = redisReaderCreate();
    for (; *words; words++)
        at += sprintf(at, *words == ' ' ? "\r\n" : *words == '_' ? " " : "%c", *words);
    ck_assert_int_eq(redisReaderFeed(reader, bytes, (size_t)(at - bytes)), REDIS_OK);
    return reader;
}

/* The next reply, for the caller to free; NULL behind the last one, when the reader is freed. */
static inline redisReply *next_reply(redisReader *reader)
{
    void *reply = NULL;
    ck_assert_int_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    if (!reply) {
        ck_assert_uint_eq(reader->len, reader->pos); /* each was whole */
        redisReaderFree(reader);
    }
    return reply;
}

#endif
