/* The delaying proxy between raw clients and fake servers. */
#include "support/delay_proxy.h"

#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"
#include "support/test.h"

enum { SOON_MS = 20000, MOMENT_MS = 20, MS = 1000000 };

static struct fake_server *server;
static struct delay_proxy *proxy;
static struct raw_client *client;

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start(FAKE_IPV4);
    const uint16_t port = fake_server_port(server);
    proxy = delay_proxy_start(&port, 1);
    client = raw_client_connect(false, delay_proxy_port(proxy, 0));
}

static uint64_t round_trip_ns(void)
{
    uint64_t start = test_now_ns();
    ck_assert(raw_client_say(client, "PING", NULL));
    ck_assert_str_eq(raw_client_reply(client), "PONG");
    return test_now_ns() - start;
}

static uint64_t fastest_of(int times)
{
    uint64_t fastest = UINT64_MAX;
    while (times-- > 0) {
        uint64_t taken = round_trip_ns();
        fastest = taken < fastest ? taken : fastest;
    }
    return fastest;
}

TEST_CASE(proxy, setup, fixtures_end);

/* No round trip is faster than the delay. The fastest of many is close to it, on a loaded machine too. */
TEST(proxy, delays_are_kept_and_can_change)
{
    delay_proxy_set_delay_us(proxy, 0, PROXY_BOTH, 500);
    uint64_t taken = fastest_of(50);
    ck_assert_uint_ge(taken, 1 * MS);
    ck_assert_uint_lt(taken, 5 * MS);
    delay_proxy_set_delay_us(proxy, 0, PROXY_TO_CLIENT, 10000);
    ck_assert_uint_ge(fastest_of(3), 10 * MS);
    delay_proxy_set_delay_us(proxy, 0, PROXY_BOTH, 0);
    ck_assert_uint_lt(fastest_of(50), 5 * MS);
}

static bool both_commands_read(void *unused)
{
    static const char commands[] = "*2\r\n$3\r\nGET\r\n$5\r\nfirst\r\n*1\r\n$4\r\nPING\r\n";
    (void)unused;
    return delay_proxy_bytes(proxy, 0, PROXY_TO_SERVER) == sizeof commands - 1;
}

TEST(proxy, a_delay_in_one_direction_is_kept_and_a_shorter_one_lets_nothing_overtake)
{
    uint64_t start = test_now_ns();
    delay_proxy_set_delay_us(proxy, 0, PROXY_TO_SERVER, 30000);
    raw_client_say(client, "GET", "first", NULL);
    raw_client_say(client, "PING", NULL);
    ck_assert(wait_until(both_commands_read, NULL, SOON_MS));
    delay_proxy_set_delay_us(proxy, 0, PROXY_TO_SERVER, 0);
    raw_client_say(client, "TIME", NULL);
    ck_assert(fake_server_wait_for(server, NULL, 3, SOON_MS));
    ck_assert(resp_command_is(fake_server_record(server, NULL, 0)->command, "GET"));
    ck_assert_uint_ge(fake_server_record(server, NULL, 0)->received_ns - start, 30 * MS);
    ck_assert(resp_command_is(fake_server_record(server, NULL, 2)->command, "TIME"));
}

/* In each direction. */
TEST_ROWS(proxy, a_held_direction_delivers_when_it_is_let_go, 2)
{
    static const enum proxy_direction held[] = {PROXY_TO_SERVER, PROXY_TO_CLIENT};
    delay_proxy_hold(proxy, 0, held[_i]);
    raw_client_say(client, "SET", "key", "token", NULL);
    ck_assert(_i == 0 || fake_server_wait_for(server, "SET", 1, SOON_MS));
    ck_assert_str_eq(raw_client_reply_within(client, MOMENT_MS), "<silence>");
    ck_assert_uint_eq(fake_server_count(server, "SET"), (size_t)_i);
    delay_proxy_let_go(proxy, 0, held[_i]);
    ck_assert_str_eq(raw_client_reply(client), "OK");
    delay_proxy_drop(proxy, 0, true);
    ck_assert_str_eq(raw_client_reply(client), "<reset>");
}

TEST_PROGRAM("delay proxy")
