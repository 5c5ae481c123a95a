/* More acquires than the nodes' windows admit: they wait in the client, in order, and nothing else waits behind them.
 * Bounds: descriptors, requests in flight to one node, undos kept for one node. */
#include "fake/scene.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/client/client.h"
#include "src/core/timer.h"
#include "src/node/script.h"
#include "support/file.h"

enum { MANY = 40, PATIENCE_MS = 20000, TTL_MS = 120000, DRIFT_MS = TTL_MS / 100 + 2, IDLE_MS = 200 };

static struct answer answers[MANY], late;

static void three_nodes(void)
{
    scene_begin(3);
    scene.options.node_timeout_ms = PATIENCE_MS;
    scene.options.ttl_ms = TTL_MS;
}

/* The nodes' windows admit the first few requests. No round trip widens them, not even that of a request before. */
static void narrow_windows(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        struct rl_flight *flight = &scene.client->nodes->node[i].flight;
        flight->window.limit = 1000;
        flight->times = false;
        flight->timed = NULL;
    }
}

/* The nodes execute requests, but their replies stay away until scene_calm(). */
static void fill_windows(void)
{
    scene_hold_replies(0, 3, "SET");
    narrow_windows(0, 3);
    scene_start_acquires(answers, MANY, NULL);
    scene_wait_for_sent_to(0, 3, SENT_SET, 2);
}

static bool is_connecting(unsigned node)
{
    return scene.client->nodes->node[node].state == RL_NODE_CONNECTING;
}

/* The acquires start before the client has connected to any node. */
static void fill_windows_first(void)
{
    scene_hold_replies(0, 3, "SET");
    scene_attach_only();
    scene_start_acquires(answers, MANY, NULL);
    scene_until(is_connecting(0) && is_connecting(1) && is_connecting(2));
    narrow_windows(0, 3);
    scene_wait_for_sent_to(0, 3, SENT_SET, 2);
}

static void attach_and_fill_windows(void)
{
    scene_attach();
    fill_windows();
}

/* The other two nodes are the majority, and one of them has room. */
static void cut_off_one_and_fill_window(void)
{
    scene_attach();
    scene_cut_off(2, 3);
    scene_until(scene.client->nodes->node[2].attempts.failures > 0); /* it is not waited for */
    scene_hold_replies(0, 1, "SET");
    narrow_windows(0, 1);
    scene_start_acquires(answers, MANY, NULL);
    scene_wait_for_sent_to(0, 2, SENT_SET, 2);
}

static void expect(int status)
{
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_status(scene_wait(&answers[i]), status);
}

SCENE_CASE(three_nodes, three_nodes);

/* The windows become narrower than what is in flight: they hold nothing back yet. */
static void fill_windows_exactly(void)
{
    scene_hold_replies(0, 3, "SET");
    scene_start_acquires(answers, MANY, NULL);
    narrow_windows(0, 3);
}

static void (*const fillings[])(void) = {fill_windows, fill_windows_exactly};

/* Neither the acquires that wait, nor those that a window holds back, are in front of it. */
TEST_ROWS(three_nodes, held_lock_is_extended_though_the_windows_are_full, ROWS(fillings))
{
    scene_attach();
    redlock_lock *held = scene_lock("held");
    fillings[_i]();
    scene_start_extend(&late, held, 0);
    scene_wait_for_sent_to(0, 3, SENT_EXTEND, 1); /* its reply comes behind those that stay away */
    scene_calm(0, 3);
    expect(REDLOCK_OK);
    ck_assert_status(scene_wait(&late), REDLOCK_OK);
}

static const struct {
    void (*fill)(void);
    unsigned nodes; /* those that are up */
} fills[] = {{attach_and_fill_windows, 3}, {fill_windows_first, 3}, {cut_off_one_and_fill_window, 2}};

