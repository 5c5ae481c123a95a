/* The vote for each reply of a node, and its time. hiredis parses the replies from the bytes that a server sends. */
#include <hiredis/hiredis.h>

#include "src/node/guard.h"
#include "src/node/reply.h"
#include "support/test.h"

/* Replies are written as words: a space ends a line, and _ is a space. */
static redisReader *reader_of(const char *words)
{
    char bytes[1024], *at = bytes;
    redisReader *reader = redisReaderCreate();
    for (; *words; words++)
        at += sprintf(at, *words == ' ' ? "\r\n" : *words == '_' ? " " : "%c", *words);
    ck_assert_int_eq(redisReaderFeed(reader, bytes, (size_t)(at - bytes)), REDIS_OK);
    return reader;
}

/* The next reply, for the caller to free; NULL behind the last one, when the reader is freed. */
static redisReply *next_reply(redisReader *reader)
{
    void *reply = NULL;
    ck_assert_int_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    if (!reply) {
        ck_assert_uint_eq(reader->len, reader->pos); /* each was whole */
        redisReaderFree(reader);
    }
    return reply;
}

/* The current reply; freed by the next call or at the end of the test. */
static redisReply *reply;

static void forget_reply(void)
{
    if (reply)
        freeReplyObject(reply);
    reply = NULL;
}

static const redisReply *reply_of(const char *bytes, size_t size)
{
    redisReader *reader = reader_of("");
    forget_reply();
    ck_assert_int_eq(redisReaderFeed(reader, bytes, size), REDIS_OK);
    reply = next_reply(reader);
    ck_assert_ptr_nonnull(reply);
    ck_assert_ptr_null(next_reply(reader));
    return reply;
}

enum { FOR_GOOD = 1, LEFT_NOTHING = 2, NOSCRIPT = 4, CLOCK = 8 };

