/* A callback may call every function: release, acquire again, close. Closing: which operations it ends, and which
 * requests it confirms and counts. */
#include "fake/scene.h"

#include "src/client/client.h"
#include "src/core/timer.h"

static struct answer answer, closed;

static struct answer first, second;
static struct scene_events warned, joined; /* the handles' */

static void acquire_again(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *arg)
{
    scene_note_event(lock, event, loss, validity_ms, arg);
    ck_assert_ptr_eq(lock, first.lock);
    if (warned.count == 1)
        scene_start_acquire(
            &second, "stock",
            SCENE_WITH(.owner = &first, .notify_before_ms = 86400000, .event = scene_note_event, .event_arg = &joined));
}

SCENE_CASE(inside, scene_five_nodes);

/* The new handle gets no event before the callback of its acquire, nor the one that came before it. */
TEST(inside, lock_is_acquired_again_in_its_event)
{
    warned = joined = (struct scene_events){0};
    scene_cleared(&second);
    scene_attach();
    scene_start_acquire(
        &first, "stock",
        SCENE_WITH(.owner = &first, .notify_before_ms = 86400000, .event = acquire_again, .event_arg = &warned));
    ck_assert_status(scene_wait(&second), REDLOCK_OK);
    scene_turn();
    ck_assert_uint_eq(warned.count, 1);
    ck_assert_int_eq(warned.event[0], REDLOCK_EVENT_ENDING);
    ck_assert_uint_eq(joined.count, 0);
    ck_assert_status(redlock_release_async(&first.lock, NULL, NULL, NULL), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &second.lock), REDLOCK_OK);
}

/* The first one wanted no renewal and no warning. */
TEST(inside, handle_that_joins_gets_its_renewal_and_its_warning)
{
    joined = (struct scene_events){0};
    scene_attach();
    ck_assert_status(scene_acquire(&first, "stock", SCENE_WITH(.owner = &joined, .no_renewal = 1)), REDLOCK_OK);
    ck_assert_status(scene_acquire(&second, "stock",
                                   SCENE_WITH(.owner = &joined, .notify_before_ms = 86400000, .event = scene_note_event,
                                              .event_arg = &joined)),
                     REDLOCK_OK);
    scene_until(joined.count == 1 && scene_statistics().renewed == 1);
    ck_assert_int_eq(joined.event[0], REDLOCK_EVENT_ENDING);
    ck_assert_status(scene_release(&answer, &second.lock), REDLOCK_OK);
    ck_assert_status(scene_release(&answer, &first.lock), REDLOCK_OK);
}

