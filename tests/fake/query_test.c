/* The nodes' replies to a query, and the state computed from them. */
#include "fake/scene.h"

#include <string.h>

static struct answer answer;

static void five_nodes(void)
{
    scene_begin(5);
    scene_attach();
}

static int query(const char *resource)
{
    scene_start_query(&answer, resource);
    return scene_wait(&answer);
}

static void show(unsigned node, const char *value, int64_t ttl_ms)
{
    scene_hold(node, "stock"); /* registers the key for removal at the end */
    fake_server_set_key(scene.node[node], "stock", value, ttl_ms);
}

static void forget_all(void)
{
    for (unsigned i = 0; i < scene.nodes; i++)
        fake_server_forget_keys(scene.node[i]);
}

START_TEST(a_free_resource)
{
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.locked, 0);
    ck_assert_uint_eq(answer.state.locked_nodes, 0);
    ck_assert_uint_eq(answer.state.free_nodes, 5);
    ck_assert_int_eq(answer.state.remaining_ms, 0);
    ck_assert_str_eq(answer.state.token, "");
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(answer.state.node[i].remaining_ms, 0);
        ck_assert_str_eq(answer.state.node[i].token, "");
    }
}
END_TEST

START_TEST(a_lock_of_our_own)
{
    redlock_lock *lock = scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.locked, 1);
    ck_assert_int_eq(answer.state.held_by_me, 1);
    ck_assert_uint_eq(answer.state.locked_nodes, 5);
    ck_assert_uint_eq(answer.state.free_nodes, 0);
    ck_assert_str_eq(answer.state.token, redlock_lock_token(lock));
    ck_assert_int_gt(answer.state.remaining_ms, 50000);
    ck_assert_int_le(answer.state.remaining_ms, 60001);
}
END_TEST

START_TEST(a_lock_of_another)
{
    for (unsigned i = 0; i < 3; i++)
        show(i, "somebody", 10000 * (i + 1));
    show(3, "nobody", 50000);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.locked, 1);
    ck_assert_int_eq(answer.state.held_by_me, 0);
    ck_assert_uint_eq(answer.state.locked_nodes, 3);
    ck_assert_uint_eq(answer.state.free_nodes, 1);
    ck_assert_str_eq(answer.state.token, "somebody");
    ck_assert_int_le(answer.state.remaining_ms, 10001); /* after that only two nodes have the key */
    ck_assert_int_gt(answer.state.remaining_ms, 5000);
    ck_assert_str_eq(answer.state.node[3].token, "nobody");
    forget_all();
}
END_TEST

START_TEST(no_majority_for_anybody)
{
    for (unsigned i = 0; i < 4; i++)
        show(i, i % 2 ? "odd" : "even", 10000);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.locked, 0);
    ck_assert_uint_eq(answer.state.locked_nodes, 2);
    ck_assert_uint_eq(answer.state.free_nodes, 1);
    ck_assert_int_eq(answer.state.remaining_ms, 0);
    forget_all();
}
END_TEST

START_TEST(a_key_without_an_end)
{
    for (unsigned i = 0; i < 3; i++)
        show(i, "for-ever", -1);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.locked, 1);
    ck_assert(answer.state.remaining_ms == REDLOCK_STATE_NO_EXPIRY);
    ck_assert(answer.state.node[0].remaining_ms == REDLOCK_STATE_NO_EXPIRY);
    forget_all();
}
END_TEST

START_TEST(value_is_shown_whole_or_not_at_all)
{
    char value[REDLOCK_TOKEN_MAX + 2];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    value[3] = '\n';
    value[4] = '\xe4';
    for (unsigned i = 0; i < 5; i++)
        show(i, value + (i < 3 ? 1 : 0), 10000);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_uint_eq(strlen(answer.state.token), REDLOCK_TOKEN_MAX + 6);
    ck_assert_mem_eq(answer.state.token, "vv\\x0a\\xe4vvv", 13);
    ck_assert_str_eq(answer.state.node[4].token, "(129 bytes)");
    forget_all();
}
END_TEST

static const char *const odd[] = {
    "*4\r\n$3\r\nabc\r\n$1\r\n5\r\n:0\r\n*0\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n$1\r\n0\r\n*0\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n:0\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*1\r\n:0\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n:32\r\n$1\r\na\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n:-1\r\n$1\r\na\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n:0\r\n:1\r\n",
    "*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*2\r\n$1\r\na\r\n:0\r\n",
    "*3\r\n$3\r\nabc\r\n:5\r\n:0\r\n",
    "*2\r\n$3\r\nabc\r\n:5\r\n",
    "*1\r\n:1\r\n",
    "*0\r\n",
    "*-1\r\n",
    "+OK\r\n",
    ":7\r\n",
    "$3\r\nabc\r\n",
    "*4\r\n*1\r\n:1\r\n:1\r\n:0\r\n*0\r\n",
    FAKE_LOADING,
    FAKE_NOPERM,
};
enum { ODD = sizeof odd / sizeof *odd };