/* The acquire waited for this long before its first request, from which its validity counts. */
static void assert_no_validity_is_lost(const redlock_result *result)
{
    int64_t elapsed_ms = (int64_t)(result->elapsed_us / 1000);
    ck_assert_int_ge(elapsed_ms, IDLE_MS);
    ck_assert_int_ge(result->validity_ms, TTL_MS - DRIFT_MS - 2 - (elapsed_ms - IDLE_MS)); /* 2: both are cut */
}

/* Their validity counts from the first request. One that ends before its turn sends none. */
TEST_ROWS(three_nodes, waiting_acquires_start_in_order_and_lose_no_validity, ROWS(fills))
{
    fills[_i].fill();
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_lt(scene_count(i, SENT_SET), MANY);
    ck_assert_status(scene_wait(scene_start_acquire(&late, "late", REDLOCK_WAIT_MS(1))), REDLOCK_TIMED_OUT);
    ck_assert_uint_eq(late.result.unreachable, 3 - fills[_i].nodes);
    scene_idle(IDLE_MS);
    scene_calm(0, fills[_i].nodes); /* the other node would overtake: it holds nothing back */
    expect(REDLOCK_OK);
    for (unsigned i = 1; i < MANY; i++)
        ck_assert_uint_gt(answers[i].place, answers[i - 1].place);
    assert_no_validity_is_lost(&answers[MANY - 1].result);
    scene_wait_for_sent_to(0, fills[_i].nodes, SENT_ATTEMPT, MANY);
    for (unsigned i = 0; i < fills[_i].nodes; i++)
        ck_assert_uint_eq(scene_count(i, SENT_ATTEMPT), MANY);
}

/* A node that is connected before the others would use up the validity of a burst. */
TEST(three_nodes, acquires_start_when_a_majority_is_connected)
{
    scene_hold_replies(0, 2, "INFO");
    scene_attach_only();
    scene_until(rl_node_is_ready(&scene.client->nodes->node[2]));
    scene_start_acquire(answers, "first", NULL);
    ck_assert_status(scene_wait(scene_start_acquire(&late, "late", REDLOCK_WAIT_MS(1))), REDLOCK_TIMED_OUT);
    scene_idle(IDLE_MS);
    scene_calm(0, 2);
    ck_assert_status(scene_wait(answers), REDLOCK_OK);
    assert_no_validity_is_lost(&answers->result);
    scene_wait_for_sent(2, SENT_ATTEMPT, 1);
    ck_assert_uint_eq(scene_count(2, SENT_ATTEMPT), 1);
}

/* Nodes that hang send nothing that would let the next acquires start. */
TEST(three_nodes, acquires_do_not_wait_for_nodes_that_hang)
{
    scene.options.node_timeout_ms = 20;
    scene_attach();
    fill_windows();
    expect(REDLOCK_NO_QUORUM);
}

/* It was not sent to any node before the connections broke, so nothing but its own time ends it: the other times are longer
 * than scene_wait() waits. */
TEST(three_nodes, acquire_does_not_wait_for_nodes_that_do_not_come_back)
{
    scene.options.node_timeout_ms = 300;
    scene.options.connect_timeout_ms = 10 * SCENE_SOON_MS;
    scene.keys_may_stay = true; /* of the others */
    scene_attach();
    fill_windows();
    scene_start_acquire(&late, "late", NULL);
    scene_add_rule(0, 3, &(struct fake_rule){.silent = true}); /* no handshake of the next connections is complete */
    for (unsigned i = 0; i < 3; i++) {
        scene.client->nodes->node[i].attempts.ready_since -= QUORUM_SECOND; /* the next one follows at once */
        fake_server_drop(scene.node[i], FAKE_CLOSE);
    }
    scene_until(scene_ready_nodes() == 0);
    ck_assert_status(scene_wait(&late), REDLOCK_NO_QUORUM);
    scene_calm(0, 3);
    for (unsigned i = 0; i < 3; i++) /* the replies to these handshakes never come */
        fake_server_drop(scene.node[i], FAKE_CLOSE);
}

