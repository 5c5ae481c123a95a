/* A library without TLS refuses a node list that requires TLS. */
#include "support/test.h"

#include <redlock/redlock.h>

TEST_CASE(tls_none, NULL, NULL);

TEST(tls_none, tls_is_refused_in_words)
{
    redlock_client *client = NULL;
    redlock_result result;
    ck_assert_int_eq(redlock_connect("127.0.0.1:1,rediss://127.0.0.1:2", NULL, &client, &result), REDLOCK_INVALID);
    ck_assert_ptr_null(client);
    ck_assert_msg(strstr(result.text, "built without TLS") != NULL, "%s", result.text);
    ck_assert_int_eq(redlock_connect("rediss://127.0.0.1:2", NULL, &client, NULL), REDLOCK_INVALID);
}

TEST_PROGRAM("tls_none")
