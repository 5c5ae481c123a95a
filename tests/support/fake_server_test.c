/* Tests of the fake server, on which other tests rely. */
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"
#include "support/sockets.h"
#include "support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOON_MS = 20000, MOMENT_MS = 20 };

static struct fake_server *server;
static struct raw_client *client;

static struct raw_client *connect_client(void)
{
    return raw_client_connect(false, fake_server_port(server));
}

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start(FAKE_IPV4);
    client = connect_client();
    ck_assert(fake_server_wait_for_accepted(server, 1, SOON_MS));
}

#define ck_assert_reply(expected) ck_assert_str_eq(raw_client_reply(client), (expected))

/* --- A healthy node --- */

START_TEST(keys_left_can_leave_markers_out)
{
    const char *const markers[] = {"marker:*", NULL};

    fake_server_set_key(server, "marker:1", "x", -1);
    fake_server_set_key(server, "lock", "x", -1);
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 2);
    ck_assert_uint_eq(fake_server_keys_left(server, markers), 1);
    fake_server_delete_key(server, "lock");
    ck_assert_uint_eq(fake_server_keys_left(server, markers), 0);
}
END_TEST

START_TEST(keys_and_values_are_binary_safe)
{
    static const char set[] = "*3\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n$3\r\n\0\xff\0\r\n";
    static const char get[] = "*2\r\n$3\r\nGET\r\n$4\r\na\0\r\n\r\n";
    static const char value[] = "$3\r\n\0\xff\0\r\n";
    char answer[64];
    size_t length = 0;

    raw_client_send(client, set, sizeof(set) - 1);
    ck_assert_reply("OK");
    raw_client_send(client, get, sizeof(get) - 1);
    while (length < sizeof(value) - 1) {
        long count = socket_receive(raw_client_descriptor(client), answer + length, sizeof(answer) - length,
                                    test_deadline_ns(SOON_MS));
        ck_assert_int_gt(count, 0);
        length += (size_t)count;
    }
    ck_assert_uint_eq(length, sizeof(value) - 1);
    ck_assert_mem_eq(answer, value, length);
    ck_assert_uint_eq(fake_server_record(server, "GET", 0)->command->argv[1].length, 4);
}
END_TEST

START_TEST(messages_reach_the_subscribers)
{
    struct raw_client *subscriber = connect_client();

    raw_client_say(subscriber, "SUBSCRIBE", "news", "weather", NULL);
    ck_assert_str_eq(raw_client_reply(subscriber), "subscribe\nnews\n1");
    ck_assert_str_eq(raw_client_reply(subscriber), "subscribe\nweather\n2");
    ck_assert(fake_server_wait_for_subscribers(server, "news", 1, SOON_MS));
    raw_client_say(client, "PUBLISH", "news", "hello", NULL);
    ck_assert_reply("1");
    ck_assert_str_eq(raw_client_reply(subscriber), "message\nnews\nhello");
    ck_assert_uint_eq(fake_server_publish(server, "weather", "rain"), 1);
    ck_assert_str_eq(raw_client_reply(subscriber), "message\nweather\nrain");
    raw_client_say(subscriber, "GET", "key", NULL);
    ck_assert_int_eq(strncmp(raw_client_reply(subscriber), "-ERR Can't execute", 18), 0);
    raw_client_say(subscriber, "UNSUBSCRIBE", "news", NULL);
    ck_assert_str_eq(raw_client_reply(subscriber), "unsubscribe\nnews\n1");
    ck_assert_uint_eq(fake_server_publish(server, "news", "more"), 0);
}
END_TEST

/* --- Rules --- */

static const char *const errors[] = {FAKE_LOADING,    FAKE_READONLY, FAKE_NOAUTH,    FAKE_OOM,
                                     FAKE_NOSCRIPT,   FAKE_MISCONF,  FAKE_WRONGTYPE, FAKE_NOPERM,
                                     FAKE_MASTERDOWN, FAKE_BUSY,     FAKE_MAXCLIENTS};

