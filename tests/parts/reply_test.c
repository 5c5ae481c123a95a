/* The vote for each reply of a node. hiredis parses the replies from the bytes that a server sends. */
#include "src/node/reply.h"
#include "support/suite.h"

#include <string.h>

#include "support/fake_server.h"

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

struct expectation {
    enum rl_command_kind command;
    const char *bytes;
    struct rl_vote vote; /* vote, permanent, left_nothing, noscript */
};

#define REFUSED_FOR_NOW                                                                                                \
    {                                                                                                                  \
        .vote = QUORUM_REFUSED                                                                                         \
    }
#define REFUSED_FOR_GOOD                                                                                               \
    {                                                                                                                  \
        .vote = QUORUM_REFUSED, .permanent = true                                                                      \
    }
#define GRANTED                                                                                                        \
    {                                                                                                                  \
        .vote = QUORUM_GRANTED                                                                                         \
    }
#define ABSENT                                                                                                         \
    {                                                                                                                  \
        .vote = QUORUM_ABSENT, .left_nothing = true                                                                    \
    }

static const struct expectation expectations[] = {
    {RL_COMMAND_SET, "+OK\r\n", GRANTED},
    {RL_COMMAND_SET, "$-1\r\n", {.vote = QUORUM_HELD, .left_nothing = true}},
    {RL_COMMAND_SET, "*-1\r\n", {.vote = QUORUM_HELD, .left_nothing = true}},
    {RL_COMMAND_SET, "+QUEUED\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "+OKAY\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "+O\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "$2\r\nOK\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, ":1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "*0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "-\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_LOADING, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_OOM, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_MISCONF, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_BUSY, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_MASTERDOWN, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "-CLUSTERDOWN The cluster is down\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, "-ERR something new\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_MAXCLIENTS, REFUSED_FOR_NOW},
    {RL_COMMAND_SET, FAKE_READONLY, REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, FAKE_NOAUTH, REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, FAKE_NOPERM, REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, FAKE_WRONGTYPE, REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-MOVED 3999 127.0.0.1:6381\r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-ASK 3999 127.0.0.1:6381\r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-ERR unknown command 'SET', with args beginning with: \r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-READONLY\r\n", REFUSED_FOR_GOOD},
    {RL_COMMAND_SET, "-READONLYX no such word\r\n", REFUSED_FOR_NOW},

    {RL_COMMAND_EXTEND, ":1\r\n", GRANTED},
    {RL_COMMAND_EXTEND, ":0\r\n", ABSENT},
    {RL_COMMAND_EXTEND, ":2\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_EXTEND, ":-1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_EXTEND, "+OK\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_EXTEND, "$-1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_EXTEND, "$1\r\n1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_EXTEND, FAKE_WRONGTYPE, ABSENT},
    {RL_COMMAND_EXTEND,
     "-ERR Error running script (call to f_620cd258c2c9c88c9d10db67812ccf663d96bdc6): @user_script:3: WRONGTYPE Operation "
     "against a key holding the wrong kind of value\r\n",
     ABSENT},
    {RL_COMMAND_EXTEND, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},
    {RL_COMMAND_EXTEND, FAKE_NOPERM, REFUSED_FOR_GOOD},
    {RL_COMMAND_EXTEND, FAKE_LOADING, REFUSED_FOR_NOW},

    {RL_COMMAND_GRANT, ":0\r\n", GRANTED},
    {RL_COMMAND_GRANT, ":1700000000000000\r\n", {.vote = QUORUM_GRANTED, .record = 1700000000000000}},
    {RL_COMMAND_GRANT, ":-1\r\n", {.vote = QUORUM_HELD, .left_nothing = true}},
    {RL_COMMAND_GRANT, ":-6\r\n", {.vote = QUORUM_HELD, .left_nothing = true, .record = 5}},
    {RL_COMMAND_GRANT, ":-4294967296\r\n", {.vote = QUORUM_HELD, .left_nothing = true, .record = UINT32_MAX}},
    {RL_COMMAND_GRANT, ":-4294967297\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_GRANT, "+OK\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_GRANT, "-CLOCK too far ahead\r\n", {.vote = QUORUM_REFUSED, .clock = true}},
    {RL_COMMAND_GRANT, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},
    {RL_COMMAND_GRANT, FAKE_NOPERM, REFUSED_FOR_GOOD},

    {RL_COMMAND_KEEP, "*1\r\n:0\r\n", GRANTED},
    {RL_COMMAND_KEEP, "*1\r\n:77\r\n", {.vote = QUORUM_GRANTED, .record = 77}},
    {RL_COMMAND_KEEP, "*1\r\n:-1\r\n", {.vote = QUORUM_ABSENT}},
    {RL_COMMAND_KEEP, "*1\r\n:-2\r\n", {.vote = QUORUM_REFUSED, .clock = true}},
    {RL_COMMAND_KEEP, "*1\r\n$1\r\n0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_KEEP, "*2\r\n:0\r\n:0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_KEEP, ":0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_KEEP, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},

    {RL_COMMAND_TAKE, "*5\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:0\r\n", GRANTED},
    {RL_COMMAND_TAKE, "*5\r\n:1\r\n:60000\r\n:0\r\n:0\r\n:5\r\n", {.vote = QUORUM_GRANTED, .record = 5}},
    {RL_COMMAND_TAKE, "*5\r\n:0\r\n:60000\r\n:0\r\n:9\r\n:0\r\n", {.vote = QUORUM_HELD, .left_nothing = true}},
    {RL_COMMAND_TAKE, "*4\r\n:1\r\n:60000\r\n:0\r\n:0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_TAKE, "*5\r\n:1\r\n:60000\r\n:0\r\n:0\r\n$1\r\n0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_ENQUEUE, "*5\r\n:0\r\n:60000\r\n:0\r\n:9\r\n:0\r\n", GRANTED},

    {RL_COMMAND_RELEASE, ":1\r\n", GRANTED},
    {RL_COMMAND_RELEASE, ":2\r\n", GRANTED},
    {RL_COMMAND_RELEASE, ":0\r\n", ABSENT},
    {RL_COMMAND_RELEASE, FAKE_WRONGTYPE, ABSENT},
    {RL_COMMAND_RELEASE, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},
    {RL_COMMAND_RELEASE, FAKE_READONLY, REFUSED_FOR_GOOD},
    {RL_COMMAND_RELEASE, FAKE_BUSY, REFUSED_FOR_NOW},

    {RL_COMMAND_DEQUEUE, ":0\r\n", GRANTED},
    {RL_COMMAND_DEQUEUE, FAKE_NOPERM, GRANTED},
    {RL_COMMAND_DEQUEUE, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},

    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*0\r\n", GRANTED},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:100\r\n:7\r\n*0\r\n", GRANTED},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:-1\r\n:-1\r\n*0\r\n", GRANTED},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n$1\r\n5\r\n:0\r\n*0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:5\r\n$1\r\n0\r\n*0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*2\r\n$3\r\nabc\r\n:5\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*4\r\n:0\r\n$1\r\na\r\n:31\r\n$1\r\nb\r\n", GRANTED},
    {RL_COMMAND_QUERY, "*4\r\n$-1\r\n:-2\r\n:0\r\n*2\r\n:32\r\n$1\r\na\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*3\r\n$3\r\nabc\r\n:5\r\n:0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*4\r\n:1\r\n:100\r\n:0\r\n*0\r\n", GRANTED}, /* readers */
    {RL_COMMAND_QUERY, "*4\r\n*0\r\n:100\r\n:0\r\n*0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*1\r\n$3\r\nabc\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*4\r\n$3\r\nabc\r\n:1\r\n:1\r\n:1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*0\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "*-1\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, "+OK\r\n", REFUSED_FOR_NOW},
    {RL_COMMAND_QUERY, FAKE_NOSCRIPT, {.vote = QUORUM_REFUSED, .noscript = true}},
    {RL_COMMAND_QUERY, FAKE_NOPERM, REFUSED_FOR_GOOD},
};
enum { EXPECTATIONS = sizeof expectations / sizeof *expectations };

START_TEST(a_reply_is_one_vote)
{
    const struct expectation *expected = &expectations[_i];
    struct rl_vote vote = rl_reply_vote(expected->command, reply_of(expected->bytes));
    ck_assert_msg(vote.vote == expected->vote.vote && vote.permanent == expected->vote.permanent &&
                      vote.left_nothing == expected->vote.left_nothing && vote.noscript == expected->vote.noscript &&
                      vote.clock == expected->vote.clock && vote.record == expected->vote.record,
                  "command %d, '%s': vote %d permanent %d left_nothing %d noscript %d", (int)expected->command,
                  expected->bytes, (int)vote.vote, vote.permanent, vote.left_nothing, vote.noscript);
}
END_TEST

/* The wording of the servers: Redis 5.0.14, 6.0.20, 6.2.16, 7.0.15 and 8.0.2, Valkey 8.1.1 and 9.1.2. */
#define SHA     "620cd258c2c9c88c9d10db67812ccf663d96bdc6"
#define BEFORE  "-ERR Error running script (call to f_" SHA "): @user_script:36: "
#define BEHIND  " script: " SHA ", on @user_script:36.\r\n"
#define BEHIND9 " script: on @user_script:36.\r\n"

static const struct {
    const char *bytes;
    enum rl_reply_error error;
    const char *text;
} errors[] = {
    /* A missing right to a command, a key or a channel: refused to the client, to a script, or caught by the script. */
    {"-NOPERM this user has no permissions to run the 'info' command or its subcommand\r\n", RL_ERROR_NOT_PERMITTED,
     "NOPERM this user has no permissions to run the 'info' command or its subcommand"},
    {"-NOPERM User u has no permissions to run the 'info' command\r\n", RL_ERROR_NOT_PERMITTED,
     "NOPERM User u has no permissions to run the 'info' command"},
    {"-NOPERM No permissions to access a key\r\n", RL_ERROR_NOT_PERMITTED, "NOPERM No permissions to access a key"},
    {BEFORE "@user_script: 36: The user executing the script can't run this command or subcommand\r\n",
     RL_ERROR_NOT_PERMITTED, "The user executing the script can't run this command or subcommand"},
    {BEFORE "@user_script: 36: The user executing the script can't access at least one of the keys mentioned in the "
            "command arguments\r\n",
     RL_ERROR_NOT_PERMITTED,
     "The user executing the script can't access at least one of the keys mentioned in the command arguments"},
    {BEFORE "@user_script: 36: The user executing the script can't publish to the channel mentioned in the command\r\n",
     RL_ERROR_NOT_PERMITTED, "The user executing the script can't publish to the channel mentioned in the command"},
    {"-@user_script: 1: The user executing the script can't run this command or subcommand\r\n", RL_ERROR_NOT_PERMITTED,
     "The user executing the script can't run this command or subcommand"},
    {"-ERR The user executing the script can't run this command or subcommand" BEHIND, RL_ERROR_NOT_PERMITTED,
     "ERR The user executing the script can't run this command or subcommand"},
    {"-ERR The user executing the script can't run this command or subcommand\r\n", RL_ERROR_NOT_PERMITTED,
     "ERR The user executing the script can't run this command or subcommand"},
    {"-ERR ACL failure in script: User u has no permissions to run the 'get' command" BEHIND, RL_ERROR_NOT_PERMITTED,
     "ERR ACL failure in script: User u has no permissions to run the 'get' command"},
    {"-ERR ACL failure in script: No permissions to access a channel" BEHIND9, RL_ERROR_NOT_PERMITTED,
     "ERR ACL failure in script: No permissions to access a channel"},

    {"-NOAUTH Authentication required.\r\n", RL_ERROR_CREDENTIALS, "NOAUTH Authentication required."},
    {"-WRONGPASS invalid username-password pair\r\n", RL_ERROR_CREDENTIALS, "WRONGPASS invalid username-password pair"},
    {"-ERR AUTH <password> called without any password configured for the default user. Are you sure your "
     "configuration is correct?\r\n",
     RL_ERROR_CREDENTIALS,
     "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
     "configuration is correct?"},
    {"-ERR invalid password\r\n", RL_ERROR_CREDENTIALS, "ERR invalid password"},
    {"-ERR Client sent AUTH, but no password is set\r\n", RL_ERROR_CREDENTIALS,
     "ERR Client sent AUTH, but no password is set"},
    {"-ERR wrong number of arguments for 'auth' command\r\n", RL_ERROR_CREDENTIALS,
     "ERR wrong number of arguments for 'auth' command"},

    {"-ERR unknown command `TIME`, with args beginning with: \r\n", RL_ERROR_UNKNOWN_COMMAND,
     "ERR unknown command `TIME`, with args beginning with:"},
    {BEFORE "@user_script: 36: Unknown Redis command called from Lua script \r\n", RL_ERROR_UNKNOWN_COMMAND,
     "Unknown Redis command called from Lua script"},
    {"-ERR Unknown Redis command called from script" BEHIND, RL_ERROR_UNKNOWN_COMMAND,
     "ERR Unknown Redis command called from script"},
    {"-ERR Unknown command called from script" BEHIND9, RL_ERROR_UNKNOWN_COMMAND,
     "ERR Unknown command called from script"},

    {BEFORE "WRONGTYPE Operation against a key holding the wrong kind of value \r\n", RL_ERROR_WRONGTYPE,
     "WRONGTYPE Operation against a key holding the wrong kind of value"},
    {"-WRONGTYPE Operation against a key holding the wrong kind of value" BEHIND, RL_ERROR_WRONGTYPE,
     "WRONGTYPE Operation against a key holding the wrong kind of value"},
    {BEFORE "@user_script: 36: -READONLY You can't write against a read only replica. \r\n", RL_ERROR_ELSEWHERE,
     "READONLY You can't write against a read only replica."},
    {"-READONLY You can't write against a read only replica." BEHIND, RL_ERROR_ELSEWHERE,
     "READONLY You can't write against a read only replica."},

    {BEFORE "@user_script: 36: -OOM command not allowed when used memory > 'maxmemory'. \r\n", RL_ERROR_PASSING,
     "OOM command not allowed when used memory > 'maxmemory'."},
    {"-OOM command not allowed when used memory > 'maxmemory'." BEHIND9, RL_ERROR_PASSING,
     "OOM command not allowed when used memory > 'maxmemory'."},
    {BEFORE "user_script:36: attempt to concatenate a table value\r\n", RL_ERROR_PASSING,
     "user_script:36: attempt to concatenate a table value"},
    {"-NOSCRIPT No matching script. Please use EVAL.\r\n", RL_ERROR_NOSCRIPT,
     "NOSCRIPT No matching script. Please use EVAL."},
    {"-NOSCRIPT No matching script.\r\n", RL_ERROR_NOSCRIPT, "NOSCRIPT No matching script."},
    {"-CLOCK too far ahead\r\n", RL_ERROR_CLOCK, "CLOCK too far ahead"},

    /* Truncated, or similar to such an error. */
    {"-ERR Error running script (call to f_\r\n", RL_ERROR_PASSING, ""},
    {"-ERR Error running script (call to f_" SHA "): \r\n", RL_ERROR_PASSING, ""},
    {"-ERR Error running script (call to f_" SHA "): @user_script:\r\n", RL_ERROR_PASSING, "@user_script:"},
    {"-@user_script: 1: -\r\n", RL_ERROR_PASSING, ""},
    {"- script: on @user_script:1.\r\n", RL_ERROR_PASSING, ""},
    {"-LOADING script: none\r\n", RL_ERROR_PASSING, "LOADING script: none"},
    {"-NOPERMS x\r\n", RL_ERROR_PASSING, "NOPERMS x"},
    {"+NOPERM\r\n", RL_ERROR_NONE, ""},
};
enum { ERRORS = sizeof errors / sizeof *errors };

START_TEST(error_of_any_server_is_recognised)
{
    char text[256];
    const redisReply *given = reply_of(errors[_i].bytes);
    bool permanent = errors[_i].error >= RL_ERROR_NOT_PERMITTED;
    ck_assert_int_eq(rl_reply_error(given), errors[_i].error);
    ck_assert_int_eq(rl_reply_vote(RL_COMMAND_SET, given).permanent, permanent);
    rl_reply_text(given, text, sizeof text);
    ck_assert_str_eq(text, errors[_i].text);
}
END_TEST

START_TEST(only_errors_have_a_text)
{
    char text[32];
    rl_reply_text(reply_of("+OK\r\n"), text, sizeof text);
    ck_assert_str_eq(text, "");
    rl_reply_text(reply_of(":7\r\n"), text, sizeof text);
    ck_assert_str_eq(text, "");
    rl_reply_text(reply_of("-ERR no\r\n"), text, sizeof text);
    ck_assert_str_eq(text, "ERR no");
}
END_TEST

START_TEST(a_text_is_cut_and_printable)
{
    static const char bytes[] = "-ERR a\0b\tc\x1b[31m\x7f\r\n";
    char text[32], small[8];
    rl_reply_text(reply_of_bytes(bytes, sizeof bytes - 1), text, sizeof text);
    ck_assert_str_eq(text, "ERR a?b?c?[31m?");
    rl_reply_text(reply_of("-ERR too long for this\r\n"), small, sizeof small);
    ck_assert_str_eq(small, "ERR too");
    rl_reply_text(reply, small, 1);
    ck_assert_str_eq(small, "");
}
END_TEST

START_TEST(an_error_is_known_by_its_first_word)
{
    ck_assert(rl_reply_is_error(reply_of("-NOAUTH Authentication required.\r\n"), "NOAUTH"));
    ck_assert(rl_reply_is_error(reply_of("-NOAUTH\r\n"), "NOAUTH"));
    ck_assert(!rl_reply_is_error(reply_of("-NOAUTHX y\r\n"), "NOAUTH"));
    ck_assert(!rl_reply_is_error(reply_of("-NOAU\r\n"), "NOAUTH"));
    ck_assert(!rl_reply_is_error(reply_of("+NOAUTH\r\n"), "NOAUTH"));
    ck_assert(rl_reply_is_error(reply_of("-ERR unknown command 'X'\r\n"), "ERR unknown command"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replies");
    TCase *tcase = tcase_create("classification");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, NULL, forget_reply);
    tcase_add_loop_test(tcase, a_reply_is_one_vote, 0, EXPECTATIONS);
    tcase_add_loop_test(tcase, error_of_any_server_is_recognised, 0, ERRORS);
    tcase_add_test(tcase, only_errors_have_a_text);
    tcase_add_test(tcase, a_text_is_cut_and_printable);
    tcase_add_test(tcase, an_error_is_known_by_its_first_word);
    return run_suite(suite);
}