/* The undos time out, too, while the windows hold them back. Then an extension goes in front of them, and times out. */
TEST(three_nodes, request_times_out_once)
{
    scene_attach();
    redlock_lock *held = scene_lock("held");
    const struct rl_flight *flight = &scene.client->nodes->node[0].flight;
    scene_wait_for_replies(0, 3);
    unsigned long long before = flight->statistics->timeouts;
    fill_windows();
    scene_time_out(0, 3);
    ck_assert_status(scene_wait(&answers[0]), REDLOCK_NO_QUORUM);
    for (unsigned i = 0; i < 2; i++) {
        scene_start_extend(&late, held, 0);
        scene_time_out(0, 3);
        ck_assert_status(scene_wait(&late), REDLOCK_NO_QUORUM);
        ck_assert_uint_lt(rl_flight_in_flight(flight), flight->sent.count);
        ck_assert_uint_le(flight->statistics->timeouts - before, flight->sent.count);
    }
}

/* A node has its whole timeout from when it gets the request, however long the host keeps the loop busy before. */
TEST(three_nodes, busy_loop_does_not_shorten_a_nodes_timeout)
{
    scene_attach();
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .reply_delay_ms = 100});
    scene_start_acquire(&late, "late", NULL);
    for (unsigned i = 0; i < 3; i++) { /* as if it had been busy since the request was sent */
        struct rl_flight *flight = &scene.client->nodes->node[i].flight;
        ck_assert_ptr_nonnull(flight->sent.last);
        ck_assert_uint_gt(flight->timer.due, flight->sent.last->sent);
        flight->sent.last->sent -= (PATIENCE_MS + 100) * QUORUM_MILLISECOND;
        flight->heard -= (PATIENCE_MS + 100) * QUORUM_MILLISECOND;
        rl_timer_set(&flight->core->timers, &flight->timer, rl_now());
    }
    ck_assert_status(scene_wait(&late), REDLOCK_OK);
}

/* The loop writes it before the next flush, as soon as the socket takes it. A proof must not count as younger than it
 * is. */
TEST(three_nodes, a_request_that_waits_for_the_socket_keeps_its_time)
{
    scene_attach();
    struct rl_flight *flight = &scene.client->nodes->node[0].flight;
    ev_io_start(scene.loop, &flight->link->writable); /* as if the socket were full */
    scene_start_acquire(&late, "late", NULL);
    ck_assert_ptr_nonnull(flight->sent.last);
    quorum_time sent = flight->sent.last->sent;
    rl_flight_written(flight, sent + QUORUM_SECOND);
    ck_assert_uint_eq(flight->sent.last->sent, sent);
    flight->round_trip.measured = false;
    ck_assert_status(scene_wait(&late), REDLOCK_OK);
    scene_wait_for_replies(0, 1);
    ck_assert(flight->round_trip.measured);
    ck_assert_uint_le(flight->window.shortest, rl_now() - scene.client->nodes->node[0].attempts.connected_at);
}

/* Acquires that have ended before their turn leave the list. */
TEST(three_nodes, acquires_that_give_up_their_wait_take_no_memory)
{
    enum { MORE = 200 };
    size_t early = 0;
    scene.options.node_timeout_ms = scene.options.silence_limit_ms = 3600000; /* late nodes would cost texts */
    struct test_allocator *allocator = scene_count_memory();
    scene_attach();
    fill_windows();
    for (unsigned i = 0; i < MORE; i++) {
        ck_assert_status(scene_wait(scene_start_acquire(&late, "late", REDLOCK_WAIT_MS(1))), REDLOCK_TIMED_OUT);
        if (i == MORE / 4)
            early = test_allocator_live_bytes(allocator);
    }
    ck_assert_uint_le(test_allocator_live_bytes(allocator), early + early / 100);
    scene_calm(0, 3);
    expect(REDLOCK_OK);
}