START_TEST(an_error_replaces_the_command)
{
    char expected[256];

    snprintf(expected, sizeof(expected), "%s", errors[_i]);
    expected[strcspn(expected, "\r")] = '\0';
    fake_server_refuse(server, "SET", 1, errors[_i]);
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
    raw_client_say(client, "set", "key", "token", NULL);
    ck_assert_reply(expected);
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 0);
    raw_client_say(client, "SET", "key", "token", NULL);
    ck_assert_reply("OK");
}
END_TEST

START_TEST(rules_count_commands_by_name_argument_and_connection)
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
    raw_client_say(client, "CLIENT", "ID", NULL);
    ck_assert_reply("named");
    raw_client_say(other, "CLIENT", "ID", NULL);
    ck_assert_str_eq(raw_client_reply(other), "2");
    raw_client_say(other, "EXISTS", "other", "special", NULL);
    ck_assert_str_eq(raw_client_reply(other), "argument");
    ck_assert_uint_eq(fake_server_rule_used(server, third), 2);
    ck_assert_uint_eq(fake_server_rule_used(server, named), 1);
    ck_assert_uint_eq(fake_server_rule_used(server, argument), 1);
    fake_server_remove_rule(server, named);
    raw_client_say(client, "CLIENT", "ID", NULL);
    ck_assert_reply("1");
    fake_server_clear_rules(server);
    raw_client_say(client, "EXISTS", "special", NULL);
    ck_assert_reply("0");
}
END_TEST

static bool half_a_reply_has_come(void *unused)
{
    (void)unused;
    return strcmp(raw_client_reply_within(client, MOMENT_MS), "<silence>") != 0 || raw_client_unread(client) == 2;
}

START_TEST(half_a_reply_then_nothing_or_the_end)
{
    static const enum fake_ending endings[] = {FAKE_STALL, FAKE_SHUTDOWN, FAKE_CLOSE};
    static const char *const seen[] = {"<silence>", "<end>", "<end>"};

    fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .half = true, .ending = endings[_i]});
    raw_client_say(client, "SET", "key", "token", NULL);
    if (_i == 0)
        ck_assert(wait_until(half_a_reply_has_come, NULL, SOON_MS));
    ck_assert_str_eq(raw_client_reply_within(client, _i == 0 ? MOMENT_MS : SOON_MS), seen[_i]);
    ck_assert_uint_eq(raw_client_unread(client), 2);
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 1);
}
END_TEST

START_TEST(closes_before_or_after_executing)
{
    static const enum fake_ending endings[] = {FAKE_CLOSE, FAKE_CLOSE, FAKE_RESET, FAKE_RESET};
    bool skip = _i % 2 != 0;

    fake_server_add_rule(server,
                         &(struct fake_rule){.command = "SET", .skip = skip, .silent = true, .ending = endings[_i]});
    raw_client_say(client, "SET", "key", "token", NULL);
    ck_assert_reply(endings[_i] == FAKE_RESET ? "<reset>" : "<end>");
    ck_assert(fake_server_wait_for_open(server, 0, SOON_MS));
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), skip ? 0 : 1);
}
END_TEST

START_TEST(a_swallowed_command_is_executed_without_reply)
{
    fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .silent = true});
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 1);
}
END_TEST

START_TEST(unsolicited_bytes_follow_a_reply_or_come_alone)
{
    fake_server_add_rule(server, &(struct fake_rule){.command = "PING", .count = 1, .extra = "+EXTRA\r\n"});
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
    ck_assert_reply("EXTRA");
    fake_server_push(server, ":17\r\n", 5);
    ck_assert_reply("17");
    fake_server_push(server, FAKE_GARBAGE, strlen(FAKE_GARBAGE));
    ck_assert_reply("<garbage>");
}
END_TEST

