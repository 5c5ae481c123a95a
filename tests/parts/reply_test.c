/* The vote for each reply of a node. hiredis parses the replies from the bytes that a server sends. */
#include "src/node/reply.h"
#include "support/fake_server.h"
#include "support/test.h"

/* The current reply; freed by the next call or at the end of the test. */
static redisReply *reply;

static void forget_reply(void)
{
    if (reply)
        freeReplyObject(reply);
    reply = NULL;
}

static const redisReply *reply_of_bytes(const char *bytes, size_t size)
{
    redisReader *reader = redisReaderCreate();
    void *read = NULL;
    forget_reply();
    ck_assert_int_eq(redisReaderFeed(reader, bytes, size), REDIS_OK);
    ck_assert_int_eq(redisReaderGetReply(reader, &read), REDIS_OK);
    ck_assert_ptr_nonnull(read);
    redisReaderFree(reader);
    reply = read;
    return reply;
}

static const redisReply *reply_of(const char *bytes)
{
    return reply_of_bytes(bytes, strlen(bytes));
}

enum { FOR_GOOD = 1, LEFT_NOTHING = 2, NOSCRIPT = 4, CLOCK = 8 };

/* REFUSED: for now. The table of errors has more of them. */
static const struct {
    enum rl_command_kind command;
    const char *bytes;
    enum quorum_vote vote;
    unsigned flags;
    uint64_t record;
} expectations[] = {
    {RL_COMMAND_SET, "+OK\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_SET, "$-1\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_SET, "*-1\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_SET, "+OKAY\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "+O\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "$2\r\nOK\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, ":1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET_GET, "$-1\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_SET_GET, "$2\r\nOK\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_SET_GET, "$0\r\n\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_SET_GET, "-WRONGTYPE Operation against a key\r\n", QUORUM_HELD, LEFT_NOTHING, 0}, /* readers */
    {RL_COMMAND_SET_GET, "+OK\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET_GET, ":1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET_GET, "-ERR syntax error\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET_GET, FAKE_LOADING, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "-\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_LOADING, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_MISCONF, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_BUSY, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_MASTERDOWN, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "-CLUSTERDOWN The cluster is down\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, "-ERR something new\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_MAXCLIENTS, QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_SET, FAKE_NOPERM, QUORUM_REFUSED, FOR_GOOD, 0},
    {RL_COMMAND_SET, "-MOVED 3999 127.0.0.1:6381\r\n", QUORUM_REFUSED, FOR_GOOD, 0},
    {RL_COMMAND_SET, "-ASK 3999 127.0.0.1:6381\r\n", QUORUM_REFUSED, FOR_GOOD, 0},
    {RL_COMMAND_SET, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", QUORUM_REFUSED, FOR_GOOD, 0},
    {RL_COMMAND_SET, "-READONLY\r\n", QUORUM_REFUSED, FOR_GOOD, 0},

    {RL_COMMAND_EXTEND, "$1\r\n1\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_EXTEND, "$1\r\n0\r\n", QUORUM_ABSENT, LEFT_NOTHING, 0},
    {RL_COMMAND_EXTEND, "$1\r\n2\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_EXTEND, "$2\r\n11\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_EXTEND, "$0\r\n\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_EXTEND, "+OK\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_EXTEND, ":1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_EXTEND, FAKE_WRONGTYPE, QUORUM_REFUSED, FOR_GOOD, 0},
    {RL_COMMAND_EXTEND, FAKE_NOSCRIPT, QUORUM_REFUSED, NOSCRIPT, 0},

    {RL_COMMAND_HEAL, "$1\r\n1\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_HEAL, "$1\r\n0\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_HEAL, ":1\r\n", QUORUM_REFUSED, 0, 0},

    {RL_COMMAND_GRANT, ":0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_GRANT, ":1700000000000000\r\n", QUORUM_GRANTED, 0, 1700000000000000},
    {RL_COMMAND_GRANT, ":-1\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_GRANT, ":-6\r\n", QUORUM_HELD, LEFT_NOTHING, 5},
    {RL_COMMAND_GRANT, ":-4294967296\r\n", QUORUM_HELD, LEFT_NOTHING, UINT32_MAX},
    {RL_COMMAND_GRANT, ":-4294967297\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_GRANT, "+OK\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_GRANT, "-CLOCK too far ahead\r\n", QUORUM_REFUSED, CLOCK, 0},
    {RL_COMMAND_GRANT, FAKE_NOSCRIPT, QUORUM_REFUSED, NOSCRIPT, 0},

    {RL_COMMAND_KEEP, "*1\r\n:0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_KEEP, "*1\r\n:77\r\n", QUORUM_GRANTED, 0, 77},
    {RL_COMMAND_KEEP, "*1\r\n:-1\r\n", QUORUM_ABSENT, 0, 0},
    {RL_COMMAND_KEEP, "*1\r\n:-2\r\n", QUORUM_REFUSED, CLOCK, 0},
    {RL_COMMAND_KEEP, "*1\r\n$1\r\n0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_KEEP, "*2\r\n:0\r\n:0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_KEEP, ":0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_KEEP, FAKE_NOSCRIPT, QUORUM_REFUSED, NOSCRIPT, 0},
    {RL_COMMAND_RESTORE, "*1\r\n:77\r\n", QUORUM_GRANTED, 0, 77},
    {RL_COMMAND_RESTORE, "*1\r\n:-1\r\n", QUORUM_HELD, LEFT_NOTHING, 0},

    {RL_COMMAND_TAKE, "*6\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:0\r\n$0\r\n\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_TAKE, "*6\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:5\r\n$0\r\n\r\n", QUORUM_GRANTED, 0, 5},
    {RL_COMMAND_TAKE, "*6\r\n:0\r\n:60000\r\n:0\r\n:9\r\n:0\r\n$0\r\n\r\n", QUORUM_HELD, LEFT_NOTHING, 0},
    {RL_COMMAND_TAKE, "*6\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:-9223372036854775808\r\n$0\r\n\r\n", QUORUM_REFUSED, CLOCK,
     0},
    {RL_COMMAND_TAKE, "*5\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_TAKE, "*6\r\n:1\r\n:60000\r\n:0\r\n:0\r\n$1\r\n0\r\n$0\r\n\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_ENQUEUE, "*6\r\n:0\r\n:60000\r\n:0\r\n:9\r\n:0\r\n$0\r\n\r\n", QUORUM_GRANTED, 0, 0},

    {RL_COMMAND_RELEASE, ":1\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_RELEASE, ":2\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_RELEASE, ":0\r\n", QUORUM_ABSENT, LEFT_NOTHING, 0},
    {RL_COMMAND_RELEASE, "$1\r\n1\r\n", QUORUM_GRANTED, 0, 0}, /* by a carrier */
    {RL_COMMAND_RELEASE, "$1\r\n2\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_RELEASE, "$1\r\n0\r\n", QUORUM_ABSENT, LEFT_NOTHING, 0},
    {RL_COMMAND_RELEASE, "$1\r\nx\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_RELEASE, FAKE_WRONGTYPE, QUORUM_ABSENT, LEFT_NOTHING, 0},

    {RL_COMMAND_DEQUEUE, ":0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_DEQUEUE, FAKE_NOPERM, QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_DEQUEUE, FAKE_NOSCRIPT, QUORUM_REFUSED, NOSCRIPT, 0},

    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:100\r\n:7\r\n*0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:-1\r\n:-1\r\n*0\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n$1\r\n5\r\n:0\r\n*0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n$1\r\n0\r\n*0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*4\r\n:0\r\n$1\r\na\r\n:31\r\n$1\r\nb\r\n", QUORUM_GRANTED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*2\r\n:32\r\n$1\r\na\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*3\r\n$3\r\nabc\r\n:5\r\n:0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n:1\r\n:100\r\n:0\r\n*0\r\n", QUORUM_GRANTED, 0, 0}, /* readers */
    {RL_COMMAND_QUERY, "*4\r\n*0\r\n:100\r\n:0\r\n*0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:1\r\n:1\r\n:1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*-1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*1\r\n:0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n:-1\r\n$1\r\na\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n:0\r\n:1\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n$1\r\na\r\n:0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, "*4\r\n*1\r\n:1\r\n:1\r\n:0\r\n*0\r\n", QUORUM_REFUSED, 0, 0},
    {RL_COMMAND_QUERY, FAKE_NOSCRIPT, QUORUM_REFUSED, NOSCRIPT, 0},
};

TEST_CASE(replies, NULL, forget_reply);

TEST_ROWS(replies, a_reply_is_one_vote, ROWS(expectations))
{
    struct rl_vote vote = rl_reply_vote(expectations[_i].command, reply_of(expectations[_i].bytes));
    unsigned flags = (vote.permanent ? FOR_GOOD : 0) | (vote.left_nothing ? LEFT_NOTHING : 0) |
                     (vote.noscript ? NOSCRIPT : 0) | (vote.clock ? CLOCK : 0);
    ck_assert_msg(vote.vote == expectations[_i].vote && flags == expectations[_i].flags &&
                      vote.record == expectations[_i].record,
                  "command %d, '%s': vote %d flags %u", (int)expectations[_i].command, expectations[_i].bytes,
                  (int)vote.vote, flags);
}

/* The wording of the servers: Redis 5.0.14, 6.0.20, 6.2.16, 7.0.15 and 8.0.2, Valkey 8.1.1 and 9.1.2. */
#define SHA     "620cd258c2c9c88c9d10db67812ccf663d96bdc6"
#define BEFORE  "-ERR Error running script (call to f_" SHA "): @user_script:36: "
#define BEHIND  " script: " SHA ", on @user_script:36.\r\n"
#define BEHIND9 " script: on @user_script:36.\r\n"

static const struct {
    const char *before, *text, *behind; /* the bytes, of which the text is shown */
    enum rl_reply_error error;
} errors[] = {
    /* A missing right to a command, a key or a channel: refused to the client, to a script, or caught by the script. */
    {"-", "NOPERM this user has no permissions to run the 'info' command or its subcommand", "\r\n",
     RL_ERROR_NOT_PERMITTED},
    {"-", "NOPERM User u has no permissions to run the 'info' command", "\r\n", RL_ERROR_NOT_PERMITTED},
    {"-", "NOPERM No permissions to access a key", "\r\n", RL_ERROR_NOT_PERMITTED},
    {BEFORE "@user_script: 36: ", "The user executing the script can't run this command or subcommand", "\r\n",
     RL_ERROR_NOT_PERMITTED},
    {BEFORE "@user_script: 36: ",
     "The user executing the script can't access at least one of the keys mentioned in the command arguments", "\r\n",
     RL_ERROR_NOT_PERMITTED},
    {BEFORE "@user_script: 36: ", "The user executing the script can't publish to the channel mentioned in the command",
     "\r\n", RL_ERROR_NOT_PERMITTED},
    {"-@user_script: 1: ", "The user executing the script can't run this command or subcommand", "\r\n",
     RL_ERROR_NOT_PERMITTED},
    {"-", "ERR The user executing the script can't run this command or subcommand", BEHIND, RL_ERROR_NOT_PERMITTED},
    {"-", "ERR The user executing the script can't run this command or subcommand", "\r\n", RL_ERROR_NOT_PERMITTED},
    {"-", "ERR ACL failure in script: User u has no permissions to run the 'get' command", BEHIND,
     RL_ERROR_NOT_PERMITTED},
    {"-", "ERR ACL failure in script: No permissions to access a channel", BEHIND9, RL_ERROR_NOT_PERMITTED},

    {"-", "NOAUTH Authentication required.", "\r\n", RL_ERROR_CREDENTIALS},
    {"-", "WRONGPASS invalid username-password pair", "\r\n", RL_ERROR_CREDENTIALS},
    {"-",
     "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
     "configuration is correct?",
     "\r\n", RL_ERROR_CREDENTIALS},
    {"-", "ERR invalid password", "\r\n", RL_ERROR_CREDENTIALS},
    {"-", "ERR Client sent AUTH, but no password is set", "\r\n", RL_ERROR_CREDENTIALS},
    {"-", "ERR wrong number of arguments for 'auth' command", "\r\n", RL_ERROR_CREDENTIALS},

    {"-", "ERR unknown command `TIME`, with args beginning with:", " \r\n", RL_ERROR_UNKNOWN_COMMAND},
    {BEFORE "@user_script: 36: ", "Unknown Redis command called from Lua script", " \r\n", RL_ERROR_UNKNOWN_COMMAND},
    {"-", "ERR Unknown Redis command called from script", BEHIND, RL_ERROR_UNKNOWN_COMMAND},
    {BEFORE "@user_script: 36: ", "This Redis command is not allowed from scripts", "\r\n", RL_ERROR_UNKNOWN_COMMAND},
    {"-", "ERR This Redis command is not allowed from script", BEHIND, RL_ERROR_UNKNOWN_COMMAND},
    {"-", "ERR unknown subcommand 'ID'. Try CLIENT HELP.", "\r\n", RL_ERROR_UNKNOWN_COMMAND},
    {BEFORE "@user_script: 36: ", "Lua script attempted to access a non local key in a cluster node", "\r\n",
     RL_ERROR_ELSEWHERE},
    {"-", "ERR Script attempted to access a non local key in a cluster node", BEHIND, RL_ERROR_ELSEWHERE},
    {"-", "ERR Script attempted to access keys that do not hash to the same slot", BEHIND9, RL_ERROR_ELSEWHERE},
    {"-", "ERR Script attempted to access keys that do not hash to the same slo", BEHIND9, RL_ERROR_PASSING},
    {"-", "ERR Unknown command called from script", BEHIND9, RL_ERROR_UNKNOWN_COMMAND},
    {"-", "ERR Unknown Redict command called from script", BEHIND, RL_ERROR_UNKNOWN_COMMAND},

    {BEFORE, "WRONGTYPE Operation against a key holding the wrong kind of value", " \r\n", RL_ERROR_WRONGTYPE},
    {"-", "WRONGTYPE Operation against a key holding the wrong kind of value", BEHIND, RL_ERROR_WRONGTYPE},
    {BEFORE "@user_script: 36: -", "READONLY You can't write against a read only replica.", " \r\n",
     RL_ERROR_ELSEWHERE},
    {"-", "READONLY You can't write against a read only replica.", BEHIND, RL_ERROR_ELSEWHERE},

    {BEFORE "@user_script: 36: -", "OOM command not allowed when used memory > 'maxmemory'.", " \r\n",
     RL_ERROR_PASSING},
    {"-", "OOM command not allowed when used memory > 'maxmemory'.", BEHIND9, RL_ERROR_PASSING},
    {BEFORE, "user_script:36: attempt to concatenate a table value", "\r\n", RL_ERROR_PASSING},
    {"-", "NOSCRIPT No matching script. Please use EVAL.", "\r\n", RL_ERROR_NOSCRIPT},
    {"-", "NOSCRIPT No matching script.", "\r\n", RL_ERROR_NOSCRIPT},
    {"-", "CLOCK too far ahead", "\r\n", RL_ERROR_CLOCK},

    /* Truncated, or similar to such an error. */
    {"-ERR Error running script (call to f_", "", "\r\n", RL_ERROR_PASSING},
    {"-ERR Error running script (call to f_" SHA "): ", "", "\r\n", RL_ERROR_PASSING},
    {"-ERR Error running script (call to f_" SHA "): ", "@user_script:", "\r\n", RL_ERROR_PASSING},
    {"-@user_script: 1: -", "", "\r\n", RL_ERROR_PASSING},
    {"- script: on @user_script:1.", "", "\r\n", RL_ERROR_PASSING},
    {"-", "LOADING script: none", "\r\n", RL_ERROR_PASSING},
    {"-", "NOPERMS x", "\r\n", RL_ERROR_PASSING},
    {"+NOPERM", "", "\r\n", RL_ERROR_NONE},
    {":7", "", "\r\n", RL_ERROR_NONE},
};

TEST_ROWS(replies, error_of_any_server_is_recognised, ROWS(errors))
{
    char bytes[256], text[256];
    snprintf(bytes, sizeof bytes, "%s%s%s", errors[_i].before, errors[_i].text, errors[_i].behind);
    const redisReply *given = reply_of(bytes);
    bool permanent = errors[_i].error >= RL_ERROR_NOT_PERMITTED;
    ck_assert_int_eq(rl_reply_error(given), errors[_i].error);
    ck_assert_int_eq(rl_reply_vote(RL_COMMAND_SET, given).permanent, permanent);
    rl_reply_text(given, text, sizeof text);
    ck_assert_str_eq(text, errors[_i].text);
}

TEST(replies, text_is_truncated_and_printable)
{
    static const char bytes[] = "-ERR a\0b\tc\x1b[31m\x7f\x9b\xc2\x9b\xc3\xa4\r\n";
    char text[32], small[8];
    rl_reply_text(reply_of_bytes(bytes, sizeof bytes - 1), text, sizeof text);
    ck_assert_str_eq(text, "ERR a?b?c?[31m????\xc3\xa4");
    rl_reply_text(reply_of("-ERR too long for this\r\n"), small, sizeof small);
    ck_assert_str_eq(small, "ERR too");
    rl_reply_text(reply, small, 1);
    ck_assert_str_eq(small, "");
}

/* Of a status reply it is no error. */
TEST(replies, error_is_recognised_by_its_first_words)
{
    ck_assert(rl_reply_is_error(reply_of("-NOAUTH\r\n"), "NOAUTH"));
    ck_assert(!rl_reply_is_error(reply_of("-NOAUTHX y\r\n"), "NOAUTH"));
    ck_assert(!rl_reply_is_error(reply_of("+NOAUTH\r\n"), "NOAUTH"));
    ck_assert(rl_reply_is_error(reply_of("-ERR unknown command 'X'\r\n"), "ERR unknown command"));
}

static const struct {
    enum rl_command_kind command;
    const char *bytes, *holder; /* NULL: the reply names none */
} holders[] = {
    {RL_COMMAND_SET_GET, "$1\r\na\r\n", "a"},
    {RL_COMMAND_SET_GET, "$-1\r\n", NULL},
    {RL_COMMAND_SET_GET, "+OK\r\n", NULL},
    {RL_COMMAND_GRANT, "$1\r\na\r\n", "a"},
    {RL_COMMAND_TAKE, "*6\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$1\r\na\r\n", "a"},
    {RL_COMMAND_ENQUEUE, "*6\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$1\r\na\r\n", "a"},
    {RL_COMMAND_ENQUEUE, "*6\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1\r\n", NULL},
    {RL_COMMAND_ENQUEUE, "*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n", NULL},
    {RL_COMMAND_TAKE, "$1\r\na\r\n", NULL},
    {RL_COMMAND_SET, "$1\r\na\r\n", NULL},
    {RL_COMMAND_EXTEND, "$1\r\na\r\n", NULL},
    {RL_COMMAND_QUERY, "$1\r\na\r\n", NULL},
};

TEST_ROWS(replies, holder_is_named_by_these_replies_alone, ROWS(holders))
{
    const redisReply *holder = rl_reply_holder(holders[_i].command, reply_of(holders[_i].bytes));
    ck_assert_pstr_eq(holder ? holder->str : NULL, holders[_i].holder);
}

TEST_PROGRAM("replies")
