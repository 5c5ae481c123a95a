#include "src/link/limit.h"

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
static bool spend(struct rl_limit *limit, const redisReadTask *task, size_t bytes)
{
    if (!task->parent)
        limit->spent = 0;
    if (bytes > RL_REPLY_MAX - limit->spent || depth(task) > RL_NESTING_MAX) {
        limit->exceeded = true;
        return false;
    }
    limit->spent += bytes;
    return true;
}

static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    struct rl_limit *limit = task->privdata;
    return spend(limit, task, size) ? limit->original->createString(task, text, size) : NULL;
}

/* Counts the memory of the elements, which hiredis allocates before it reads the first. */
static void *create_array(const redisReadTask *task, elements_type elements)
{
    struct rl_limit *limit = task->privdata;
    size_t each = sizeof(redisReply) + sizeof(redisReply *);
    size_t count = (size_t)elements;
    size_t bytes = count > RL_REPLY_MAX / each ? RL_REPLY_MAX + 1 : count * each;
    return spend(limit, task, bytes) ? limit->original->createArray(task, elements) : NULL;
}

void rl_limit_attach(struct rl_limit *limit, redisReader *reader)
{
    limit->original = reader->fn;
    limit->functions = *reader->fn;
    limit->functions.createString = create_string;
    limit->functions.createArray = create_array;
    limit->spent = 0;
    limit->exceeded = false;
    reader->fn = &limit->functions;
    reader->privdata = limit;
}

bool rl_limit_is_exceeded(const struct rl_limit *limit, const redisReader *reader)
{
    return limit->exceeded || reader->len > RL_REPLY_MAX;
}
