/* Broken connections, and nodes that send unexpected replies. The process keeps the default signal dispositions, and no
 * signal may end it. */
#include "fake/scene.h"
#include "support/sigpipe.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "src/client/client.h"

static struct answer answer;

static void one_node(void)
{
    scene_begin(1);
}

static void three_nodes(void)
{
    scene_begin(3);
}

static void five_nodes(void)
{
    scene_begin(5);
}

/* Waits until the node votes again. */
static void assert_whole_again(void)
{
    scene_wait_for_ready();
    redlock_lock *lock = scene_lock("afterwards");
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}

/* --- The connection breaks at a request --- */

struct breaking {
    struct fake_rule rule;
    bool executed;
};

static const struct breaking breakings[] = {
    {{.command = "SET", .count = 1, .silent = true, .ending = FAKE_RESET}, true},
    {{.command = "SET", .count = 1, .silent = true, .ending = FAKE_CLOSE}, true},
    {{.command = "SET", .count = 1, .silent = true, .ending = FAKE_SHUTDOWN}, true},
    {{.command = "SET", .count = 1, .skip = true, .ending = FAKE_RESET}, false},
    {{.command = "SET", .count = 1, .skip = true, .ending = FAKE_CLOSE}, false},
    {{.command = "SET", .count = 1, .skip = true, .ending = FAKE_SHUTDOWN}, false},
    {{.command = "SET", .count = 1, .half = true, .ending = FAKE_CLOSE}, true},
    {{.command = "SET", .count = 1, .half = true, .ending = FAKE_SHUTDOWN}, true},
    {{.command = "SET", .count = 1, .reply = FAKE_GARBAGE}, true},
    {{.command = "SET", .count = 1, .reply = FAKE_GARBAGE, .ending = FAKE_SHUTDOWN}, true},
    {{.command = "SET", .count = 1, .reply = "$5\r\nabc", .ending = FAKE_SHUTDOWN}, true},
    {{.command = "SET", .count = 1, .reply = "$x\r\n"}, true},
    {{.command = "SET", .count = 1, .reply = "*99999999999999999999\r\n"}, true},
};
enum { BREAKINGS = sizeof breakings / sizeof *breakings };

/* The client does not know whether the node executed the request. On the new connection it sends the undo before other
 * requests. */
START_TEST(a_link_that_breaks_at_a_request_is_made_anew_and_the_request_undone)
{
    const struct breaking *breaking = &breakings[_i];
    scene_attach();
    scene_add_rule(0, 3, &breaking->rule);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 3);
    for (unsigned i = 0; i < 3; i++) {
        scene_wait_for_accepted(i, 2);
        scene_wait_for_sent(i, SENT_UNDO, 1);
        const struct fake_record *undo =
            scene_sent(i, SENT_UNDO, scene_token(scene_sent(i, SENT_SET, NULL, 0, NULL)), 0, NULL);
        ck_assert_ptr_nonnull(undo);
        ck_assert_uint_eq(undo->connection, 2);
        ck_assert(!scene_has_key(i, "stock"));
    }
    assert_whole_again();
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(fake_server_accepted(scene.node[i]), 2);
}
END_TEST

START_TEST(a_minority_of_broken_links_is_no_matter)
{
    scene_attach();
    scene_add_rule(0, 2, &breakings[_i].rule);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++)
        scene_wait_for_accepted(i, 2);
    assert_whole_again();
}
END_TEST

/* The server may still execute bytes from the old connection, after the undo. So the client kills that connection
 * first. */
START_TEST(the_old_link_is_killed_before_the_undo)
{
    scene_attach();
    fake_server_add_rule(scene.node[0], &breakings[_i].rule);
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_sent(0, SENT_UNDO, 1);
    unsigned kill_at, undo_at;
    const struct fake_record *kill = scene_sent(0, SENT_KILL, NULL, 0, &kill_at);
    ck_assert_ptr_nonnull(kill);
    ck_assert_uint_eq(kill->connection, 2);
    ck_assert_str_eq(kill->command->argv[2].data, "ID");
    ck_assert_str_eq(kill->command->argv[3].data, "1");
    scene_sent(0, SENT_UNDO, NULL, 0, &undo_at);
    ck_assert_uint_eq(undo_at, kill_at + 1); /* with no command between them */
    ck_assert_ptr_null(scene_sent(0, SENT_KILL, NULL, 1, NULL));
    assert_whole_again();
}
END_TEST

/* A connection that breaks before the server has replied to the kill must be killed as well, in addition to the earlier
 * ones (eight at most). */
