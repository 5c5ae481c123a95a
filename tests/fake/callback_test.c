/* A callback may call every function: release, acquire again, close. Closing: which operations it ends, and which
 * requests it confirms and counts. */
#include "fake/scene.h"

#include <string.h>
#include <time.h>

#include "src/client/client.h"
#include "src/core/clock.h"

static struct answer answer;

static void one_node(void)
{
    scene_begin(1);
}

static void five_nodes(void)
{
    scene_begin(5);
}

/* --- Inside callbacks --- */

enum { ROUNDS = 300 };

static struct chain {
    unsigned left;
    unsigned depth; /* number of callbacks on the stack */
    unsigned released;
    unsigned acquired;
    redlock_lock *lock;
} chain;

static void chain_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg);

static void chain_released(redlock_client *client, const redlock_result *result, void *arg)
{
    ck_assert_status(result->status, REDLOCK_OK);
    ck_assert_uint_eq(chain.depth++, 0);
    chain.released++;
    if (chain.left-- > 1)
        ck_assert_status(redlock_acquire_async(client, "stock", NULL, chain_acquired, arg), REDLOCK_OK);
    chain.depth--;
}

static void chain_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    (void)client;
    ck_assert_status(result->status, REDLOCK_OK);
    ck_assert_uint_eq(chain.depth++, 0);
    chain.acquired++;
    chain.lock = lock;
    ck_assert_status(redlock_release_async(&chain.lock, chain_released, arg), REDLOCK_OK);
    ck_assert_ptr_null(chain.lock);
    chain.depth--;
}

static bool chain_is_over(void *arg)
{
    (void)arg;
    return chain.left == 0;
}

START_TEST(release_and_acquire_in_callbacks)
{
    chain = (struct chain){.left = ROUNDS};
    scene.options.operations_max = 1; /* an operation whose callback runs has already ended */
    scene_attach();
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, chain_acquired, NULL), REDLOCK_OK);
    ck_assert(scene_run(chain_is_over, NULL));
    ck_assert_uint_eq(chain.acquired, ROUNDS);
    ck_assert_uint_eq(chain.released, ROUNDS);
}
END_TEST

/* --- Events --- */

static struct {
    redlock_lock *known[2]; /* handles that an acquire's callback has reported */
    unsigned count;
    unsigned ending[2]; /* number of ENDING events per handle */
} holder;

static void told_of_the_end(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg);

static void told_of_a_handle(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    (void)client;
    (void)arg;
    ck_assert_status(result->status, REDLOCK_OK);
    ck_assert_uint_lt(holder.count, 2);
    holder.known[holder.count++] = lock;
}

static void take_again(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.owner = &holder;
    options.notify_before_ms = 86400000;
    options.event = told_of_the_end;
    ck_assert_status(redlock_acquire_async(scene.client, "stock", &options, told_of_a_handle, NULL), REDLOCK_OK);
}

/* Acquires the lock again on the first ENDING event. The new handle gets no event before the callback of its
 * acquire. */
static void told_of_the_end(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)loss;
    (void)validity_ms;
    (void)arg;
    unsigned i = 0;
    while (i < holder.count && holder.known[i] != lock)
        i++;
    ck_assert_msg(i < holder.count, "an event of a handle that nobody has");
    if (event == REDLOCK_EVENT_ENDING && holder.ending[i]++ == 0 && i == 0)
        take_again();
}

static bool two_are_known(void *arg)
{
    (void)arg;
    return holder.count == 2;
}

START_TEST(taking_again_in_an_event)
{
    memset(&holder, 0, sizeof holder);
    scene_attach();
    take_again();
    ck_assert(scene_run(two_are_known, NULL));
    scene_turn();
    ck_assert_uint_eq(holder.ending[0], 1);
    ck_assert_uint_eq(holder.ending[1], 0); /* it was created after the ENDING event */
    ck_assert_status(redlock_release_async(&holder.known[0], NULL, NULL), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &holder.known[1]), REDLOCK_OK);
}
END_TEST

static void release_twice(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    scene_acquired(client, lock, result, arg);
    struct answer *given = arg;
    ck_assert_status(redlock_release_async(&given->lock, NULL, NULL), REDLOCK_OK);
    ck_assert_status(redlock_release_async(&given->lock, NULL, NULL), REDLOCK_INVALID);
}

