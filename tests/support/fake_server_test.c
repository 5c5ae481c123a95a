/* Tests of the fake server, on which other tests rely: a rule applies to the commands that it selects, and each of its
 * effects happens. */
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"
#include "support/test.h"

#include <string.h>

enum { SOON_MS = 20000, MOMENT_MS = 20, DELAY_MS = 50 };

static struct fake_server *server;
static struct raw_client *client;

static struct raw_client *connect_client(void)
{
    return raw_client_connect(fake_server_port(server));
}

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start(FAKE_IPV4);
    client = connect_client();
    ck_assert(fake_server_wait_for_accepted(server, 1, SOON_MS));
}

#define ck_assert_reply(expected) ck_assert_str_eq(raw_client_reply(client), (expected))

TEST_CASE(server, setup, fixtures_end);

TEST(server, rules_count_commands_by_name_argument_and_connection)
{
    unsigned third = fake_server_add_rule(
        server, &(struct fake_rule){.command = "GET", .first = 3, .count = 2, .reply = "+third\r\n", .skip = true});
    unsigned named = fake_server_add_rule(
        server, &(struct fake_rule){.command = "CLIENT ID", .connection = 1, .reply = "+named\r\n"});
    unsigned argument =
        fake_server_add_rule(server, &(struct fake_rule){.argument = "special", .reply = "+argument\r\n"});
    struct raw_client *other = connect_client();
    for (int i = 1; i <= 5; i++) {
        raw_client_say(client, "GET", "key", NULL);
        ck_assert_reply(i == 3 || i == 4 ? "third" : "(nil)");
    }
    raw_client_say(client, "client", "ID", NULL);
    ck_assert_reply("named");
    raw_client_say(other, "CLIENT", "ID", NULL);
    ck_assert_str_eq(raw_client_reply(other), "2");
    raw_client_say(other, "DEL", "other", "special", NULL);
    ck_assert_str_eq(raw_client_reply(other), "argument");
    ck_assert_uint_eq(fake_server_rule_used(server, third), 2);
    ck_assert_uint_eq(fake_server_rule_used(server, named), 1);
    ck_assert_uint_eq(fake_server_rule_used(server, argument), 1);
    fake_server_clear_rules(server);
    raw_client_say(client, "DEL", "special", NULL);
    ck_assert_reply("0");
}

/* What a rule makes of "SET key token". A PING follows where the connection goes on. */
static const struct effect {
    const char *name;
    struct fake_rule rule;
    const char *replies[2];
    size_t unread; /* bytes of half a reply */
    size_t keys;   /* left by the SET */
} effects[] = {
    {"refused",
     {.skip = true, .reply = FAKE_OOM},
     {"-OOM command not allowed when used memory > 'maxmemory'.", "PONG"},
     .keys = 0},
    {"no reply", {.silent = true}, {"PONG"}, .keys = 1},
    {"more bytes", {.extra = "+EXTRA\r\n"}, {"OK", "EXTRA"}, .keys = 1},
    {"garbage", {.reply = FAKE_GARBAGE}, {"<garbage>"}, .unread = sizeof FAKE_GARBAGE - 1, .keys = 1},
    {"half, then nothing", {.half = true, .ending = FAKE_STALL}, {"<silence>"}, .unread = 2, .keys = 1},
    {"half, then FIN", {.half = true, .ending = FAKE_SHUTDOWN}, {"<end>"}, .unread = 2, .keys = 1},
    {"half, then closed", {.half = true, .ending = FAKE_CLOSE}, {"<end>"}, .unread = 2, .keys = 1},
    {"reset after execution", {.silent = true, .ending = FAKE_RESET}, {"<reset>"}, .keys = 1},
    {"reset before execution", {.skip = true, .silent = true, .ending = FAKE_RESET}, {"<reset>"}, .keys = 0},
};

static bool half_a_reply_has_come(void *unused)
{
    (void)unused;
    return strcmp(raw_client_reply_within(client, MOMENT_MS), "<silence>") != 0 || raw_client_unread(client) == 2;
}

TEST_ROWS(server, a_rule_has_its_effect, ROWS(effects))
{
    const struct effect *effect = &effects[_i];
    struct fake_rule rule = effect->rule;
    bool stalls = rule.ending == FAKE_STALL;
    rule.command = "SET";
    rule.count = 1;
    fake_server_add_rule(server, &rule);
    raw_client_say(client, "SET", "key", "token", NULL);
    if (rule.ending == FAKE_GO_ON)
        raw_client_say(client, "PING", NULL);
    ck_assert(!stalls || wait_until(half_a_reply_has_come, NULL, SOON_MS));
    for (int i = 0; i < 2 && effect->replies[i]; i++) {
        const char *reply = raw_client_reply_within(client, stalls ? MOMENT_MS : SOON_MS);
        ck_assert_msg(strcmp(reply, effect->replies[i]) == 0, "%s: %s", effect->name, reply);
    }
    ck_assert_msg(raw_client_unread(client) >= effect->unread, "%s", effect->name);
    ck_assert_msg(fake_server_keys_left(server, NULL) == effect->keys, "%s", effect->name);
    ck_assert(stalls || rule.ending == FAKE_GO_ON || rule.ending == FAKE_SHUTDOWN ||
              fake_server_wait_for_open(server, 0, SOON_MS));
}

/* The command is delayed with those behind it, or only its reply is. */
TEST_ROWS(server, a_delay_is_of_the_command_or_of_the_reply, 2)
{
    uint64_t start = test_now_ns();
    struct fake_rule rule = {.command = "SET", .count = 1};
    *(_i == 0 ? &rule.delay_ms : &rule.reply_delay_ms) = DELAY_MS;
    fake_server_add_rule(server, &rule);
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(client, "PING", NULL);
    if (_i == 1) {
        ck_assert(fake_server_wait_for(server, "PING", 1, SOON_MS));
        ck_assert_uint_eq(fake_server_keys_left(server, NULL), 1);
    }
    ck_assert_reply("OK");
    ck_assert_uint_ge(test_now_ns() - start, DELAY_MS * 1000000u);
    ck_assert_reply("PONG");
    ck_assert(_i == 1 || fake_server_record(server, "PING", 0)->received_ns - start >= DELAY_MS * 1000000u);
}

TEST_PROGRAM("fake server")