START_TEST(a_held_reply_waits_for_its_release)
{
    fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .hold = true});
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(client, "PING", NULL);
    ck_assert(fake_server_wait_for(server, "PING", 1, SOON_MS));
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 1);
    ck_assert_str_eq(raw_client_reply_within(client, MOMENT_MS), "<silence>");
    fake_server_release(server);
    ck_assert_reply("OK");
    ck_assert_reply("PONG");
}
END_TEST

START_TEST(a_delayed_command_and_those_behind_it_are_executed_later)
{
    enum { DELAY_MS = 50 };
    uint64_t start = test_now_ns();

    fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .delay_ms = DELAY_MS});
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(client, "PING", NULL);
    ck_assert(fake_server_wait_for(server, "SET", 1, SOON_MS));
    ck_assert_reply("OK");
    ck_assert_uint_ge(test_now_ns() - start, DELAY_MS * 1000000u);
    ck_assert_reply("PONG");
    ck_assert_uint_ge(fake_server_record(server, "PING", 0)->received_ns - start, DELAY_MS * 1000000u);
}
END_TEST

START_TEST(a_delayed_reply_is_of_a_command_executed_at_once)
{
    enum { DELAY_MS = 50 };
    uint64_t start = test_now_ns();

    fake_server_add_rule(server, &(struct fake_rule){.command = "SET", .count = 1, .reply_delay_ms = DELAY_MS});
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(client, "PING", NULL);
    ck_assert(fake_server_wait_for(server, "PING", 1, SOON_MS));
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 1);
    ck_assert_reply("OK");
    ck_assert_uint_ge(test_now_ns() - start, DELAY_MS * 1000000u);
    ck_assert_reply("PONG");
}
END_TEST

START_TEST(too_many_clients_are_told_so)
{
    fake_server_refuse_connections(server, 1);
    client = connect_client();
    raw_client_say(client, "SET", "key", "token", NULL);
    ck_assert_reply("-ERR max number of clients reached");
    ck_assert_reply("<end>");
    ck_assert_uint_eq(fake_server_count(server, "SET"), 0);
    client = connect_client();
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
}
END_TEST

/* --- Immediate faults, and records --- */

START_TEST(drop_breaks_every_connection)
{
    static const enum fake_ending endings[] = {FAKE_CLOSE, FAKE_RESET, FAKE_SHUTDOWN};
    struct raw_client *other = connect_client();

    fake_server_drop(server, endings[_i]);
    ck_assert_reply(endings[_i] == FAKE_RESET ? "<reset>" : "<end>");
    ck_assert_str_eq(raw_client_reply(other), endings[_i] == FAKE_RESET ? "<reset>" : "<end>");
    client = connect_client();
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
}
END_TEST

START_TEST(a_paused_server_executes_later_what_came_meanwhile)
{
    fake_server_pause(server);
    struct raw_client *other = connect_client();
    raw_client_say(client, "SET", "key", "token", NULL);
    raw_client_say(other, "PING", NULL);
    ck_assert_str_eq(raw_client_reply_within(client, MOMENT_MS), "<silence>");
    ck_assert_uint_eq(fake_server_count(server, NULL), 0);
    fake_server_resume(server);
    ck_assert_reply("OK");
    ck_assert_str_eq(raw_client_reply(other), "PONG");
}
END_TEST

START_TEST(a_server_that_does_not_listen_refuses)
{
    fake_server_stop_listening(server);
    ck_assert_int_eq(socket_connect(false, fake_server_port(server), test_deadline_ns(SOON_MS)), -1);
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
    fake_server_listen(server);
    client = connect_client();
    raw_client_say(client, "PING", NULL);
    ck_assert_reply("PONG");
}
END_TEST

START_TEST(a_restart_forgets_and_has_a_new_run_id)
{
    char before[4096];

    fake_server_set_key(server, "key", "token", -1);
    raw_client_say(client, "INFO", "server", NULL);
    snprintf(before, sizeof(before), "%s", raw_client_reply(client));
    fake_server_restart(server);
    ck_assert_reply("<end>");
    client = connect_client();
    raw_client_say(client, "INFO", "server", NULL);
    ck_assert_str_ne(raw_client_reply(client), before);
    ck_assert_uint_eq(fake_server_keys_left(server, NULL), 0);
}
END_TEST