/* What each of the replies is. REFUSED: for now. The table of errors has more of them. */
static const struct {
    enum rl_command_kind command;
    enum quorum_vote vote;
    unsigned flags;
    uint64_t record;
    const char *words;
} expectations[] = {
    {RL_COMMAND_SET, QUORUM_GRANTED, 0, 0, "+OK "},
    {RL_COMMAND_SET, QUORUM_HELD, LEFT_NOTHING, 0, "$-1 *-1 "},
    {RL_COMMAND_SET, QUORUM_REFUSED, 0, 0,
     "+OKAY +O $2 OK :1 - -LOADING -MISCONF -BUSY -MASTERDOWN -TRYAGAIN -CLUSTERDOWN -ERR_something_new -ERR "},
    {RL_COMMAND_SET_GET, QUORUM_GRANTED, 0, 0, "$-1 "},
    {RL_COMMAND_SET_GET, QUORUM_HELD, LEFT_NOTHING, 0, "$2 OK $0  -WRONGTYPE "},
    {RL_COMMAND_SET_GET, QUORUM_REFUSED, 0, 0, "+OK :1 -ERR_syntax_error -LOADING "},
    {RL_COMMAND_SET, QUORUM_REFUSED, FOR_GOOD, 0, "-NOPERM -MOVED -ASK -CROSSSLOT -READONLY "},
    {RL_COMMAND_EXTEND, QUORUM_GRANTED, 0, 0, "$1 1 "},
    {RL_COMMAND_EXTEND, QUORUM_ABSENT, LEFT_NOTHING, 0, "$1 0 "},
    {RL_COMMAND_EXTEND, QUORUM_REFUSED, 0, 0, "$1 2 $2 11 $0  +OK :1 "},
    {RL_COMMAND_EXTEND, QUORUM_REFUSED, FOR_GOOD, 0, "-WRONGTYPE "},
    {RL_COMMAND_EXTEND, QUORUM_REFUSED, NOSCRIPT, 0, "-NOSCRIPT "},
    {RL_COMMAND_HEAL, QUORUM_GRANTED, 0, 0, "$1 1 "},
    {RL_COMMAND_HEAL, QUORUM_HELD, LEFT_NOTHING, 0, "$1 0 "},
    {RL_COMMAND_HEAL, QUORUM_REFUSED, 0, 0, ":1 "},
    {RL_COMMAND_GRANT, QUORUM_GRANTED, 0, 0, ":0 "},
    {RL_COMMAND_GRANT, QUORUM_GRANTED, 0, 1700000000000000, ":1700000000000000 "},
    {RL_COMMAND_GRANT, QUORUM_HELD, LEFT_NOTHING, 0, ":-1 "},
    {RL_COMMAND_GRANT, QUORUM_HELD, LEFT_NOTHING, 5, ":-6 "},
    {RL_COMMAND_GRANT, QUORUM_HELD, LEFT_NOTHING, UINT32_MAX, ":-4294967296 "},
    {RL_COMMAND_GRANT, QUORUM_REFUSED, 0, 0, ":-4294967297 +OK "},
    {RL_COMMAND_GRANT, QUORUM_REFUSED, CLOCK, 0, "-CLOCK_too_far_ahead "},
    {RL_COMMAND_GRANT, QUORUM_REFUSED, NOSCRIPT, 0, "-NOSCRIPT "},
    {RL_COMMAND_KEEP, QUORUM_GRANTED, 0, 0, "*1 :0 "},
    {RL_COMMAND_KEEP, QUORUM_GRANTED, 0, 77, "*1 :77 "},
    {RL_COMMAND_KEEP, QUORUM_ABSENT, 0, 0, "*1 :-1 "},
    {RL_COMMAND_KEEP, QUORUM_REFUSED, CLOCK, 0, "*1 :-2 "},
    {RL_COMMAND_KEEP, QUORUM_REFUSED, 0, 0, "*1 $1 0 *2 :0 :0 :0 "},
    {RL_COMMAND_KEEP, QUORUM_REFUSED, NOSCRIPT, 0, "-NOSCRIPT "},
    {RL_COMMAND_RESTORE, QUORUM_GRANTED, 0, 77, "*1 :77 "},
    {RL_COMMAND_RESTORE, QUORUM_HELD, LEFT_NOTHING, 0, "*1 :-1 "},
    {RL_COMMAND_TAKE, QUORUM_GRANTED, 0, 0, "*6 :1 :60000 :0 :0 :0 $0  "},
    {RL_COMMAND_TAKE, QUORUM_GRANTED, 0, 5, "*6 :1 :60000 :0 :0 :5 $0  "},
    {RL_COMMAND_TAKE, QUORUM_HELD, LEFT_NOTHING, 0, "*6 :0 :60000 :0 :9 :0 $0  "},
    {RL_COMMAND_TAKE, QUORUM_REFUSED, CLOCK, 0, "*6 :1 :60000 :0 :0 :-9223372036854775808 $0  "},
    {RL_COMMAND_TAKE, QUORUM_REFUSED, 0, 0, "*5 :1 :60000 :0 :0 :0 *6 :1 :60000 :0 :0 $1 0 $0  "},
    {RL_COMMAND_ENQUEUE, QUORUM_GRANTED, 0, 0, "*6 :0 :60000 :0 :9 :0 $0  "},
    {RL_COMMAND_RELEASE, QUORUM_GRANTED, 0, 0, ":1 :2 $1 1 $1 2 "},
    {RL_COMMAND_RELEASE, QUORUM_ABSENT, LEFT_NOTHING, 0, ":0 $1 0 -WRONGTYPE "},
    {RL_COMMAND_RELEASE, QUORUM_REFUSED, 0, 0, "$1 x "},
    {RL_COMMAND_DEQUEUE, QUORUM_GRANTED, 0, 0, ":0 -NOPERM "},
    {RL_COMMAND_DEQUEUE, QUORUM_REFUSED, NOSCRIPT, 0, "-NOSCRIPT "},
    {RL_COMMAND_QUERY, QUORUM_GRANTED, 0, 0,
     "*4 $-1 :-2 :0 *0 *4 $3 abc :100 :7 *0 *4 $3 abc :-1 :-1 *0 "
     "*4 $-1 :-2 :0 *4 :0 $1 a :31 $1 b *4 :1 :100 :0 *0 "},
    {RL_COMMAND_QUERY, QUORUM_REFUSED, 0, 0,
     "*4 $3 abc $1 5 :0 *0 *4 $3 abc :5 $1 0 *0 *4 $-1 :-2 :0 *2 :32 $1 a *3 $3 abc :5 :0 "
     "*4 *0 :100 :0 *0 *4 $3 abc :1 :1 :1 *-1 *4 $3 abc :5 :0 *1 :0 *4 $3 abc :5 :0 *2 :-1 $1 a "
     "*4 $3 abc :5 :0 *2 :0 :1 *4 $3 abc :5 :0 *2 $1 a :0 *4 *1 :1 :1 :0 *0 "
     "*4 $-1 :-2 :0 *2 :33 $1 a *4 $-1 :-2 :0 *2 $-1 $1 a "},
    {RL_COMMAND_QUERY, QUORUM_REFUSED, NOSCRIPT, 0, "-NOSCRIPT "},
};

TEST_CASE(replies, NULL, forget_reply);