START_TEST(every_link_that_owes_is_killed)
{
    const struct fake_rule breaks_at_kill = {
        .command = "CLIENT KILL", .count = 1, .skip = true, .silent = true, .ending = FAKE_RESET};
    unsigned known = 8, links = (unsigned)_i, begin = links > known ? links - known : 0;
    char id[16];
    scene_attach();
    fake_server_add_rule(scene.node[0], &breakings[0].rule);
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
END_TEST

START_TEST(an_idle_link_that_breaks_owes_nothing)
{
    static const enum fake_ending endings[] = {FAKE_RESET, FAKE_CLOSE, FAKE_SHUTDOWN};
    scene_attach();
    fake_server_drop(scene.node[0], endings[_i]);
    scene_wait_for_accepted(0, 2);
    assert_whole_again();
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 0);
}
END_TEST

/* A restarted server reuses client IDs, so a kill could hit another client's connection. */
START_TEST(another_process_behind_the_address_is_not_told_to_kill)
{
    scene_attach();
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "SET", .count = 1, .silent = true});
    struct answer asked;
    scene_start_acquire(&asked, "stock", NULL);
    scene_wait_for_sent(0, SENT_SET, 1);
    fake_server_restart(scene.node[0]);
    ck_assert_status(scene_wait(&asked), REDLOCK_NO_QUORUM);
    scene_wait_for_sent(0, SENT_UNDO, 1); /* the server may have kept its keys through the restart */
    ck_assert_uint_eq(scene_count(0, SENT_KILL), 0);
    assert_whole_again();
}
END_TEST

START_TEST(a_lock_survives_its_links)
{
    scene_attach();
    redlock_lock *lock = scene_lock("stock");
    for (unsigned i = 0; i < 5; i++) {
        scene_wait_for_sent(i, SENT_SET, 1);
        fake_server_drop(scene.node[i], FAKE_RESET);
        scene_wait_for_accepted(i, 2);
    }
    scene_wait_for_ready();
    scene_start_extend(&answer, lock, 120000);
    ck_assert_status(scene_wait(&answer), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
}
END_TEST

START_TEST(a_node_that_closes_after_its_answer_has_voted)
{
    scene_attach();
    scene_add_rule(0, 5, &(struct fake_rule){.command = "SET", .count = 1, .ending = FAKE_SHUTDOWN});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        scene_wait_for_accepted(i, 2);
    scene_wait_for_ready();
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}
END_TEST

/* --- No server is listening --- */

START_TEST(a_node_that_does_not_listen_says_so_in_the_result)
{
    fake_server_stop_listening(scene.node[0]);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    ck_assert_str_eq(answer.result.node[0].text, "cannot connect: Connection refused");
    ck_assert_has(redlock_result_text(&answer.result), "1 unreachable (127.0.0.1:");
    fake_server_listen(scene.node[0]);
    assert_whole_again();
}
END_TEST

START_TEST(too_many_clients_is_not_for_ever)
{
    unsigned rule = fake_server_refuse_connections(scene.node[0], 0);
    scene_attach_only();
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_has(answer.result.node[0].text, "max number of clients");
    fake_server_remove_rule(scene.node[0], rule);
    assert_whole_again();
}
END_TEST

/* --- Unexpected replies --- */

static const char *const unasked[] = {
    "+EXTRA\r\n", "+EX",        ":1\r\n:2\r\n+three\r\n", "-ERR four\r\n", "$-1\r\n", "*2\r\n+a\r\n+b\r\n",
    "\r\n",       FAKE_GARBAGE,
};
enum { UNASKED = sizeof unasked / sizeof *unasked, UNFINISHED = 1, NIL = 4 };

/* An unfinished line may be read as the beginning of the next reply. That reply is then wrong, but the connection
 * stays. */
static void wait_for_new_links(unsigned nodes, int which)
{
    for (unsigned i = 0; i < nodes && which != UNFINISHED; i++)
        scene_wait_for_accepted(i, 2);
}

START_TEST(on_an_idle_link)
{
    scene_attach();
    fake_server_push(scene.node[0], unasked[_i], strlen(unasked[_i]));
    scene_wait_for_accepted(0, 2);
    assert_whole_again();
}
END_TEST

START_TEST(before_anything_was_asked)
{
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = FAKE_ACCEPT, .count = 1, .reply = unasked[_i]});
    scene_attach_only();
    wait_for_new_links(1, _i);
    assert_whole_again();
}
END_TEST

