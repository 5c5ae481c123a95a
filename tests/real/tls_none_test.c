/* A library without TLS refuses a node list that requires TLS, and never connects to such a node without it. */
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/suite.h"

#include <check.h>
#include <redlock/redlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(tls_is_refused_in_words)
{
    struct fake_server *server = fake_server_start(FAKE_IPV4);
    redlock_client *client = NULL;
    redlock_result result;
    char nodes[64];
    snprintf(nodes, sizeof(nodes), "127.0.0.1:1,rediss://%s", fake_server_address(server));
    ck_assert_int_eq(redlock_connect(nodes, NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, "built without TLS") != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect(nodes, NULL, &client, NULL), REDLOCK_INVALID);
    ck_assert_uint_eq(fake_server_accepted(server), 0);
}
END_TEST

static Suite *tls_none_suite(void)
{
    Suite *suite = suite_create("tls_none");
    TCase *tcase = tcase_create("tls_none");
    tcase_add_checked_fixture(tcase, fixtures_begin, fixtures_end);
    tcase_add_test(tcase, tls_is_refused_in_words);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(tls_none_suite());
}
