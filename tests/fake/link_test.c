/* Broken connections, and nodes that send unexpected replies. */
#include "fake/scene.h"

#include <sys/socket.h>

#include "src/client/client.h"

static struct answer answer;

/* Waits until the node votes again. */
static void assert_whole_again(void)
{
    scene_wait_for_ready();
    scene_lock_and_release("afterwards");
}

static void assert_new_links(unsigned nodes)
{
    for (unsigned i = 0; i < nodes; i++)
        scene_wait_for_accepted(i, 2);
    assert_whole_again();
}

/* --- The connection breaks at a request --- */

static const struct fake_rule breakings[] = {
    {.command = "SET", .count = 1, .silent = true, .ending = FAKE_RESET},
    {.command = "SET", .count = 1, .silent = true, .ending = FAKE_CLOSE},
    {.command = "SET", .count = 1, .silent = true, .ending = FAKE_SHUTDOWN},
    {.command = "SET", .count = 1, .skip = true, .ending = FAKE_RESET},
    {.command = "SET", .count = 1, .skip = true, .ending = FAKE_CLOSE},
    {.command = "SET", .count = 1, .skip = true, .ending = FAKE_SHUTDOWN},
    {.command = "SET", .count = 1, .reply = "$-", .ending = FAKE_CLOSE},
    {.command = "SET", .count = 1, .reply = "$-", .ending = FAKE_SHUTDOWN},
    {.command = "SET", .count = 1, .reply = FAKE_GARBAGE},
    {.command = "SET", .count = 1, .reply = "$5\r\nabc", .ending = FAKE_SHUTDOWN},
    {.command = "SET", .count = 1, .reply = "$x\r\n"},
    {.command = "SET", .count = 1, .reply = "*99999999999999999999\r\n"},
};

/* The client does not know whether the node executed the request, and the server may still execute bytes from the old
 * connection. So it kills that connection, and sends the undo right behind, before other requests. */
static void assert_killed_and_undone(unsigned node)
{
    unsigned kill_at, undo_at;
    scene_wait_for_sent(node, SENT_UNDO, 1);
    const struct fake_record *kill = scene_sent(node, SENT_KILL, NULL, 0, &kill_at);
    const char *token = scene_token(scene_sent(node, SENT_SET, NULL, 0, NULL));
    const struct fake_record *undo = scene_sent(node, SENT_UNDO, token, 0, &undo_at);
    ck_assert(kill && undo);
    ck_assert_uint_eq(kill->connection, 2);
    ck_assert_uint_eq(undo->connection, 2);
    ck_assert_str_eq(kill->command->argv[2].data, "ID");
    ck_assert_str_eq(kill->command->argv[3].data, "1");
    ck_assert_uint_eq(undo_at, kill_at + 1);
    ck_assert_uint_eq(scene_count(node, SENT_KILL), 1);
    ck_assert(!scene_has_key(node, "stock"));
}

SCENE_CASE(breaking, scene_five_nodes);

/* Each of three nodes breaks it in another way. */
TEST_ROWS(breaking, a_link_that_breaks_at_a_request_is_killed_and_made_anew_and_the_request_undone, ROWS(breakings) / 3)
{
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        fake_server_add_rule(scene.node[i], &breakings[3 * (unsigned)_i + i]);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_killed_and_undone(i);
    assert_new_links(3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(fake_server_accepted(scene.node[i]), 2);
}

SCENE_CASE(one_link, scene_one_node);

/* A connection that breaks before the server has replied to the kill must be killed as well, in addition to the earlier
 * ones (eight at most). */
TEST_ROWS(one_link, each_stale_connection_is_killed, 3)
{
    const struct fake_rule breaks_at_kill = {
        .command = "CLIENT KILL", .count = 1, .skip = true, .silent = true, .ending = FAKE_RESET};
    static const unsigned numbers[] = {1, 8, 10};
    unsigned known = 8, links = numbers[_i], begin = links > known ? links - known : 0;
    char id[16];
    scene_attach();
    fake_server_add_rule(scene.node[0], &breakings[0]);
    for (unsigned i = 1; i < links; i++) {
        struct fake_rule rule = breaks_at_kill;
        rule.connection = i + 1;
        fake_server_add_rule(scene.node[0], &rule);
    }
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    unsigned total = scene_count(0, SENT_KILL), last = links - begin;
    ck_assert_uint_gt(total, last - 1);
    for (unsigned i = 0; i < last; i++) { /* the kills on the last connection */
        unsigned found = 0;
        snprintf(id, sizeof id, "%u", begin + i + 1);
        for (unsigned k = total - last; k < total; k++) {
            const struct fake_record *kill = scene_sent(0, SENT_KILL, NULL, k, NULL);
            ck_assert_uint_eq(kill->connection, links + 1);
            found += strcmp(kill->command->argv[3].data, id) == 0;
        }
        ck_assert_msg(found == 1, "link %s of %u is killed %u times", id, links, found);
    }
    assert_whole_again();
}

TEST_ROWS(one_link, idle_connection_that_breaks_is_not_killed, 3)
{
    static const enum fake_ending endings[] = {FAKE_RESET, FAKE_CLOSE, FAKE_SHUTDOWN};
    scene_attach();
    fake_server_drop(scene.node[0], endings[_i]);
    assert_new_links(1);
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 0);
}

