/* The nodes' replies to a query, and the state computed from them; and their refusals of a scan or an inspection. */
#include "fake/calls.h"

static struct answer answer;

static void five_nodes(void)
{
    scene_begin(5);
    scene.keys_may_stay = true; /* those of others */
    scene_attach();
}

SCENE_CASE(states, five_nodes);

/* Keys of others on the nodes, and the state. With different ends the lock lasts as long as a majority of its keys. */
static const struct {
    const char *values[5];
    int64_t ttl_ms[5];
    const char *token;
    int locked;
    unsigned locked_nodes, free_nodes;
    int64_t remaining_ms;
} states[] = {
    {{NULL}, {0}, "", 0, 0, 5, 0},
    {{"a", "a", "a", "b"}, {100000, 200000, 300000, 500000}, "a", 1, 3, 1, 100000},
    {{"b", "b", "b", "a"}, {100000, 200000, 300000, 500000}, "b", 1, 3, 1, 100000},
    {{"even", "odd", "even", "odd"}, {100000, 100000, 100000, 100000}, NULL, 0, 2, 1, 0},
    {{"ever", "ever", "ever"}, {-1, -1, -1}, "ever", 1, 3, 2, REDLOCK_STATE_NO_EXPIRY},
};

TEST_ROWS(states, keys_on_the_nodes_make_the_state, ROWS(states))
{
    const redlock_state *state = &answer.state;
    bool passes = states[_i].remaining_ms > 0 && states[_i].remaining_ms != REDLOCK_STATE_NO_EXPIRY;
    for (unsigned i = 0; i < 5 && states[_i].values[i]; i++)
        fake_server_set_key(scene.node[i], "stock", states[_i].values[i], states[_i].ttl_ms[i]); /* another holder's */
    ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
    ck_assert_int_eq(state->locked, states[_i].locked);
    ck_assert_int_eq(state->held_by_me, 0);
    ck_assert_uint_eq(state->locked_nodes, states[_i].locked_nodes);
    ck_assert_uint_eq(state->free_nodes, states[_i].free_nodes);
    if (states[_i].token)
        ck_assert_str_eq(state->holder.token, states[_i].token);
    ck_assert_int_le(state->remaining_ms, states[_i].remaining_ms + (passes ? 1 : 0));
    ck_assert_int_ge(state->remaining_ms, states[_i].remaining_ms - (passes ? 50000 : 0));
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_str_eq(state->node[i].token, states[_i].values[i] ? states[_i].values[i] : "");
        ck_assert_int_eq(state->node[i].remaining_ms > 0, states[_i].values[i] != NULL);
    }
}

/* What the first node replies: an error, a reply that makes no sense (tests/parts/reply_test.c has all of them), and
 * numbers at the edges of their ranges. A remaining time of -2 means no key, even if the reply has a value; other negative
 * numbers mean no expiry. The most waiters of a node count; -1: it does not know them. */
static const struct {
    const char *reply;
    int64_t remaining_ms;
    int32_t waiters;
} edges[] = {
    {FAKE_LOADING, -1, -1},
    {"*4\r\n$3\r\nabc\r\n:5\r\n:0\r\n*1\r\n:0\r\n", -1, -1},
    {"*4\r\n$3\r\nabc\r\n:-2\r\n:0\r\n*0\r\n", 0, 0},
    {"*4\r\n$3\r\nabc\r\n:0\r\n:-1\r\n*0\r\n", 1, -1},
    {"*4\r\n$3\r\nabc\r\n:-1\r\n:7\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY, 7},
    {"*4\r\n$3\r\nabc\r\n:-9223372036854775808\r\n:4\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY, 4},
    {"*4\r\n$3\r\nabc\r\n:9223372036854775807\r\n:9223372036854775807\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY, INT32_MAX},
    {"*4\r\n$3\r\nabc\r\n:9223372036854775806\r\n:0\r\n*0\r\n", REDLOCK_STATE_NO_EXPIRY, 0},
};

TEST_ROWS(states, each_reply_is_a_state_or_a_refusal, ROWS(edges))
{
    int32_t waiters = edges[_i].waiters;
    bool refused = edges[_i].remaining_ms < 0 && edges[_i].remaining_ms != REDLOCK_STATE_NO_EXPIRY;
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "EVALSHA", .count = 1, .reply = edges[_i].reply});
    fake_server_add_rule(
        scene.node[1],
        &(struct fake_rule){.command = "EVALSHA", .count = 1, .reply = "*4\r\n$-1\r\n:-2\r\n:5\r\n*0\r\n"});
    ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
    ck_assert_int_eq(answer.state.node[0].remaining_ms, edges[_i].remaining_ms);
    ck_assert_int_eq(answer.state.node[0].waiters, waiters);
    ck_assert_uint_eq(answer.state.waiters, waiters < 5 ? 5 : (uint32_t)waiters);
    ck_assert_int_eq(answer.result.node[0].outcome, refused ? REDLOCK_NODE_REFUSED : REDLOCK_NODE_GRANTED);
    ck_assert_uint_eq(answer.result.granted, refused ? 4 : 5);
    ck_assert_uint_eq(answer.result.refused, refused ? 1 : 0);
    ck_assert_uint_eq(answer.state.locked_nodes + answer.state.free_nodes, refused ? 4 : 5);
}

#define LONG_ERROR "ERR 0123456789 0123456789 0123456789 "

/* A scan of the node, or an inspection, which sends SUBSCRIBE on a connection of its own; the other nodes grant that. Without
 * a reply the connection breaks. */
static const struct {
    const char *command, *reply, *text;
    int status;
} refusals[] = {
    {"SCAN", FAKE_NOPERM, "the user lacks +scan", REDLOCK_MISCONFIGURED},
    {"SCAN", FAKE_LOADING, "SCAN: LOADING Redis is loading", REDLOCK_NO_QUORUM},
    {"SCAN", ":1\r\n", "SCAN: a malformed reply", REDLOCK_NO_QUORUM},
    {"SCAN", "*2\r\n$1\r\n0\r\n:1\r\n", "SCAN: a malformed reply", REDLOCK_NO_QUORUM},
    {"SCAN", "-" LONG_ERROR LONG_ERROR LONG_ERROR "\r\n", "SCAN: " LONG_ERROR, REDLOCK_NO_QUORUM},
    {"ZADD", "-ERR unknown command 'ZADD'\r\n", "the server has no ZADD", REDLOCK_OK},
    {"SUBSCRIBE", FAKE_LOADING, "SUBSCRIBE: LOADING Redis is loading", REDLOCK_OK},
    {"SUBSCRIBE", NULL, "SUBSCRIBE: not confirmed", REDLOCK_OK},
};

TEST_ROWS(states, scan_or_inspection_that_is_refused_says_why, ROWS(refusals))
{
    fake_server_add_rule(scene.node[2], &(struct fake_rule){.command = refusals[_i].command,
                                                            .skip = true,
                                                            .reply = refusals[_i].reply,
                                                            .ending = refusals[_i].reply ? FAKE_GO_ON : FAKE_CLOSE});
    call_begin();
    call.node = 2;
    ck_assert_status(call_run(strcmp(refusals[_i].command, "SCAN") == 0 ? CALL_SCAN : CALL_INSPECT, ATTACHED),
                     refusals[_i].status);
    ck_assert_has(call.answer.result.node[2].text, refusals[_i].text);
    ck_assert_uint_eq(call.answer.result.refused, 1);
}

TEST_PROGRAM("queries")