TEST_ROWS(replies, a_reply_is_one_vote, ROWS(expectations))
{
    redisReader *reader = reader_of(expectations[_i].words);
    for (unsigned count = 0; (reply = next_reply(reader)); count++) {
        struct rl_vote vote = rl_reply_vote(expectations[_i].command, reply);
        unsigned flags = (vote.permanent ? FOR_GOOD : 0) | (vote.left_nothing ? LEFT_NOTHING : 0) |
                         (vote.noscript ? NOSCRIPT : 0) | (vote.clock ? CLOCK : 0);
        ck_assert_msg(vote.vote == expectations[_i].vote && flags == expectations[_i].flags &&
                          vote.record == expectations[_i].record,
                      "command %d, reply %u of '%s': vote %d flags %u", (int)expectations[_i].command, count,
                      expectations[_i].words, (int)vote.vote, flags);
        forget_reply();
    }
}

/* The wording of the servers: Redis 5.0.14, 6.0.20, 6.2.16, 7.0.15 and 8.0.2, Valkey 8.1.1 and 9.1.2. */
#define SHA "620cd258c2c9c88c9d10db67812ccf663d96bdc6"

/* An error for the client, three of a script, and one that a script has caught. */
static const struct {
    const char *before, *behind;
} wrappings[] = {
    {"-", "\r\n"},
    {"-ERR Error running script (call to f_" SHA "): @user_script:36: @user_script: 36: -", " \r\n"},
    {"-", " script: " SHA ", on @user_script:36.\r\n"},
    {"-", " script: on @user_script:36.\r\n"},
    {"-@user_script: 1: ", "\r\n"},
};

