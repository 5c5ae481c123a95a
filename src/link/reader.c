#include "src/link/reader.h"

#include <assert.h>
#include <string.h>

/* hiredis destroys an empty buffer with more room than this. Its own limit is the size of one read, so that it would
 * allocate the buffer again after each one. */
#define BUFFER_KEPT (64 * 1024)

#if HIREDIS_MAJOR >= 1
typedef size_t elements_type;
#else
typedef int elements_type;
#endif

static unsigned depth(const redisReadTask *task)
{
    unsigned arrays = 0;
    for (; task->parent; task = task->parent)
        arrays++;
    return arrays;
}

/* Adds bytes to the reply's total. false: the reply is too large or nested too deep. */
static bool spend(struct rl_reader *reader, const redisReadTask *task, size_t bytes)
{
    if (!task->parent)
        reader->spent = 0;
    assert(reader->spent <= reader->most);
    if (bytes > reader->most - reader->spent || depth(task) > RL_NESTING_MAX) {
        reader->exceeded = true;
        return false;
    }
    reader->spent += bytes;
    return true;
}

/* Only the fields that every version of hiredis has. The rest is zero. */
static redisReply *own_reply(struct rl_reader *reader, int type)
{
    redisReply *reply = &reader->reply;
    reply->type = type;
    reply->integer = 0;
    reply->str = NULL;
    reply->len = 0;
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    struct rl_reader *reader = task->privdata;
    if (!spend(reader, task, size))
        return NULL;
    bool known =
        task->type == REDIS_REPLY_STATUS || task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_ERROR;
    if (task->parent || !known || size >= RL_REPLY_SHORT)
        return reader->original->createString(task, text, size);
    redisReply *reply = own_reply(reader, task->type);
    memcpy(reader->text, text, size);
    reader->text[size] = '\0';
    reply->str = reader->text;
    reply->len = size;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct rl_reader *reader = task->privdata;
    if (task->parent)
        return reader->original->createInteger(task, value);
    redisReply *reply = own_reply(reader, REDIS_REPLY_INTEGER);
    reply->integer = value;
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    struct rl_reader *reader = task->privdata;
    return task->parent ? reader->original->createNil(task) : own_reply(reader, REDIS_REPLY_NIL);
}

/* Counts the memory of the elements, which hiredis allocates before it reads the first. */
static void *create_array(const redisReadTask *task, elements_type elements)
{
    struct rl_reader *reader = task->privdata;
    size_t each = sizeof(redisReply) + sizeof(redisReply *);
    size_t count = (size_t)elements;
    size_t bytes = count > reader->most / each ? reader->most + 1 : count * each;
    return spend(reader, task, bytes) ? reader->original->createArray(task, elements) : NULL;
}

void rl_reader_attach(struct rl_reader *reader, redisReader *hiredis, size_t most)
{
    reader->most = most;
    memset(&reader->reply, 0, sizeof reader->reply);
    reader->original = hiredis->fn;
    reader->functions = *hiredis->fn;
    reader->functions.createString = create_string;
    reader->functions.createInteger = create_integer;
    reader->functions.createNil = create_nil;
    reader->functions.createArray = create_array;
    reader->spent = 0;
    reader->exceeded = false;
    hiredis->fn = &reader->functions;
    hiredis->privdata = reader;
    hiredis->maxbuf = BUFFER_KEPT;
}

bool rl_reader_is_exceeded(const struct rl_reader *reader, const redisReader *hiredis)
{
    return reader->exceeded || hiredis->len - hiredis->pos > reader->most;
}

void rl_reader_free(const struct rl_reader *reader, void *reply)
{
    if (reply != &reader->reply)
        reader->original->freeObject(reply);
}