/* Behind Sentinels or a proxy the node is another server for a while, which may have given the ID to another client. The
 * first one may still read from the connection. */
TEST(one_link, stale_connection_is_killed_when_its_server_is_back)
{
    char run_id[RL_RUN_ID_SIZE];
    scene_attach();
    snprintf(run_id, sizeof run_id, "%s", scene.client->nodes->node->server.run_id);
    fake_server_add_rule(scene.node[0], &breakings[0]);
    fake_server_set_info(scene.node[0], "run_id", "another");
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 0);
    fake_server_set_info(scene.node[0], "run_id", run_id);
    fake_server_drop(scene.node[0], FAKE_RESET);
    scene_wait_for_sent(0, SENT_KILL, 1);
    ck_assert_str_eq(scene_sent(0, SENT_KILL, NULL, 0, NULL)->command->argv[3].data, "1");
}

TEST(breaking, node_that_closes_after_its_reply_has_voted_and_keeps_the_lock)
{
    struct answer extended;
    scene_attach();
    scene_add_rule(0, 5, &(struct fake_rule){.command = "SET", .count = 1, .ending = FAKE_SHUTDOWN});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    assert_new_links(5);
    ck_assert_status(scene_wait(scene_start_extend(&extended, answer.lock, 120000)), REDLOCK_OK);
}

/* While the server is busy with a script it executes neither the kill nor the undo behind it. */
TEST(one_link, a_kill_that_a_busy_server_refused_is_repeated_before_the_undo)
{
    unsigned kill, undo;
    scene_attach();
    fake_server_add_rule(scene.node[0], &breakings[0]);
    scene_refuse(0, 1, "CLIENT KILL", 2, FAKE_BUSY);
    scene_refuse(0, 1, "EVALSHA", 2, FAKE_BUSY);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    struct rl_node *node = scene.client->nodes->node;
    for (unsigned i = 1; i < 3; i++) {
        rl_node_beat(node);
        scene_wait_for_sent(0, SENT_UNDO, i + 1);
    }
    size_t beats = fake_server_count(scene.node[0], "TIME");
    rl_node_beat(node);
    scene_until(fake_server_count(scene.node[0], "TIME") > beats);
    scene_wait_for_replies(0, 1);
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 3);
    ck_assert_ptr_nonnull(scene_sent(0, SENT_KILL, NULL, 2, &kill));
    ck_assert_ptr_nonnull(scene_sent(0, SENT_UNDO, NULL, 2, &undo));
    ck_assert_uint_lt(kill, undo);
    assert_whole_again();
}

/* A network that drops an idle connection tells neither end. */
TEST(one_link, both_connections_are_kept_alive)
{
    int on;
    scene_attach();
    const struct rl_node *node = scene.client->nodes->node;
    rl_listeners_start(scene.client->nodes);
    scene_until(node->listener->up);
    const int descriptors[] = {node->link.context->c.fd, node->listener->link.context->c.fd};
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(getsockopt(descriptors[i], SOL_SOCKET, SO_KEEPALIVE, &on, &(socklen_t){sizeof on}), 0);
        ck_assert_int_eq(on, 1);
    }
}