static const struct {
    const char *text;
    enum rl_reply_error error;
} errors[] = {
    /* A missing right to a command, a key or a channel. */
    {"NOPERM User u has no permissions to run the 'info' command", RL_ERROR_NOT_PERMITTED},
    {"The user executing the script can't run this command or subcommand", RL_ERROR_NOT_PERMITTED},
    {"ERR The user executing the script can't run this command or subcommand", RL_ERROR_NOT_PERMITTED},
    {"ERR ACL failure in script: User u has no permissions to run the 'get' command", RL_ERROR_NOT_PERMITTED},

    {"NOAUTH Authentication required.", RL_ERROR_CREDENTIALS},
    {"WRONGPASS invalid username-password pair", RL_ERROR_CREDENTIALS},
    {"ERR AUTH <password> called without any password configured for the default user.", RL_ERROR_CREDENTIALS},
    {"ERR invalid password", RL_ERROR_CREDENTIALS},
    {"ERR Client sent AUTH, but no password is set", RL_ERROR_CREDENTIALS},
    {"ERR wrong number of arguments for 'auth' command", RL_ERROR_CREDENTIALS},

    {"ERR unknown command `TIME`, with args beginning with:", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR unknown subcommand 'ID'. Try CLIENT HELP.", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR Unknown subcommand or wrong number of arguments for 'ID'", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR Unknown command called from script", RL_ERROR_UNKNOWN_COMMAND},
    {"ERR This Redis command is not allowed from script", RL_ERROR_UNKNOWN_COMMAND},

    {"Lua script attempted to access a non local key in a cluster node", RL_ERROR_ELSEWHERE},
    {"ERR Script attempted to access keys that do not hash to the same slot", RL_ERROR_ELSEWHERE},
    {"ERR Script attempted to access keys that do not hash to the same slo", RL_ERROR_PASSING},
    {"ERR script tried accessing undeclared key", RL_ERROR_ELSEWHERE},
    {"READONLY You can't write against a read only replica.", RL_ERROR_ELSEWHERE},

    {"WRONGTYPE Operation against a key holding the wrong kind of value", RL_ERROR_WRONGTYPE},
    {"NOSCRIPT No matching script. Please use EVAL.", RL_ERROR_NOSCRIPT},
    {"CLOCK too far ahead", RL_ERROR_CLOCK},
    {"OOM command not allowed when used memory > 'maxmemory'.", RL_ERROR_PASSING},
    {"user_script:36: attempt to concatenate a table value", RL_ERROR_PASSING},
    {"LOADING script: none", RL_ERROR_PASSING},
    {"NOPERMS x", RL_ERROR_PASSING},
    {"", RL_ERROR_PASSING},
};

TEST_ROWS(replies, error_of_any_server_is_recognised, ROWS(errors))
{
    for (int i = 0; i < ROWS(wrappings); i++) {
        char bytes[256], text[256];
        snprintf(bytes, sizeof bytes, "%s%s%s", wrappings[i].before, errors[_i].text, wrappings[i].behind);
        const redisReply *given = reply_of(bytes, strlen(bytes));
        ck_assert_msg(rl_reply_error(given) == errors[_i].error, "%s", bytes);
        ck_assert_int_eq(rl_reply_vote(RL_COMMAND_SET, given).permanent, errors[_i].error >= RL_ERROR_NOT_PERMITTED);
        rl_reply_text(given, text, sizeof text);
        ck_assert_str_eq(text, errors[_i].text);
    }
}

/* Truncated wrappings, and what is no error. */
static const struct {
    const char *bytes, *text;
    enum rl_reply_error error;
} others[] = {
    {"-ERR Error running script (call to f_\r\n", "", RL_ERROR_PASSING},
    {"-ERR Error running script (call to f_" SHA "): @user_script:\r\n", "@user_script:", RL_ERROR_PASSING},
    {"-ERR ACL failure in script: " SHA ", on @user_script:36.\r\n", "ERR ACL failure in", RL_ERROR_PASSING},
    {"+NOPERM\r\n", "", RL_ERROR_NONE},
    {":7\r\n", "", RL_ERROR_NONE},
};

TEST_ROWS(replies, reply_that_is_no_whole_error_is_read, ROWS(others))
{
    char text[256];
    ck_assert_int_eq(rl_reply_error(reply_of(others[_i].bytes, strlen(others[_i].bytes))), others[_i].error);
    rl_reply_text(reply, text, sizeof text);
    ck_assert_str_eq(text, others[_i].text);
}

TEST(replies, text_is_truncated_and_printable)
{
    static const char bytes[] = "-ERR a\0b\tc\x1b[31m\x7f\x9b\xc2\x9b\xc3\xa4\r\n";
    char text[32], small[8];
    rl_reply_text(reply_of(bytes, sizeof bytes - 1), text, sizeof text);
    ck_assert_str_eq(text, "ERR a?b?c?[31m????\xc3\xa4");
    rl_reply_text(reply, small, sizeof small);
    ck_assert_str_eq(small, "ERR a?b");
    rl_reply_text(reply, small, 1);
    ck_assert_str_eq(small, "");
}

/* tests/fake/round_test.c has the holders that SET and a grant name. */
static const struct {
    enum rl_command_kind command;
    const char *words, *holder; /* NULL: the reply names none */
} holders[] = {
    {RL_COMMAND_TAKE, "*6 :0 :0 :0 :0 :0 $1 a ", "a"},
    {RL_COMMAND_ENQUEUE, "*6 :0 :0 :0 :0 :0 $1 a ", "a"},
    {RL_COMMAND_SET_GET, "$-1 +OK ", NULL},
    {RL_COMMAND_ENQUEUE, "*6 :0 :0 :0 :0 :0 :1 *5 :0 :0 :0 :0 :0 ", NULL},
    {RL_COMMAND_TAKE, "$1 a ", NULL},
    {RL_COMMAND_SET, "$1 a ", NULL},
    {RL_COMMAND_EXTEND, "$1 a ", NULL},
    {RL_COMMAND_QUERY, "$1 a ", NULL},
};

TEST_ROWS(replies, holder_is_named_by_these_replies_alone, ROWS(holders))
{
    redisReader *reader = reader_of(holders[_i].words);
    while ((reply = next_reply(reader))) {
        const redisReply *holder = rl_reply_holder(holders[_i].command, reply);
        ck_assert_pstr_eq(holder ? holder->str : NULL, holders[_i].holder);
        forget_reply();
    }
}

static const struct {
    const char *words;
    uint64_t time_us; /* 0: it is no time */
} times[] = {
    {"*2 $1 7 $1 8 *2 $15 000000000000007 $15 000000000000008 ", 7000008},
    {"*2 $10 1700000000 $6 999999 ", 1700000000999999},
    {"*2 $10 9223372035 $1 0 ", 9223372035000000},
    {"*2 $10 9223372036 $1 0 ", 0}, /* in ns it passes 64 bits, with a sign */
    {"*2 $1 7 $7 1000000 *2 $16 0000000000000007 $1 8 *2 $1 7 $16 0000000000000008 *2 :7 $1 8 *2 $1 7 :8 ", 0},
    {"*2 $1 a $1 8 *2 $1 7 $1 b *1 $1 7 *3 $1 7 $1 8 $1 9 +OK ", 0},
};

TEST_ROWS(replies, time_is_two_numbers, ROWS(times))
{
    redisReader *reader = reader_of(times[_i].words);
    for (; (reply = next_reply(reader)); forget_reply()) {
        uint64_t time_us = 0;
        ck_assert(rl_guard_parse_time(reply, &time_us) == (times[_i].time_us != 0));
        ck_assert_uint_eq(time_us, times[_i].time_us);
    }
}

TEST_PROGRAM("replies")
