/* The delays of the proxy. Tests that hold or break connections would fail if the proxy did not. */
#include "support/delay_proxy.h"

#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"
#include "support/test.h"

enum { MS = 1000000 };

static struct fake_server *server;
static struct delay_proxy *proxy;
static struct raw_client *client;

static void setup(void)
{
    fixtures_begin();
    server = fake_server_start(FAKE_IPV4);
    const uint16_t port = fake_server_port(server);
    proxy = delay_proxy_start(&port, 1);
    client = raw_client_connect(delay_proxy_port(proxy, 0));
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

static void await_faster_than(uint64_t ns)
{
    uint64_t end = test_deadline_ns(20000);
    while (round_trip_ns() >= ns)
        ck_assert_msg(test_now_ns() < end, "no round trip takes less than %llu ns", (unsigned long long)ns);
}

TEST_CASE(proxy, setup, fixtures_end);

/* No round trip is faster than the delay. On a loaded machine only few are close to it. */
TEST(proxy, delays_are_kept_and_can_change)
{
    delay_proxy_set_delay_us(proxy, 0, PROXY_BOTH, 500);
    ck_assert_uint_ge(fastest_of(50), 1 * MS);
    await_faster_than(5 * MS);
    delay_proxy_set_delay_us(proxy, 0, PROXY_TO_CLIENT, 10000);
    ck_assert_uint_ge(fastest_of(3), 10 * MS);
    delay_proxy_set_delay_us(proxy, 0, PROXY_BOTH, 0);
    await_faster_than(5 * MS);
}

TEST_PROGRAM("delay proxy")
