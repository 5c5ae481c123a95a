/* A library without TLS refuses a node list that requires TLS, and never connects to such a node without it. */
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/test.h"

#include <redlock/redlock.h>
#include <stdio.h>
#include <string.h>

TEST_CASE(tls_none, fixtures_begin, fixtures_end);

TEST(tls_none, tls_is_refused_in_words)
{
    struct fake_server *server = fake_server_start();
    redlock_client *client = NULL;
    redlock_result result;
    char nodes[64];
    snprintf(nodes, sizeof nodes, "127.0.0.1:1,rediss://%s", fake_server_address(server));
    ck_assert_int_eq(redlock_connect(nodes, NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, "built without TLS") != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect(nodes, NULL, &client, NULL), REDLOCK_INVALID);
    ck_assert_uint_eq(fake_server_accepted(server), 0);
}

TEST_PROGRAM("tls_none")