START_TEST(in_the_handshake)
{
    static const char *const commands[] = {"CLIENT ID", "INFO", "SCRIPT LOAD"};
    for (unsigned i = 0; i < 3; i++)
        fake_server_add_rule(scene.node[i],
                             &(struct fake_rule){.command = commands[i], .count = 1, .extra = unasked[_i]});
    scene_attach_only();
    wait_for_new_links(3, _i);
    assert_whole_again();
}
END_TEST

START_TEST(behind_the_last_word_of_the_handshake)
{
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "SCRIPT LOAD", .first = 3, .count = 1, .extra = unasked[_i]});
    scene_attach_only();
    wait_for_new_links(1, _i);
    assert_whole_again();
}
END_TEST

/* The client cannot distinguish the reply from the extra one, so neither counts. */
START_TEST(behind_an_answer)
{
    scene_attach();
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .count = 1, .extra = unasked[_i]});
    scene_acquire(&answer, "stock", NULL);
    wait_for_new_links(3, _i);
    if (answer.lock)
        scene_release(&answer, &answer.lock);
    assert_whole_again();
}
END_TEST

/* An unexpected nil is read as the second lock's reply, "held by another client", after which there is nothing to undo. That
 * lock's key expires. */
START_TEST(between_answers)
{
    struct answer other;
    scene.keys_may_stay = _i == NIL;
    scene_attach();
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .count = 1, .extra = unasked[_i]});
    scene_start_acquire(&answer, "stock", NULL);
    scene_start_acquire(&other, "more", NULL);
    scene_wait(&answer);
    scene_wait(&other);
    wait_for_new_links(3, _i);
    if (answer.lock)
        scene_release(&answer, &answer.lock);
    if (other.lock)
        scene_release(&other, &other.lock);
    assert_whole_again();
}
END_TEST

START_TEST(and_then_the_end)
{
    scene_attach();
    fake_server_push(scene.node[0], unasked[_i], strlen(unasked[_i]));
    fake_server_drop(scene.node[0], FAKE_SHUTDOWN);
    scene_wait_for_accepted(0, 2);
    assert_whole_again();
}
END_TEST

/* --- Oversized replies --- */

static char *filled(const char *beginning, size_t size)
{
    char *text = fixture_allocate(size + 1);
    size_t length = strlen(beginning);
    memset(text, 'x', size);
    memcpy(text, beginning, length);
    text[size] = '\0';
    return text;
}

/* A long reply below the limit does not break the connection. The client closes the connection when an unfinished reply
 * exceeds the limit. */
START_TEST(a_reply_without_an_end_is_not_kept)
{
    static const char *const beginnings[] = {"+", "-ERR ", "$536870912\r\n"};
    char *endless = filled(beginnings[_i], 4 << 20);
    scene_attach();
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "SET", .count = 1, .reply = endless});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 1);
    scene_wait_for_accepted(0, 2);
    free(endless);
    assert_whole_again();
}
END_TEST

START_TEST(a_long_reply_is_only_a_wrong_one)
{
    char *text = filled("$500000\r\n", 500000 + 9);
    scene_attach();
    fake_server_add_rule(scene.node[0],
                         &(struct fake_rule){.command = "SET", .count = 1, .reply = text, .extra = "\r\n"});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.refused, 1);
    free(text);
    assert_whole_again();
    ck_assert_uint_eq(fake_server_accepted(scene.node[0]), 1);
}
END_TEST

START_TEST(a_reply_nested_too_deep_breaks_the_link)
{
    char nested[4 * 1000 + 1];
    for (unsigned i = 0; i < 1000; i++)
        memcpy(nested + 4 * i, "*1\r\n", 5);
    scene_attach();
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "SET", .count = 1, .reply = nested});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    scene_wait_for_accepted(0, 2);
    assert_whole_again();
}
END_TEST

/* A port that drops connection attempts while it is open, and refuses them after it is closed. The refusal comes with
 * the kernel's retry, a second later. */
struct deaf_port {
    int listener;
    int pending[8]; /* more than the listener's backlog holds */
    struct sockaddr_in address;
};

static void open_deaf_port(struct deaf_port *port)
{
    socklen_t size = sizeof port->address;
    port->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    port->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(port->listener, (struct sockaddr *)&port->address, size), 0);
    ck_assert_int_eq(listen(port->listener, 0), 0);
    ck_assert_int_eq(getsockname(port->listener, (struct sockaddr *)&port->address, &size), 0);
    for (unsigned i = 0; i < 8; i++) {
        port->pending[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(port->pending[i], (struct sockaddr *)&port->address, size);
    }
}

