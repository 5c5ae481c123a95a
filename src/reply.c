#include "src/reply.h"

#include <string.h>

#include "redlock/redlock.h"

bool rl_reply_is_error(const redisReply *reply, const char *word)
{
    size_t size = strlen(word);
    return reply->type == REDIS_REPLY_ERROR && (size_t)reply->len >= size && memcmp(reply->str, word, size) == 0 &&
           ((size_t)reply->len == size || reply->str[size] == ' ');
}

/* Before 7.2 what a script may not do is an ordinary error. */
bool rl_reply_is_not_permitted(const redisReply *reply)
{
    return rl_reply_is_error(reply, "NOPERM") || rl_reply_is_error(reply, "ERR The user executing the script");
}

void rl_reply_text(const redisReply *reply, char *text, size_t size)
{
    size_t used = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        for (size_t i = 0; i < (size_t)reply->len && used + 1 < size; i++) {
            unsigned char c = (unsigned char)reply->str[i];
            text[used++] = c < ' ' || c == 127 ? '?' : (char)c;
        }
    }
    text[used] = '\0';
}

/* Refusals that end only when someone acts. LOADING, BUSY, OOM, MISCONF, MASTERDOWN, TRYAGAIN and what is unknown may
 * pass by themselves. */
static bool is_permanent(const redisReply *reply)
{
    static const char *const words[] = {"NOPERM", "NOAUTH", "WRONGPASS", "READONLY",
                                        "MOVED",  "ASK",    "CROSSSLOT", "WRONGTYPE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (rl_reply_is_error(reply, words[i]))
            return true;
    return rl_reply_is_error(reply, "ERR unknown command") || rl_reply_is_not_permitted(reply);
}

static struct rl_vote refused(const redisReply *reply)
{
    return (struct rl_vote){.vote = QUORUM_REFUSED,
                            .permanent = is_permanent(reply),
                            .noscript = rl_reply_is_error(reply, "NOSCRIPT"),
                            .clock = rl_reply_is_error(reply, "CLOCK")};
}

static const struct rl_vote granted = {.vote = QUORUM_GRANTED};
static const struct rl_vote held = {.vote = QUORUM_HELD, .left_nothing = true};
static const struct rl_vote absent = {.vote = QUORUM_ABSENT, .left_nothing = true};

/* SET NX: OK, or nil because a key is there already. Ours it cannot be: the token is fresh. */
static struct rl_vote set(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STATUS && reply->len == 2 && memcmp(reply->str, "OK", 2) == 0)
        return granted;
    if (reply->type == REDIS_REPLY_NIL)
        return held;
    return refused(reply);
}

/* The script that grants whole locks: the fencing record before, or -1. One that refuses has set nothing. */
static struct rl_vote grant(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)reply->integer};
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= -1 - (long long)UINT32_MAX)
        return (struct rl_vote){.vote = QUORUM_HELD, .left_nothing = true, .record = (uint64_t)(-1 - reply->integer)};
    return refused(reply);
}

/* The script that keeps locks, asked about one: the fencing record before, or -1 not ours, or -2 the token is refused. */
static struct rl_vote keep(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return refused(reply);
    long long answer = reply->element[0]->integer;
    if (answer >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)answer};
    if (answer == -1)
        return (struct rl_vote){.vote = QUORUM_ABSENT};
    return (struct rl_vote){.vote = QUORUM_REFUSED, .clock = true};
}

/* The scripts that act on our own key only: done, or 0 not ours. */
static struct rl_vote own_key(const redisReply *reply, long long done)
{
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 1 && reply->integer <= done)
        return granted;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        return absent;
    if (rl_reply_is_error(reply, "WRONGTYPE")) /* a key of another kind: surely not ours */
        return absent;
    return refused(reply);
}

/* Slots and the tokens in them, in turns. */
static bool are_permits(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0)
        return false;
    for (size_t i = 0; i < reply->elements; i += 2) {
        const redisReply *slot = reply->element[i];
        if (slot->type != REDIS_REPLY_INTEGER || slot->integer < 0 || slot->integer >= REDLOCK_PERMITS_MAX ||
            reply->element[i + 1]->type != REDIS_REPLY_STRING)
            return false;
    }
    return true;
}

static struct rl_vote query(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4 || reply->element[1]->type != REDIS_REPLY_INTEGER ||
        reply->element[2]->type != REDIS_REPLY_INTEGER || !are_permits(reply->element[3]))
        return refused(reply);
    if (reply->element[0]->type != REDIS_REPLY_STRING && reply->element[0]->type != REDIS_REPLY_NIL)
        return refused(reply);
    return granted;
}

/* The guard's answer says what its marker has come to: a marker of another deployment is left alone. */
static struct rl_vote trust(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 8 || reply->element[6]->type != REDIS_REPLY_STRING)
        return refused(reply);
    bool trusted = reply->element[6]->len == 7 && memcmp(reply->element[6]->str, "trusted", 7) == 0;
    return (struct rl_vote){.vote = trusted ? QUORUM_GRANTED : QUORUM_REFUSED, .permanent = !trusted};
}

/* The waiting script: taken or not, and more numbers in any case. */
static struct rl_vote wait(const redisReply *reply, bool take)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5)
        return refused(reply);
    for (size_t i = 0; i < 5; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return refused(reply);
    if (!take)
        return granted;
    if (reply->element[0]->integer == 1 && reply->element[4]->integer >= 0)
        return (struct rl_vote){.vote = QUORUM_GRANTED, .record = (uint64_t)reply->element[4]->integer};
    return (struct rl_vote){.vote = QUORUM_HELD, .left_nothing = true, .record = (uint64_t)reply->element[4]->integer};
}

struct rl_vote rl_reply_vote(enum rl_question question, const redisReply *reply)
{
    switch (question) {
    case RL_ASK_SET:
        return set(reply);
    case RL_ASK_GRANT:
        return grant(reply);
    case RL_ASK_EXTEND:
        return own_key(reply, 1);
    case RL_ASK_KEEP:
        return keep(reply);
    case RL_ASK_RELEASE:
        return own_key(reply, 2); /* 2: done, but the waiters could not be told */
    case RL_ASK_QUERY:
        return query(reply);
    case RL_ASK_TRY:
    case RL_ASK_TAKE:
    case RL_ASK_SIGN:
        return wait(reply, question != RL_ASK_SIGN);
    case RL_ASK_LEAVE: /* what else is refused ends by itself, and soon */
        return rl_reply_is_error(reply, "NOSCRIPT") ? refused(reply) : granted;
    case RL_ASK_TRUST:
        return trust(reply);
    }
    return refused(reply);
}
