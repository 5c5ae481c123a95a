/* The nodes' replies to a query, a scan or an inspection, and what is computed from them. */
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
    {{"a", "a", "a", "a", "a"}, {100000, 100000, 100000, 100000, 100000}, "a", 1, 5, 0, 100000}, /* set over our lock */
    {{"ever", "ever", "ever"}, {-1, -1, -1}, "ever", 1, 3, 2, REDLOCK_STATE_NO_EXPIRY},
};

TEST_ROWS(states, keys_on_the_nodes_make_the_state, ROWS(states))
{
    const redlock_state *state = &answer.state;
    bool passes = states[_i].remaining_ms > 0 && states[_i].remaining_ms != REDLOCK_STATE_NO_EXPIRY;
    redlock_lock *lost = states[_i].values[4] ? scene_lock("stock") : NULL;
    scene_wait_for_replies(0, 5);
    for (unsigned i = 0; i < 5 && states[_i].values[i]; i++)
        fake_server_set_key(scene.node[i], "stock", states[_i].values[i], states[_i].ttl_ms[i]); /* another holder's */
    ck_assert_status(scene_wait(scene_start_query(&answer, "stock")), REDLOCK_OK);
    ck_assert_int_eq(state->locked, states[_i].locked);
    ck_assert_int_eq(state->held_by_me, 0);
    ck_assert_uint_eq(state->locked_nodes, states[_i].locked_nodes);
    ck_assert_uint_eq(state->free_nodes, states[_i].free_nodes);
    ck_assert_int_eq(state->node[5].remaining_ms, 0); /* there is no such node */
    if (states[_i].token)
        ck_assert_str_eq(state->holder.token, states[_i].token);
    ck_assert_int_le(state->remaining_ms, states[_i].remaining_ms + (passes ? 1 : 0));
    ck_assert_int_ge(state->remaining_ms, states[_i].remaining_ms - (passes ? 50000 : 0));
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_str_eq(state->node[i].token, states[_i].values[i] ? states[_i].values[i] : "");
        ck_assert_int_eq(state->node[i].remaining_ms > 0, states[_i].values[i] != NULL);
    }
    if (lost)
        scene_release(&answer, &lost);
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
    {"MGET", FAKE_LOADING, "MGET: LOADING Redis is loading", REDLOCK_OK},
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

/* --- What a scan finds --- */

SCENE_CASE(scans, scene_one_node);

#define EIGHT(text) text text text text text text text text
#define STARS       EIGHT("****************") /* the longest prefix */
#define LONGEST     EIGHT(EIGHT("xxxxxxxx"))
#define TOKEN       "0123456789abcdef0123456789abcdef01234567"

/* SCAN's reply has the resource's key `keys` times; of 51 keys the script reads 50 first, which are no locks. */
static const struct {
    const char *prefix, *resource, *reply; /* the script's, for the last key */
    const char *found; /* kind, remaining time and waiters of each lock; NULL: the reply is malformed */
    unsigned keys;
} scans[] = {
    {"p:", "a", "*1\r\n*3\r\n$3\r\nabc\r\n:0\r\n:7\r\n", "0 1 7,", 1},
    {"p:", "a", "*1\r\n*7\r\n:1\r\n:9\r\n:0\r\n$2\r\nr1\r\n:8\r\n$2\r\nr2\r\n:0\r\n", "1 9 0,", 1}, /* r2 has expired */
    {"p:", "a", "*2\r\n$-1\r\n$-1\r\n", NULL, 1},
    {"", "a", "*1\r\n*3\r\n$40\r\n" TOKEN "\r\n:5\r\n:0\r\n", "0 6 0,", 1},
    {"", "a", "*1\r\n*3\r\n$41\r\n" TOKEN "z\r\n:5\r\n:0\r\n", "", 1}, /* another program's */
    {STARS, LONGEST, "*1\r\n*3\r\n$3\r\nabc\r\n:0\r\n:0\r\n", "0 1 0,", 51},
};

static void note_found(const redlock_found *found, void *text)
{
    snprintf((char *)text + strlen(text), 16, "%d %d %d,", found->kind, (int)found->remaining_ms, found->waiters);
}

TEST_ROWS(scans, scan_finds_the_locks_among_the_keys, ROWS(scans))
{
    const char *prefix = scans[_i].prefix, *resource = scans[_i].resource;
    char found[64] = "";
    struct bytes match = {0}, page = {0};
    for (const char *c = prefix; *c; c++)
        bytes_print(&match, "%s%c", *c == '*' ? "\\" : "", *c);
    bytes_print(&match, "%s*", resource);
    bytes_append(&match, "", 1);
    bytes_print(&page, "*2\r\n$1\r\n0\r\n*%u\r\n", scans[_i].keys);
    for (unsigned i = 0; i < scans[_i].keys; i++)
        bytes_print(&page, "$%zu\r\n%s%s\r\n", strlen(prefix) + strlen(resource), prefix, resource);
    const struct fake_rule rules[] = {
        {.command = "SCAN", .argument = match.data, .reply = page.data, .reply_length = page.length},
        {.command = "EVALSHA",
         .argument = "150",
         .reply = "*50\r\n" EIGHT("$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n") "$-1\r\n$-1\r\n"},
        {.command = "EVALSHA", .argument = "3", .reply = scans[_i].reply}};
    scene.options.prefix = prefix;
    scene_attach();
    for (unsigned i = 0; i < ROWS(rules); i++)
        fake_server_add_rule(scene.node[0], &rules[i]);
    scene_started(&answer, redlock_scan_async(scene.client, 0, resource, note_found, found, NULL, scene_completed,
                                              scene_cleared(&answer)));
    ck_assert_status(scene_wait(&answer), scans[_i].found ? REDLOCK_OK : REDLOCK_NO_QUORUM);
    ck_assert_str_eq(scans[_i].found ? found : answer.result.node[0].text,
                     scans[_i].found ? scans[_i].found : "EVALSHA: a malformed reply");
    bytes_free(&match);
    bytes_free(&page);
}

TEST_PROGRAM("queries")