static void close_deaf_port(const struct deaf_port *port)
{
    close(port->listener);
    for (unsigned i = 0; i < 8; i++)
        close(port->pending[i]);
}

static bool is_refused(void *context)
{
    struct pollfd asked = {.fd = ((redisAsyncContext *)context)->c.fd, .events = POLLOUT};
    return poll(&asked, 1, 0) == 1 && (asked.revents & POLLERR);
}

/* The node's timeout passes before the loop looks at the connection. The search for late replies must not consume the
 * socket's error. */
START_TEST(refused_connection_is_reported_though_the_loop_is_late)
{
    struct deaf_port port;
    redlock_result result;
    char list[64];
    open_deaf_port(&port);
    snprintf(list, sizeof list, "redis://127.0.0.1:%u?timeout_ms=1", ntohs(port.address.sin_port));
    scene.options.connect_timeout_ms = SCENE_SOON_MS;
    ck_assert_status(redlock_attach(scene.loop, list, &scene.options, &scene.client, &result), REDLOCK_OK);
    struct rl_node *node = &scene.client->nodes->node[0];
    while (node->state != RL_NODE_CONNECTING)
        ev_run(scene.loop, EVRUN_NOWAIT);
    close_deaf_port(&port);
    ck_assert(wait_until(is_refused, node->link.context, SCENE_SOON_MS));
    node->flight.timer.fire(&node->flight.timer); /* before the loop has polled for events */
    while (node->attempts.failures == 0)
        scene_turn();
    ck_assert_str_eq(rl_node_error(node), "cannot connect: Connection refused");
}
END_TEST

/* hiredis allocates an array before its elements arrive, with as many elements as the header announces. */
START_TEST(an_array_said_to_be_huge_breaks_the_link_at_once)
{
    static const char *const huge[] = {"*2000000000\r\n", "*50000\r\n", "*2\r\n*2000000000\r\n"};
    scene_attach();
    fake_server_add_rule(scene.node[0], &(struct fake_rule){.command = "SET", .count = 1, .reply = huge[_i]});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 1); /* the client did not wait for the timeout */
    ck_assert_has(answer.result.node[0].text, "a reply of more than 1024 KiB");
    scene_wait_for_accepted(0, 2);
    assert_whole_again();
}
END_TEST

/* Each element is short, and so is hiredis' buffer. Only the whole reply is without an end. */
START_TEST(an_array_of_many_parts_breaks_the_link)
{
    enum { PARTS = 200, PART = 10000 };
    struct bytes reply = {0};
    char part[PART];
    memset(part, 'x', sizeof part);
    resp_write_array(&reply, PARTS);
    for (unsigned i = 0; i < PARTS - 1; i++)
        resp_write_bulk(&reply, part, sizeof part);
    scene_attach();
    fake_server_add_rule(
        scene.node[0],
        &(struct fake_rule){.command = "SET", .count = 1, .reply = reply.data, .reply_length = reply.length});
    ck_assert_status(scene_acquire(&answer, "stock", NULL), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.unreachable, 1);
    ck_assert_has(answer.result.node[0].text, "a reply of more than 1024 KiB");
    bytes_free(&reply);
    assert_whole_again();
}
END_TEST

/* --- SIGPIPE --- */

static unsigned caught;

static void catch (int signal)
{
    (void)signal;
    caught++;
}

/* A write to a unix socket whose peer has closed raises SIGPIPE at once, before the loop has read the end of the
 * stream. */