/* The signal would end the process, which keeps the default dispositions. */
TEST(one_link, a_write_to_a_broken_link_raises_no_signal)
{
    scene_attach();
    shutdown(scene.client->nodes->node[0].link.context->c.fd, SHUT_WR);
    scene_lock_and_release("stock");
}

/* --- Unexpected replies --- */

static const char *const unasked[] = {
    "+EXTRA\r\n", "+EX",        ":1\r\n:2\r\n+three\r\n", "-ERR four\r\n", "$-1\r\n", "*2\r\n+a\r\n+b\r\n",
    "\r\n",       FAKE_GARBAGE,
};
enum { UNFINISHED = 1, NIL = 4 };

/* In the handshake each node sends them at another command: before the first one, and behind the last reply, too. Between
 * replies the client cannot distinguish the reply from the extra one, so neither counts. An unexpected nil is read as the
 * second lock's reply, "held by another client", after which there is nothing to undo. That lock's key expires. An
 * unfinished line may be read as the beginning of the next reply, which is then wrong, but the connection stays. */
TEST_ROWS(breaking, unasked_replies_break_the_link, 2 * ROWS(unasked))
{
    const char *bytes = unasked[_i / 2];
    const struct fake_rule places[] = {
        {.command = FAKE_ACCEPT, .count = 1, .reply = bytes},
        {.command = "CLIENT ID", .count = 1, .extra = bytes},
        {.command = "INFO", .count = 1, .extra = bytes},
        {.command = "INFO", .first = 2, .count = 1, .extra = bytes},
        {.command = "INFO", .first = 4, .count = 1, .extra = bytes},
    };
    struct answer other;
    if (_i % 2) {
        for (unsigned i = 0; i < 5; i++)
            fake_server_add_rule(scene.node[i], &places[i]);
        scene_attach_only();
    } else {
        scene.keys_may_stay = _i / 2 == NIL;
        scene_attach();
        scene_add_rule(0, 5, &(struct fake_rule){.command = "SET", .count = 1, .extra = bytes});
        scene_start_acquire(&answer, "stock", NULL);
        scene_start_acquire(&other, "more", NULL);
        scene_wait(&answer);
        scene_wait(&other);
    }
    assert_new_links(_i / 2 == UNFINISHED ? 0 : 5);
}

/* --- Oversized replies --- */

#define TOO_LONG "a reply of more than 1024 KiB"

static const struct {
    const char *beginning, *part;
    unsigned parts;
    int filling; /* bytes behind each part */
    const char *text;
} oversized[] = {
    {"", "+", 1, 2 << 20, ""},
    {"", "$536870912\r\n", 1, 2 << 20, ""},
    {"", "*1\r\n", 1000, 0, ""},
    /* hiredis allocates an array before its elements arrive, with as many elements as the header announces. */
    {"", "*2000000000\r\n", 1, 0, TOO_LONG},
    {"", "*50000\r\n", 1, 0, TOO_LONG},
    {"", "*2\r\n*2000000000\r\n", 1, 0, TOO_LONG},
    /* Each element is short, and so is hiredis' buffer. Only the whole reply is without an end. */
    {"*200", "\r\n$10000\r\n", 199, 10000, TOO_LONG},
};

/* The client closes the connection when an unfinished reply exceeds a limit. It does not wait for the timeout. */
TEST_ROWS(one_link, an_oversized_reply_breaks_the_link, ROWS(oversized))
{
    struct bytes reply = {0};
    bytes_print(&reply, "%s", oversized[_i].beginning);
    for (unsigned i = 0; i < oversized[_i].parts; i++) {
        bytes_print(&reply, "%s", oversized[_i].part);
        if (oversized[_i].filling)
            bytes_print(&reply, "%0*d", oversized[_i].filling, 0);
    }
    scene_attach();
    fake_server_add_rule(
        scene.node[0],
        &(struct fake_rule){.command = "SET", .count = 1, .reply = reply.data, .reply_length = reply.length});
    bytes_free(&reply);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 1);
    ck_assert_has(answer.result.node[0].text, oversized[_i].text);
    assert_new_links(1);
}

TEST_PROGRAM("links")