/* --- Renewals overtake the requests that a window holds back: an acquire's, and the heal after the renewal before --- */

#define OURS "stock"

static struct rl_flight *flight_of_last(void)
{
    return &scene.client->nodes->node[2].flight;
}

/* The window of the last node admits a few requests, and as many more with each fake_server_release(). */
static void fill_window_of_last(void)
{
    narrow_windows(2, 3);
    scene_hold_replies(2, 3, "SET");
    scene_start_acquires(answers, MANY, NULL);
    expect(REDLOCK_OK);
    ck_assert_uint_gt(flight_of_last()->held_count, MANY / 2);
}

static bool has_argument(const struct resp_command *command, const char *argument)
{
    for (size_t i = 0; i < command->argc; i++)
        if (resp_argument_is(&command->argv[i], argument))
            return true;
    return false;
}

/* The number of commands about this lock that the last node has received. */
static unsigned received_by_last(redlock_lock *lock)
{
    const struct fake_record *record;
    unsigned count = 0;
    for (size_t i = 0; (record = fake_server_record(scene.node[2], NULL, i)); i++)
        count += has_argument(record->command, redlock_lock_token(lock));
    return count;
}

/* Returns when the majority has confirmed the renewal, and the last node has received it. */
static void renew(redlock_lock *lock)
{
    const struct quorum_lease_event now = {.type = QUORUM_LEASE_HASTEN, .now = rl_now()};
    unsigned long long renewed = scene_statistics().renewed;
    unsigned received = received_by_last(lock);
    rl_lease_step(lock->lease, &now);
    scene_until(scene_statistics().renewed > renewed && received_by_last(lock) > received);
}

static void release_and_find_no_key(redlock_lock *lock)
{
    scene_until(rl_flight_is_empty(flight_of_last()));
    ck_assert_status(scene_release(&late, &lock), REDLOCK_OK);
    scene_until(rl_flight_is_empty(flight_of_last()));
    scene_assert_key(2, 3, OURS, false);
}

/* The renewal finds no key, so the client heals the node. The acquire, which the renewal has overtaken, finds another
 * holder's key; the heal behind it does not. */
TEST(three_nodes, node_that_is_healed_behind_a_late_acquire_gets_the_release)
{
    scene_attach();
    fill_window_of_last();
    redlock_lock *lock = scene_lock(OURS);
    renew(lock);
    ck_assert_uint_eq(received_by_last(lock), 1);
    fake_server_clear_rules(scene.node[2]);
    scene_add_rule(2, 3,
                   &(struct fake_rule){.command = "SET", .argument = OURS, .skip = true, .reply = "$5\r\nother\r\n"});
    fake_server_release(scene.node[2]);
    scene_until(scene_statistics().healed == 1);
    scene_assert_key(2, 3, OURS, true);
    release_and_find_no_key(lock);
}

/* The first heal would find another holder's key, and a second one, after another renewal, would not. */
TEST(three_nodes, node_that_holds_a_heal_back_gets_no_other)
{
    scene_attach();
    redlock_lock *lock = scene_lock(OURS);
    scene_until(received_by_last(lock) == 1 && rl_flight_is_empty(flight_of_last()));
    fake_server_delete_key(scene.node[2], OURS);
    fill_window_of_last();
    renew(lock);
    fake_server_release(scene.node[2]);
    scene_until(lock->lease->renewal.healing);
    renew(lock);
    ck_assert_uint_eq(received_by_last(lock), 3);
    fake_server_clear_rules(scene.node[2]);
    unsigned refused = fake_server_add_rule(
        scene.node[2],
        &(struct fake_rule){
            .argument = rl_scripts[RL_SCRIPT_HEAL].sha1, .count = 1, .skip = true, .reply = "$1\r\n0\r\n"});
    fake_server_release(scene.node[2]);
    release_and_find_no_key(lock);
    ck_assert_uint_eq(fake_server_rule_used(scene.node[2], refused), 1);
}