START_TEST(commands_are_recorded_in_order_with_connection_and_time)
{
    uint64_t before = test_now_ns();
    struct raw_client *other = connect_client();

    raw_client_say(client, "SET", "a", "1", NULL);
    ck_assert_reply("OK");
    raw_client_say(other, "SET", "b", "2", NULL);
    ck_assert_str_eq(raw_client_reply(other), "OK");
    const struct fake_record *first = fake_server_record(server, "SET", 0);
    const struct fake_record *second = fake_server_record(server, "SET", 1);
    ck_assert_str_eq(first->command->argv[1].data, "a");
    ck_assert_str_eq(second->command->argv[1].data, "b");
    ck_assert_uint_eq(first->connection, 1);
    ck_assert_uint_eq(second->connection, 2);
    ck_assert_uint_ge(first->received_ns, before);
    ck_assert_uint_ge(second->received_ns, first->received_ns);
    ck_assert_ptr_null(fake_server_record(server, "SET", 2));
    fake_server_forget_records(server);
    ck_assert_uint_eq(fake_server_count(server, NULL), 0);
}
END_TEST

START_TEST(waiting_ends_at_its_deadline)
{
    uint64_t start = test_now_ns();

    ck_assert(!fake_server_wait_for(server, "SET", 1, MOMENT_MS));
    ck_assert_uint_ge(test_now_ns() - start, MOMENT_MS * 1000000u);
    ck_assert(!fake_server_wait_for_open(server, 7, 1));
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, setup, fixtures_end);
    tcase_set_timeout(tcase, 30);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void add_healthy(Suite *suite)
{
    TCase *tcase = add_case(suite, "healthy node");

    tcase_add_test(tcase, keys_left_can_leave_markers_out);
    tcase_add_test(tcase, keys_and_values_are_binary_safe);
    tcase_add_test(tcase, messages_reach_the_subscribers);
}

static void add_rules(Suite *suite)
{
    TCase *tcase = add_case(suite, "rules");

    tcase_add_loop_test(tcase, an_error_replaces_the_command, 0, (int)(sizeof(errors) / sizeof(errors[0])));
    tcase_add_test(tcase, rules_count_commands_by_name_argument_and_connection);
    tcase_add_loop_test(tcase, half_a_reply_then_nothing_or_the_end, 0, 3);
    tcase_add_loop_test(tcase, closes_before_or_after_executing, 0, 4);
    tcase_add_test(tcase, a_swallowed_command_is_executed_without_reply);
    tcase_add_test(tcase, unsolicited_bytes_follow_a_reply_or_come_alone);
    tcase_add_test(tcase, a_held_reply_waits_for_its_release);
    tcase_add_test(tcase, a_delayed_command_and_those_behind_it_are_executed_later);
    tcase_add_test(tcase, a_delayed_reply_is_of_a_command_executed_at_once);
    tcase_add_test(tcase, too_many_clients_are_told_so);
}

static void add_control(Suite *suite)
{
    TCase *tcase = add_case(suite, "control");

    tcase_add_loop_test(tcase, drop_breaks_every_connection, 0, 3);
    tcase_add_test(tcase, a_paused_server_executes_later_what_came_meanwhile);
    tcase_add_test(tcase, a_server_that_does_not_listen_refuses);
    tcase_add_test(tcase, a_restart_forgets_and_has_a_new_run_id);
    tcase_add_test(tcase, commands_are_recorded_in_order_with_connection_and_time);
    tcase_add_test(tcase, waiting_ends_at_its_deadline);
}

static Suite *fake_server_suite(void)
{
    Suite *suite = suite_create("fake server");

    add_healthy(suite);
    add_rules(suite);
    add_control(suite);
    return suite;
}

int main(void)
{
    return run_suite(fake_server_suite());
}