START_TEST(releasing_twice_in_a_callback)
{
    scene_attach();
    memset(&answer, 0, sizeof answer);
    scene.started++;
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, release_twice, &answer), REDLOCK_OK);
    scene_wait(&answer);
}
END_TEST

static struct answer closed;

static void close_in_callback(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    scene_acquired(client, lock, result, arg);
    redlock_client *same = client;
    scene.started++;
    ck_assert_status(redlock_close_async(&same, scene_told, &closed), REDLOCK_OK);
    ck_assert_ptr_null(same);
    scene.client = NULL;
    /* no operation can start on a client that is closing */
    same = client;
    ck_assert_status(redlock_close_async(&same, scene_told, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire_async(client, "more", NULL, scene_acquired, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_ready_async(client, 0, scene_told, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(client, "more", 0, scene_queried, &closed), REDLOCK_INVALID);
}

START_TEST(closing_in_a_callback)
{
    struct answer others[3];
    memset(&answer, 0, sizeof answer);
    memset(&closed, 0, sizeof closed);
    scene_attach();
    scene.started++;
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, close_in_callback, &answer), REDLOCK_OK);
    scene_add_rule(0, 5, &(struct fake_rule){.command = "SET", .first = 2, .reply_delay_ms = 20});
    for (unsigned i = 0; i < 3; i++)
        scene_start_acquire(&others[i], i == 0 ? "a" : i == 1 ? "b" : "c", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    ck_assert_status(scene_wait(&closed), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(others[i].told, 1);
        ck_assert_uint_lt(others[i].place, closed.place);
    }
}
END_TEST

static redlock_cancellation *cancellation;

static void cancel_in_callback(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    scene_acquired(client, lock, result, arg);
    redlock_cancel(cancellation);
}

START_TEST(cancelling_in_a_callback)
{
    struct answer waiting;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    scene_attach();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = cancellation;
    scene_hold_on(0, 5, "held");
    scene_start_acquire(&waiting, "held", &options);
    memset(&answer, 0, sizeof answer);
    scene.started++;
    ck_assert_status(redlock_acquire_async(scene.client, "stock", NULL, cancel_in_callback, &answer), REDLOCK_OK);
    ck_assert_status(scene_wait(&waiting), REDLOCK_CANCELLED);
    redlock_cancellation_destroy(&cancellation);
}
END_TEST

/* --- Closing --- */

START_TEST(locks_still_held_are_released)
{
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        scene_lock(i == 0 ? "a" : i == 1 ? "b" : "c");
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    ck_assert_uint_eq(answer.result.pending_undos, 0);
    ck_assert_uint_eq(answer.result.nodes, 5);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(fake_server_keys_left(scene.node[i], NULL), 0); /* confirmed by now */
}
END_TEST

START_TEST(locks_can_be_left_to_expire)
{
    scene.options.leave_locks = 1;
    scene.keys_may_stay = true;
    scene_attach();
    scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert(scene_has_key(i, "stock"));
        ck_assert_uint_eq(scene_count(i, SENT_UNDO), 0);
    }
}
END_TEST

/* The close waits for the replies to a release, although the test does not wait for the release. */
START_TEST(releases_under_way_are_confirmed)
{
    scene_attach();
    redlock_lock *lock = scene_lock("stock");
    scene_add_rule(0, 5, &(struct fake_rule){.command = "EVALSHA", .reply_delay_ms = 30});
    struct answer released;
    scene_start_release(&released, &lock);
    scene_turn();
    ck_assert_status(scene_close(&answer), REDLOCK_OK);
    ck_assert_uint_eq(released.told, 1);
    ck_assert_uint_eq(answer.result.pending_undos, 0);
}
END_TEST

START_TEST(what_a_silent_node_owes_is_counted)
{
    for (unsigned i = 0; i < 2; i++)
        scene.suffix[i] = "?timeout_ms=50";
    scene_attach();
    scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    scene_each(0, 2, fake_server_pause);
    ck_assert_status(scene_close(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.pending_undos, 2);
    ck_assert_int_eq(answer.result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    ck_assert_has(answer.result.node[0].text, "not confirmed");
    ck_assert_int_eq(answer.result.node[4].outcome, REDLOCK_NODE_GRANTED);
    ck_assert_has(redlock_result_text(&answer.result), "closed, with 2 undos not confirmed");
    for (unsigned i = 0; i < 2; i++) /* the undo is in the socket buffer of the paused server */
        fake_server_resume(scene.node[i]);
}
END_TEST

/* A handshake, a query or a heartbeat leaves nothing on a node. */
START_TEST(requests_that_leave_nothing_need_no_confirmation)
{
    for (unsigned i = 0; i < scene.nodes; i++)
        scene.suffix[i] = "?timeout_ms=20";
    _i ? scene_attach() : scene_attach_only();
    scene_each(0, scene.nodes, fake_server_pause);
    scene_start_query(&answer, "stock");
    scene_turn();
    ck_assert_status(scene_close(&closed), REDLOCK_OK);
    ck_assert_answer(&answer, REDLOCK_CANCELLED);
    ck_assert_str_eq(redlock_result_text(&closed.result), "done: 5 granted");
}
END_TEST

START_TEST(nodes_that_are_away_are_not_waited_for)
{
    scene.keys_may_stay = true; /* the undo cannot reach these nodes */
    scene_attach();
    scene_lock("stock");
    scene_wait_for_sent_to(0, 5, SENT_SET, 1);
    for (unsigned i = 0; i < 2; i++) {
        fake_server_stop_listening(scene.node[i]);
        fake_server_drop(scene.node[i], FAKE_CLOSE);
    }
    while (scene_ready_nodes() != 3)
        scene_turn();
    ck_assert_status(scene_close(&answer), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(answer.result.pending_undos, 2);
    for (unsigned i = 2; i < 5; i++)
        ck_assert_uint_eq(fake_server_keys_left(scene.node[i], NULL), 0);
}
END_TEST

START_TEST(a_client_can_be_closed_before_the_loop_turns)
{
    scene_attach_only();
    if (_i)
        scene_start_acquire(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    ck_assert_status(scene_close(&closed), REDLOCK_OK);
    if (_i)
        ck_assert_answer(&answer, REDLOCK_CANCELLED);
}
END_TEST

START_TEST(a_close_needs_no_callback)
{
    scene_attach();
    scene_lock("stock");
    redlock_client *client = scene.client;
    ck_assert_status(redlock_close_async(&scene.client, NULL, NULL), REDLOCK_OK);
    ck_assert_ptr_null(scene.client);
    ck_assert_status(redlock_close_async(&scene.client, NULL, NULL), REDLOCK_INVALID);
    ck_assert_ptr_nonnull(client);
    ev_run(scene.loop, 0); /* returns, because a closed client does not keep the loop alive */
}
END_TEST

/* Each client has a pending operation when all of them are closed in one turn. */
START_TEST(many_clients_on_one_loop)
{
    enum { CLIENTS = 10 };
    redlock_client *clients[CLIENTS];
    static struct answer asked[CLIENTS], ends[CLIENTS];
    memset(asked, 0, sizeof asked);
    memset(ends, 0, sizeof ends);
    for (unsigned i = 0; i < CLIENTS; i++) {
        ck_assert_status(redlock_attach(scene.loop, scene_list(), &scene.options, &clients[i], NULL), REDLOCK_OK);
        scene.started += 2;
        ck_assert_status(
            redlock_acquire_async(clients[i], "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER), scene_acquired, &asked[i]),
            REDLOCK_OK);
    }
    unsigned keeper = CLIENTS;
    uint64_t deadline = test_deadline_ns(SCENE_SOON_MS);
    while (keeper == CLIENTS && test_now_ns() < deadline) {
        scene_turn();
        for (unsigned i = 0; i < CLIENTS; i++)
            keeper = asked[i].lock ? i : keeper;
    }
    ck_assert_uint_lt(keeper, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        ck_assert_status(redlock_close_async(&clients[i], scene_told, &ends[i]), REDLOCK_OK);
    for (unsigned i = 0; i < CLIENTS; i++) {
        ck_assert_status(scene_wait(&ends[i]), REDLOCK_OK);
        ck_assert_uint_eq(asked[i].told, 1);
    }
}
END_TEST

/* --- Operations in progress at a close --- */

#define TOKEN "0123456789abcdef0123456789abcdef01234567"

static redlock_lock *held;

static void begin_query(struct answer *told)
{
    scene_start_query(told, "stock");
}
static void begin_inspection(struct answer *told)
{
    scene_start_inspect(told, "stock");
}
static void begin_adoption(struct answer *told)
{
    scene_start_adopt(told, "stock", NULL, TOKEN);
}
static void begin_extension(struct answer *told)
{
    scene_start_extend(told, held, 0);
}
static void begin_release(struct answer *told)
{
    scene_start_release(told, &held);
}
static void begin_release_of_token(struct answer *told)
{
    scene_start_release_token(told, "stock", TOKEN);
}
static void begin_acquire(struct answer *told)
{
    scene_start_acquire(told, "other", NULL);
}
static void (*const beginnings[])(struct answer *told) = {begin_query,     begin_inspection, begin_adoption,
                                                          begin_extension, begin_release,    begin_release_of_token,
                                                          begin_acquire};
enum { BEGINNINGS = sizeof beginnings / sizeof *beginnings };

/* All nodes are silent at the close. When they resume, no key stays on them. */
START_TEST(a_close_ends_each_kind_of_operation)
{
    static struct answer closing;
    scene_attach();
    held = scene_lock("held");
    scene_each(0, scene.nodes, fake_server_pause);
    beginnings[_i](&answer);
    scene_turn();
    ck_assert_uint_eq(answer.told, 0);
    scene_start_close(&closing);
    scene_each(0, scene.nodes, fake_server_resume);
    ck_assert_status(scene_wait(&answer), REDLOCK_CANCELLED);
    ck_assert_ptr_null(answer.lock);
    ck_assert_status(scene_wait(&closing), REDLOCK_OK);
    ck_assert_uint_lt(answer.place, closing.place);
}
END_TEST

/* --- An operation whose end ends another --- */

static struct rl_operation *brought_about;
static unsigned cancelled;

static void end_another(struct rl_operation *operation)
{
    if (operation != brought_about)
        rl_operation_complete(brought_about, REDLOCK_MISCONFIGURED);
}

static void count_cancelled(struct rl_operation *operation, redlock_result *result)
{
    (void)operation;
    cancelled += result->status == REDLOCK_CANCELLED;
}

/* This happens if the first waiter leaves the local queue and the next one's attempt fails at once. */
START_TEST(a_close_cancels_all_operations_though_the_end_of_one_ends_the_next)
{
    static const struct rl_operation_type type = {
        .size = sizeof(struct rl_operation), .stop = end_another, .report = count_cancelled};
    struct rl_operation *operation[3]; /* the close cancels the newest first */
    int status;
    scene_attach();
    for (unsigned i = 0; i < 3; i++)
        operation[i] = rl_operation_create(scene.client, &type, 0, (union rl_callback){.plain = NULL}, NULL, &status);
    brought_about = operation[1];
    cancelled = 0;
    struct redlock_client *client = scene.client;
    ck_assert_status(redlock_close_async(&scene.client, NULL, NULL), REDLOCK_OK);
    ck_assert_ptr_null(client->operations.first);
    scene_turn();
    ck_assert_uint_eq(cancelled, 2);
}
END_TEST

/* --- A busy loop --- */

enum { SLICE_NS = 100000000 };

/* A host that blocks the loop in slices. The validity ends in the middle of a slice. */
static struct host {
    ev_check check; /* runs before the client's own watchers */
    ev_idle idle;
    int64_t end_ns;  /* end of validity; 0: the host does not block the loop */
    int64_t late_ns; /* delay of the loss notification; -1: no notification yet */
} host;

static int64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The host that does not let the loop run: sleeps until half a slice before the end of validity, plus or minus whole slices. */
static void be_busy(struct ev_loop *loop, ev_check *check, int events)
{
    int64_t left_ns = (host.end_ns - boottime_ns() + 1000ll * SLICE_NS + SLICE_NS / 2) % SLICE_NS;
    struct timespec pause = {0, (long)left_ns};
    (void)loop;
    (void)check;
    (void)events;
    if (host.end_ns)
        nanosleep(&pause, NULL);
}

static void do_nothing(struct ev_loop *loop, ev_idle *idle, int events)
{
    (void)loop;
    (void)idle;
    (void)events;
}

static void on_loss(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)lock;
    (void)loss;
    (void)validity_ms;
    (void)arg;
    if (event == REDLOCK_EVENT_LOST)
        host.late_ns = boottime_ns() - host.end_ns;
}

static bool is_lost(void *arg)
{
    (void)arg;
    return host.late_ns >= 0;
}

static int64_t lose_in_a_busy_loop(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = 500;
    options.no_renewal = 1;
    options.event = on_loss;
    host.late_ns = -1;
    ck_assert_status(scene_acquire(&answer, "stock", &options), REDLOCK_OK);
    host.end_ns = redlock_valid_until_ns(answer.lock);
    ck_assert(scene_run(is_lost, NULL));
    host.end_ns = 0;
    scene_release(&answer, &answer.lock);
    return host.late_ns;
}

/* A busy machine may delay some of the runs; a defect delays all of them. */
START_TEST(loss_is_reported_at_the_end_of_the_slice)
{
    int64_t least_ns = INT64_MAX;
    scene_attach();
    ev_check_init(&host.check, be_busy);
    ev_set_priority(&host.check, EV_MAXPRI);
    ev_check_start(scene.loop, &host.check);
    ev_idle_init(&host.idle, do_nothing);
    ev_idle_start(scene.loop, &host.idle);
    for (int run = 0; run < 5 && least_ns >= SLICE_NS; run++) {
        int64_t late_ns = lose_in_a_busy_loop();
        least_ns = late_ns < least_ns ? late_ns : least_ns;
    }
    ev_idle_stop(scene.loop, &host.idle);
    ev_check_stop(scene.loop, &host.check);
    ck_assert_int_lt(least_ns, SLICE_NS);
}
END_TEST

/* --- Leases that are due --- */

/* The list of leases may be long. A loop that is late by less than 5 ms leaves them to the timers' event. */
START_TEST(due_leases_take_their_step_in_a_loop_that_is_late)
{
    const quorum_duration late = 5 * QUORUM_MILLISECOND;
    bool is_earliest;
    scene_attach();
    struct rl_locks *locks = &scene.client->locks;
    struct rl_timers *timers = &scene.client->core.timers;
    struct rl_timer *timer = &scene_lock("stock")->lease->timer;
    quorum_time renewal = timer->due, due = rl_now() - late;
    rl_timer_set(timers, timer, due);
    rl_leases_wake_due(locks);
    ck_assert_uint_eq(timer->due, renewal); /* the step has set it anew */
    do {                                    /* until a try is fast enough, and no other timer is due */
        scene_turn();
        due = rl_now();
        rl_timer_set(timers, timer, due);
        is_earliest = timers->root == timer;
        rl_leases_wake_due(locks);
    } while (!is_earliest || quorum_time_since(due, rl_now()) >= late);
    ck_assert_uint_eq(timer->due, due);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks");
    TCase *inside = scene_case(suite, "inside", five_nodes), *closing = scene_case(suite, "closing", five_nodes);
    TCase *one = scene_case(suite, "one node", one_node);
    tcase_add_test(inside, release_and_acquire_in_callbacks);
    tcase_add_test(inside, taking_again_in_an_event);
    tcase_add_test(inside, releasing_twice_in_a_callback);
    tcase_add_test(inside, closing_in_a_callback);
    tcase_add_test(inside, cancelling_in_a_callback);
    tcase_add_test(closing, locks_still_held_are_released);
    tcase_add_test(closing, locks_can_be_left_to_expire);
    tcase_add_test(closing, releases_under_way_are_confirmed);
    tcase_add_test(closing, what_a_silent_node_owes_is_counted);
    tcase_add_loop_test(closing, requests_that_leave_nothing_need_no_confirmation, 0, 2);
    tcase_add_test(closing, nodes_that_are_away_are_not_waited_for);
    tcase_add_loop_test(closing, a_client_can_be_closed_before_the_loop_turns, 0, 2);
    tcase_add_test(closing, a_close_needs_no_callback);
    tcase_add_test(closing, a_close_cancels_all_operations_though_the_end_of_one_ends_the_next);
    tcase_add_loop_test(closing, a_close_ends_each_kind_of_operation, 0, BEGINNINGS);
    tcase_add_test(one, many_clients_on_one_loop);
    tcase_add_test(one, loss_is_reported_at_the_end_of_the_slice);
    TCase *due = scene_case(suite, "due", one_node);
    tcase_add_test(due, due_leases_take_their_step_in_a_loop_that_is_late);
    return run_suite(suite);
}