START_TEST(an_answer_that_makes_no_sense_is_none)
{
    scene_add_rule(0, 2, &(struct fake_rule){.command = "EVALSHA", .count = 1, .reply = odd[_i]});
    show(2, "somebody", 10000);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_int_eq(answer.state.node[0].remaining_ms, -1);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_REFUSED);
    ck_assert_uint_eq(answer.result.granted, 3);
    ck_assert_uint_eq(answer.result.refused, 2);
    ck_assert_uint_eq(answer.state.locked_nodes, 1);
    ck_assert_uint_eq(answer.state.free_nodes, 2);
    forget_all();
}
END_TEST

/* -2 means no key, even if the reply has a value. Other negative numbers mean no expiry. */
START_TEST(numbers_at_the_edge)
{
    static const struct {
        const char *reply;
        int64_t remaining_ms;
    } edges[] = {
        {"*4\r\n$3\r\nabc\r\n:-2\r\n:0\r\n*0\r\n", 0},
        {"*4\r\n$3\r\nabc\r\n:0\r\n:0\r\n*0\r\n", 1},
        {"*4\r\n$3\r\nabc\r\n:-1\r\n:0\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY},
        {"*4\r\n$3\r\nabc\r\n:-9223372036854775808\r\n:0\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY},
        {"*4\r\n$3\r\nabc\r\n:9223372036854775807\r\n:0\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY},
        {"*4\r\n$3\r\nabc\r\n:9223372036854775806\r\n:0\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY},
    };
    for (unsigned edge = 0; edge < sizeof edges / sizeof *edges; edge++) {
        fake_server_add_rule(scene.node[0],
                             &(struct fake_rule){.command = "EVALSHA", .count = 1, .reply = edges[edge].reply});
        ck_assert_status(query("stock"), REDLOCK_OK);
        ck_assert_msg(answer.state.node[0].remaining_ms == edges[edge].remaining_ms, "'%s' gave %lld",
                      edges[edge].reply, (long long)answer.state.node[0].remaining_ms);
    }
}
END_TEST

START_TEST(waiters_are_the_most_that_a_node_shows)
{
    static const char *const replies[] = {"*4\r\n$-1\r\n:-2\r\n:7\r\n*0\r\n", "*4\r\n$-1\r\n:-2\r\n:-1\r\n*0\r\n",
                                          "*4\r\n$-1\r\n:-2\r\n:9223372036854775807\r\n*0\r\n"};
    static const int32_t waiters[] = {7, -1, INT32_MAX};
    for (unsigned i = 0; i < 3; i++) {
        fake_server_add_rule(scene.node[i], &(struct fake_rule){.command = "EVALSHA", .count = 1, .reply = replies[i]});
        if (i == 2)
            fake_server_refuse(scene.node[3], "EVALSHA", 1, FAKE_LOADING);
        ck_assert_status(query("stock"), REDLOCK_OK);
        ck_assert_int_eq(answer.state.node[i].waiters, waiters[i]);
        ck_assert_uint_eq(answer.state.waiters, waiters[i] < 0 ? 0 : (uint32_t)waiters[i]);
        ck_assert_int_eq(answer.state.node[3].waiters, i == 2 ? -1 : 0);
    }
}
END_TEST

START_TEST(every_node_is_waited_for_until_its_timeout)
{
    scene_close(&answer);
    for (unsigned i = 0; i < 3; i++)
        scene.suffix[i] = "?timeout_ms=40";
    scene_attach();
    fake_server_pause(scene.node[0]);
    ck_assert_status(query("stock"), REDLOCK_OK);
    ck_assert_uint_ge(answer.result.elapsed_us, 40000);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_TIMED_OUT);
    ck_assert_int_eq(answer.state.node[0].remaining_ms, -1);
    scene_each(1, 3, fake_server_pause);
    ck_assert_status(query("stock"), REDLOCK_NO_QUORUM);
}
END_TEST

START_TEST(bad_arguments_are_told_in_words)
{
    ck_assert_status(query(NULL), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "the resource is NULL");
    ck_assert_status(query(""), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "empty");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queries");
    TCase *tcase = scene_case(suite, "states", five_nodes);
    tcase_add_test(tcase, a_free_resource);
    tcase_add_test(tcase, a_lock_of_our_own);
    tcase_add_test(tcase, a_lock_of_another);
    tcase_add_test(tcase, no_majority_for_anybody);
    tcase_add_test(tcase, a_key_without_an_end);
    tcase_add_test(tcase, value_is_shown_whole_or_not_at_all);
    tcase_add_loop_test(tcase, an_answer_that_makes_no_sense_is_none, 0, ODD);
    tcase_add_test(tcase, numbers_at_the_edge);
    tcase_add_test(tcase, waiters_are_the_most_that_a_node_shows);
    tcase_add_test(tcase, every_node_is_waited_for_until_its_timeout);
    tcase_add_test(tcase, bad_arguments_are_told_in_words);
    return run_suite(suite);
}
