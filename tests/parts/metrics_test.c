/* The text of the metrics, of a client whose nodes do not exist. */
#include "redlock/redlock.h"
#include "support/fixture.h"
#include "support/test.h"

static redlock_client *client;
static char text[65536];

static void teardown(void)
{
    redlock_close(&client, NULL, NULL);
}

TEST_CASE(metrics, NULL, teardown);

static const struct {
    const char *node, *label;
} labels[] = {
    {"unix:///no/redis.sock", "/no/redis.sock"},
    {"unix:///no/%22quotes%22", "/no/\\\"quotes\\\""},
    {"unix:///no/back%5Cslash", "/no/back\\\\slash"},
};

TEST_ROWS(metrics, name_of_a_node_is_escaped, ROWS(labels))
{
    redlock_result result;
    int status = redlock_connect(labels[_i].node, NULL, &client, &result);
    ck_assert_msg(status == REDLOCK_OK, "%s", redlock_result_text(&result));
    ck_assert_int_eq(redlock_metrics(client, text, sizeof text, NULL), REDLOCK_OK);
    static const char *const lines[][2] = {{"node_usable", "} 0\n"},
                                           {"node_latency_seconds_bucket", ",le=\"+Inf\"} 0\n"},
                                           {"node_latency_seconds_count", "} 0\n"}};
    for (size_t i = 0; i < ROWS(lines); i++) {
        char *line = fixture_text("\nredlock_%s{node=\"%s\"%s", lines[i][0], labels[_i].label, lines[i][1]);
        ck_assert_msg(strstr(text, line), "%s: its metrics lack '%s'", labels[_i].node, line);
        free(line);
    }
}

TEST_PROGRAM("metrics")