static void write_to_a_closed_link(void)
{
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    scene_acquire(&answer, "stock", REDLOCK_WAIT_MS(SCENE_SOON_MS));
    ck_assert_answer(&answer, REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
}

static void unix_node(void)
{
    scene_begin_on(1, FAKE_UNIX);
}

/* The other tests are only valid if such a write raises SIGPIPE. */
START_TEST(such_a_write_raises_sigpipe)
{
    struct raw_client *raw = raw_client_connect_unix(fake_server_path(scene.node[0]));
    ck_assert(fake_server_wait_for_open(scene.node[0], 1, SCENE_SOON_MS));
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    sigpipe_mask(SIG_BLOCK);
    ck_assert_int_eq(write(raw_client_descriptor(raw), "x", 1), -1);
    sigpipe_take();
    sigpipe_mask(SIG_UNBLOCK);
    raw_client_close(raw);
}
END_TEST

START_TEST(a_default_disposition_survives)
{
    struct sigaction action;
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        write_to_a_closed_link();
    ck_assert_int_eq(sigaction(SIGPIPE, NULL, &action), 0);
    ck_assert(action.sa_handler == SIG_DFL);
    ck_assert(!sigpipe_is_pending());
    ck_assert(!sigpipe_is_blocked());
}
END_TEST

START_TEST(a_handler_of_the_host_is_not_called)
{
    struct sigaction action = {.sa_handler = catch}, before;
    caught = 0;
    scene_attach();
    sigaction(SIGPIPE, &action, &before);
    write_to_a_closed_link();
    sigaction(SIGPIPE, &before, NULL);
    ck_assert_uint_eq(caught, 0);
}
END_TEST

START_TEST(a_host_that_blocks_it_gets_none)
{
    scene_attach();
    sigpipe_mask(SIG_BLOCK);
    write_to_a_closed_link();
    ck_assert(sigpipe_is_blocked());
    ck_assert(!sigpipe_is_pending());
    sigpipe_mask(SIG_UNBLOCK);
}
END_TEST

START_TEST(one_that_was_pending_is_still_pending_once)
{
    struct sigaction action = {.sa_handler = catch}, before;
    caught = 0;
    scene_attach();
    sigaction(SIGPIPE, &action, &before);
    sigpipe_mask(SIG_BLOCK);
    raise(SIGPIPE);
    write_to_a_closed_link();
    ck_assert(sigpipe_is_pending());
    ck_assert_uint_eq(caught, 0);
    sigpipe_mask(SIG_UNBLOCK);
    ck_assert_uint_eq(caught, 1);
    sigaction(SIGPIPE, &before, NULL);
}
END_TEST

static void add_breaking(Suite *suite)
{
    TCase *five = scene_case(suite, "breaking", five_nodes), *one = scene_case(suite, "one link", one_node);
    tcase_add_loop_test(five, a_link_that_breaks_at_a_request_is_made_anew_and_the_request_undone, 0, BREAKINGS);
    tcase_add_loop_test(five, a_minority_of_broken_links_is_no_matter, 0, BREAKINGS);
    tcase_add_test(five, a_lock_survives_its_links);
    tcase_add_test(five, a_node_that_closes_after_its_answer_has_voted);
    tcase_add_loop_test(one, the_old_link_is_killed_before_the_undo, 0, BREAKINGS);
    tcase_add_loop_test(one, every_link_that_owes_is_killed, 1, 11);
    tcase_add_loop_test(one, an_idle_link_that_breaks_owes_nothing, 0, 3);
    tcase_add_test(one, another_process_behind_the_address_is_not_told_to_kill);
    tcase_add_test(one, a_node_that_does_not_listen_says_so_in_the_result);
    tcase_add_test(one, too_many_clients_is_not_for_ever);
    tcase_add_loop_test(one, a_reply_without_an_end_is_not_kept, 0, 3);
    tcase_add_test(one, a_long_reply_is_only_a_wrong_one);
    tcase_add_test(one, a_reply_nested_too_deep_breaks_the_link);
    tcase_add_test(one, refused_connection_is_reported_though_the_loop_is_late);
    tcase_add_loop_test(one, an_array_said_to_be_huge_breaks_the_link_at_once, 0, 3);
    tcase_add_test(one, an_array_of_many_parts_breaks_the_link);
}

static void add_unasked(TCase *tcase)
{
    tcase_add_loop_test(tcase, on_an_idle_link, 0, UNASKED);
    tcase_add_loop_test(tcase, before_anything_was_asked, 0, UNASKED);
    tcase_add_loop_test(tcase, in_the_handshake, 0, UNASKED);
    tcase_add_loop_test(tcase, behind_the_last_word_of_the_handshake, 0, UNASKED);
    tcase_add_loop_test(tcase, behind_an_answer, 0, UNASKED);
    tcase_add_loop_test(tcase, between_answers, 0, UNASKED);
    tcase_add_loop_test(tcase, and_then_the_end, 0, UNASKED);
}

static void add_sigpipe(TCase *tcase)
{
    tcase_add_test(tcase, such_a_write_raises_sigpipe);
    tcase_add_test(tcase, a_default_disposition_survives);
    tcase_add_test(tcase, a_handler_of_the_host_is_not_called);
    tcase_add_test(tcase, a_host_that_blocks_it_gets_none);
    tcase_add_test(tcase, one_that_was_pending_is_still_pending_once);
}

int main(void)
{
    Suite *suite = suite_create("links");
    add_breaking(suite);
    add_unasked(scene_case(suite, "unasked", three_nodes));
    add_sigpipe(scene_case(suite, "sigpipe", unix_node));
    return run_suite(suite);
}