static void close_and_run(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    redlock_client *same = client;
    scene_acquired(client, lock, result, arg);
    scene_start_close(&closed);
    /* no operation can start on a client that is closing */
    ck_assert_status(redlock_close_async(&same, NULL, scene_completed, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire_async(client, "more", NULL, scene_acquired, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_ready_async(client, 0, scene_completed, &closed), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(client, "more", 0, NULL, scene_queried, &closed), REDLOCK_INVALID);
    ck_assert(scene_is_logged("a call on a client that is being closed"));
    for (unsigned i = 0; i < 10; i++)
        ev_run(scene.loop, EVRUN_NOWAIT);
    ck_assert_uint_eq(closed.callbacks, 0);
}

TEST(inside, client_that_is_closed_in_a_callback_is_freed_when_that_has_returned)
{
    struct answer others[3];
    memset(&closed, 0, sizeof closed);
    scene_attach();
    scene_start_acquire_then(&answer, "stock", NULL, close_and_run);
    scene_add_rule(0, 5, &(struct fake_rule){.command = "SET", .first = 2, .reply_delay_ms = 20});
    for (unsigned i = 0; i < 3; i++)
        scene_start_acquire(&others[i], scene_name(i), REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    ck_assert_status(scene_wait(&closed), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(others[i].callbacks, 1);
        ck_assert_uint_lt(others[i].place, closed.place);
    }
}

SCENE_CASE(closing, scene_five_nodes);

/* A handshake, a query or a heartbeat leaves nothing on a node. The nodes' timeouts pass during the close. */
TEST_ROWS(closing, requests_that_leave_no_key_need_no_confirmation, 2)
{
    _i ? scene_attach() : scene_attach_only();
    scene_each(0, scene.nodes, fake_server_pause);
    scene_start_query(&answer, "stock");
    scene_turn();
    redlock_client *closing = scene.client;
    scene_start_close(&closed);
    for (unsigned i = 0; i < scene.nodes; i++) {
        struct rl_flight *flight = &closing->nodes->node[i].flight;
        flight->patience = (struct quorum_patience){.least = 1};
        rl_timer_set(&closing->core.timers, &flight->timer, rl_now());
    }
    ck_assert_status(scene_wait(&closed), REDLOCK_OK);
    ck_assert_answer(&answer, REDLOCK_CANCELLED);
    ck_assert_str_eq(redlock_result_text(&closed.result), "done: 5 granted");
}

/* --- A handle that is released in a close --- */

static void close_client(bool blocking)
{
    if (blocking)
        ck_assert_status(redlock_close(&scene.client, NULL, &closed.result), REDLOCK_OK);
    else
        ck_assert_status(scene_close(&closed), REDLOCK_OK);
    scene.connected = NULL;
}

static struct answer freed;

static void release_in_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *how)
{
    redlock_result result = {0};
    (void)validity_ms;
    if (event != REDLOCK_EVENT_LOST)
        return;
    ck_assert_int_eq(loss, REDLOCK_LOSS_CLOSED);
    if (*(const int *)how == 0) {
        scene_started(&freed, redlock_release_async(&lock, NULL, scene_completed, scene_cleared(&freed)));
    } else {
        ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_CANCELLED);
        ck_assert_has(redlock_result_text(&result), "which releases the lock");
        freed.callbacks++;
    }
    ck_assert_ptr_null(lock);
}

/* In the close of an attached client; of one with its own thread, by redlock_close_async() and by redlock_close(), which
 * both run the events of a lock acquired by redlock_acquire_async(); and on that thread, which runs the events of
 * one acquired by redlock_acquire(). In each the release is asynchronous or, where it may be, blocking. */
TEST_ROWS(closing, the_event_of_the_loss_frees_the_handle, 7)
{
    static int how;
    bool attached = _i == 6, on_loop = _i & 4 && !attached;
    const redlock_acquire_options *options = SCENE_WITH(.event = release_in_event, .event_arg = &how);
    redlock_lock *lock;
    how = attached ? 0 : _i & 1;
    memset(&freed, 0, sizeof freed);
    attached ? scene_attach() : scene_connect();
    if (on_loop)
        ck_assert_status(redlock_acquire(scene.client, "stock", options, &lock, &answer.result), REDLOCK_OK);
    else
        ck_assert_status(scene_acquire(&answer, "stock", options), REDLOCK_OK);
    close_client(_i & 2 && !attached);
    ck_assert_uint_eq(freed.callbacks, 1);
    if (!how)
        ck_assert_answer(&freed, REDLOCK_CANCELLED);
    scene_assert_key(0, 5, "stock", false);
}

/* --- Calls during a close --- */

static struct answer begun_in_close;
static int late_status;

static void acquire_another(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *arg)
{
    scene_acquired(client, lock, result, arg);
    late_status =
        redlock_acquire_async(client, "late", REDLOCK_WAIT_MS(SCENE_SOON_MS), scene_acquired, &begun_in_close);
}

/* In the close of an attached client; in redlock_close_async() and in redlock_close() of one with its own thread. It
 * would end after the last callback. */
TEST_ROWS(closing, an_acquire_in_a_callback_of_the_close_is_refused, 3)
{
    memset(&begun_in_close, 0, sizeof begun_in_close);
    late_status = REDLOCK_OK;
    _i == 0 ? scene_attach() : scene_connect();
    scene_hold_on(0, scene.nodes, "stock");
    scene_start_acquire_then(&answer, "stock", REDLOCK_WAIT_MS(REDLOCK_FOREVER), acquire_another);
    scene_wait_for_sent_to(0, scene.nodes, SENT_SET, 1);
    close_client(_i == 2);
    ck_assert_answer(&answer, REDLOCK_CANCELLED);
    ck_assert_status(late_status, REDLOCK_INVALID);
    ck_assert_uint_eq(begun_in_close.callbacks, 0);
    scene_let_go_on(0, scene.nodes, "stock");
}

/* --- What a service asks about its handles --- */

SCENE_CASE(services, scene_three_nodes);

static void check_handles(redlock_client *client, redlock_lock *got, const redlock_result *result, void *arg)
{
    redlock_lock *locks[4];
    size_t count;
    ck_assert_status(redlock_locks(client, locks, 4, &count), REDLOCK_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_ptr_ne(locks[0], locks[1]);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_eq(redlock_lock_client(locks[i]), client);
        ck_assert_ptr_eq(redlock_lock_user_data(locks[i]), locks[i] == got ? NULL : locks[i]);
    }
    scene_acquired(client, got, result, arg);
}

/* Attached, and by the descriptor. A handle is listed from its callback until its release, lost or not. The client and
 * each handle keep separate pointers. */
TEST_ROWS(services, a_client_lists_its_handles_and_each_knows_its_client, 2)
{
    redlock_lock *locks[4];
    size_t count = 9;
    (_i ? scene_connect : scene_attach)();
    ck_assert_status(redlock_locks(scene.client, NULL, 0, &count), REDLOCK_OK);
    ck_assert_uint_eq(count, 0);
    redlock_lock *earlier = scene_lock("first");
    redlock_client_set_user_data(scene.client, &scene);
    redlock_lock_set_user_data(earlier, earlier);
    ck_assert_status(scene_wait(scene_start_acquire_then(&answer, "second", NULL, check_handles)), REDLOCK_OK);
    ck_assert_ptr_eq(redlock_client_user_data(scene.client), &scene);
    ck_assert_status(redlock_locks(scene.client, locks, 1, &count), REDLOCK_INVALID);
    ck_assert_uint_eq(count, 2);
    ck_assert_status(scene_release(&answer, &answer.lock), REDLOCK_OK);
    ck_assert_status(redlock_locks(scene.client, locks, 1, &count), REDLOCK_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(locks[0], earlier);
    ck_assert_status(redlock_locks(scene.client, NULL, 1, &count), REDLOCK_INVALID);
    ck_assert_status(redlock_locks(scene.client, locks, 1, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_locks(NULL, locks, 1, &count), REDLOCK_INVALID);
    redlock_client_set_user_data(NULL, earlier);
    redlock_lock_set_user_data(NULL, earlier);
    ck_assert(!redlock_lock_client(NULL) && !redlock_client_user_data(NULL) && !redlock_lock_user_data(NULL));
}

SCENE_CASE(due, scene_one_node);

static void close_when_lost(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *noted)
{
    scene_note_event(lock, event, loss, validity_ms, noted);
    if (event == REDLOCK_EVENT_LOST && scene.client)
        scene_start_close(&closed);
}

/* The host has blocked the loop beyond the end of two locks, and the first loss closes the client. The timers' event would
 * report it one turn later. */
TEST(due, losses_are_reported_at_once_when_a_blocked_loop_goes_on)
{
    struct answer both[2];
    struct scene_events noted = {0};
    scene_attach();
    scene_start_acquires(both, 2, SCENE_WITH(.no_renewal = 1, .event = close_when_lost, .event_arg = &noted));
    for (unsigned i = 0; i < 2; i++)
        ck_assert_status(scene_wait(&both[i]), REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct rl_lease *lease = both[i].lock->lease;
        lease->rules.validity_end = rl_now() - 10 * QUORUM_MILLISECOND;
        rl_timer_set(&scene.client->core.timers, &lease->timer, lease->rules.validity_end);
    }
    ev_run(scene.loop, EVRUN_NOWAIT);
    ck_assert_uint_ge(noted.lost, 1);
    ck_assert_ptr_null(scene.client);
    ck_assert_status(scene_wait(&closed), REDLOCK_OK);
    ck_assert_uint_eq(noted.lost, 2);
}

/* The list of leases may be long. A loop that is late by less than 5 ms leaves them to the timers' event. */
TEST(due, due_leases_take_their_step_in_a_loop_that_is_late)
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
        is_earliest = timers->earliest == due;
        rl_leases_wake_due(locks);
    } while (!is_earliest || quorum_time_since(due, rl_now()) >= late);
    ck_assert_uint_eq(timer->due, due);
    ck_assert(!locks->admission_timer.set); /* no acquire waits in the client */
}

TEST_PROGRAM("callbacks")