/* --- Bounds --- */

SCENE_CASE(one_node, scene_one_node);

/* With any number of missing descriptors, the call returns a status with a text, and closes the descriptors that it has
 * opened. */
TEST_ROWS(one_node, without_descriptors_there_is_no_client, 2)
{
    enum { ENOUGH = 32 };
    struct rlimit limit, less;
    redlock_result result;
    const size_t open = file_open_descriptors();
    const int next = dup(STDIN_FILENO);
    close(next);
    int refused = 0, status = REDLOCK_SYSTEM;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t more = 0; more < ENOUGH && status != REDLOCK_OK; more++) {
        less = (struct rlimit){.rlim_cur = (rlim_t)next + more, .rlim_max = limit.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
        status = _i ? redlock_connect(scene_list(), &scene.options, &scene.client, &result)
                    : redlock_attach(scene.loop, scene_list(), &scene.options, &scene.client, &result);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (status == REDLOCK_OK)
            break;
        ck_assert_status(status, REDLOCK_SYSTEM);
        ck_assert_has(redlock_result_text(&result), "limit of open files");
        ck_assert_ptr_null(scene.client);
        ck_assert_uint_eq(file_open_descriptors(), open);
        refused++;
    }
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_int_ge(refused, 2);
    redlock_lock *lock = _i ? NULL : scene_lock("stock");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, limit.rlim_max}), 0);
    status = redlock_lost_descriptor(lock, &refused) == REDLOCK_SYSTEM ? errno : 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(status, _i ? 0 : EMFILE); /* nor for the loss of a lock */
}

TEST(one_node, node_with_too_many_requests_gets_no_more)
{
    enum { MORE = 24 };
    unsigned asked = 0, refused = 0;
    scene.options.pending_max = 16;
    scene_attach();
    fake_server_pause(scene.node[0]);
    scene_start_acquires(answers, MORE, NULL);
    scene_turn();
    for (unsigned i = 0; i < MORE; i++) {
        if (!answers[i].callbacks)
            continue;
        ck_assert_answer(&answers[i], REDLOCK_NO_QUORUM);
        ck_assert_str_eq(answers[i].result.node[0].text, "not sent: pending_max requests wait for the node");
        refused++;
    }
    ck_assert_uint_eq(refused, MORE - 16);
    fake_server_resume(scene.node[0]);
    for (unsigned i = 0; i < MORE; i++)
        asked += scene_wait(&answers[i]) == REDLOCK_OK;
    ck_assert_uint_eq(asked, 16);
    ck_assert_uint_eq(scene_count(0, SENT_SET), 16);
}

SCENE_CASE(bounds, scene_three_nodes);

/* The client drops the oldest undo, because its key expires first. */
TEST(bounds, more_undos_than_allowed_are_not_kept)
{
    enum { LOCKS = 40 };
    redlock_lock *locks[LOCKS];
    scene.options.undos_max = 16;
    scene.keys_may_stay = true;
    scene_attach();
    for (unsigned i = 0; i < LOCKS; i++)
        locks[i] = scene_lock(scene_name(i));
    scene_wait_for_sent_to(0, 3, SENT_SET, LOCKS);
    scene_cut_off(0, 1);
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_status(scene_release(&late, &locks[i]), REDLOCK_OK);
    fake_server_listen(scene.node[0]);
    scene_wait_for_sent(0, SENT_UNDO, 16);
    scene_wait_for_ready();
    for (unsigned i = 0; i < LOCKS; i++) {
        scene_assert_key(0, 1, scene_name(i), i < LOCKS - 16);
        scene_assert_key(1, 3, scene_name(i), false);
    }
    ck_assert_uint_eq(scene_statistics().undos_dropped, LOCKS - 16);
    ck_assert_status(scene_close(&late), REDLOCK_OK); /* it waits for none of them */
    ck_assert_uint_eq(late.result.pending_undos, 0);
}

TEST_PROGRAM("overload")
