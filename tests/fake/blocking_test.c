/* The blocking API against fake nodes: several threads, interruption, and misbehaving nodes. Also runs under
 * ThreadSanitizer. */
#include "fake/scene.h"

#include <signal.h>
#include <stdatomic.h>

static redlock_result result, close_result;
static redlock_lock *lock;
static redlock_acquire_options options;

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
}

static int acquire(const char *resource)
{
    return redlock_acquire(scene.client, resource, &options, &lock, &result);
}

TEST_CASE_WITHIN(blocking, three_nodes, scene_end, 2 * SCENE_TIMEOUT_S);

/* --- Interruption --- */

/* A thread that waits for the lock. */
struct waiter {
    pthread_t thread;
    int status;
};

static void *wait_for_lock(void *arg)
{
    struct waiter *waiter = arg;
    redlock_lock *mine;
    waiter->status = redlock_acquire(scene.client, "stock", &options, &mine, NULL);
    ck_assert_int_eq(mine != NULL, waiter->status == REDLOCK_OK);
    if (mine)
        ck_assert_status(redlock_release(&mine, NULL, NULL), REDLOCK_OK);
    return NULL;
}

/* Starts so many threads that wait for a lock which another client holds, and waits until one of them has enqueued
 * itself. */
static void start_waiters(struct waiter *waiter, unsigned count)
{
    scene_hold_on(0, 2, "stock");
    options.wait_ms = REDLOCK_FOREVER;
    for (unsigned i = 0; i < count; i++)
        waiter[i].thread = scene_thread(wait_for_lock, &waiter[i]);
    scene_wait_for_sent(0, SENT_WAIT, 1);
}

static void assert_ends(struct waiter *waiter, int status)
{
    scene_join(waiter->thread);
    ck_assert_status(waiter->status, status);
}

static bool handler_cancels;
static atomic_uint interrupted;

static void on_signal(int signal)
{
    (void)signal;
    if (handler_cancels)
        redlock_cancel(scene.cancellation);
    atomic_fetch_add(&interrupted, 1);
}

enum { BY_THREAD, IN_HANDLER, NOT_CANCELLED };

/* A signal whose handler does not call redlock_cancel() does not end a call. The client's own thread never receives
 * one. */
TEST_ROWS(blocking, a_wait_is_ended_by_a_cancellation_and_not_by_a_signal, NOT_CANCELLED + 1)
{
    struct waiter waiter[2];
    struct sigaction action = {.sa_handler = on_signal}, before;
    scene_connect();
    options.cancellation = scene_cancellation();
    start_waiters(waiter, 2);
    handler_cancels = _i == IN_HANDLER;
    atomic_store(&interrupted, 0);
    sigaction(SIGUSR2, &action, &before);
    if (_i == BY_THREAD)
        redlock_cancel(scene.cancellation);
    else
        pthread_kill(waiter[0].thread, SIGUSR2);
    scene_until(_i == BY_THREAD || atomic_load(&interrupted) > 0);
    if (_i == NOT_CANCELLED)
        scene_let_go_on(0, 2, "stock");
    for (unsigned i = 0; i < 2; i++)
        assert_ends(&waiter[i], _i == NOT_CANCELLED ? REDLOCK_OK : REDLOCK_CANCELLED);
    sigaction(SIGUSR2, &before, NULL);
}

TEST(blocking, reset_cancellation_serves_again)
{
    struct waiter waiter;
    scene_connect();
    options.cancellation = scene_cancellation();
    start_waiters(&waiter, 1);
    redlock_cancel(scene.cancellation);
    redlock_cancellation_reset(scene.cancellation); /* usually before the loop has seen it; the wait ends anyway */
    assert_ends(&waiter, REDLOCK_CANCELLED);
    options.wait_ms = 0;
    ck_assert_status(acquire("stock"), REDLOCK_HELD);
    options.wait_ms = 20;
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_status(acquire("stock"), REDLOCK_TIMED_OUT);
        ck_assert_ptr_null(lock);
        redlock_cancel(scene.cancellation);
        redlock_cancel(scene.cancellation);
        ck_assert_status(acquire("stock"), REDLOCK_CANCELLED);
        redlock_cancellation_reset(scene.cancellation);
        redlock_cancellation_reset(scene.cancellation);
    }
    redlock_cancellation_reset(NULL);
}

static void *close_from_here(void *status)
{
    *(int *)status = redlock_close(&scene.client, NULL, &close_result);
    return NULL;
}

/* The close ends another thread's acquire, and waits for the nodes that owe a reply to it. */
TEST_ROWS(blocking, acquire_and_release_during_close_are_cancelled, 2)
{
    static const char *const texts[] = {"releases the lock", "leaves the lock to expire"};
    struct waiter waiter;
    int close_status = 1;
    scene.options.leave_locks = (uint32_t)_i;
    scene.keys_may_stay = _i;
    scene_connect();
    ck_assert_status(acquire("held by close"), REDLOCK_OK);
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .argument = "stock", .hold = true});
    waiter.thread = scene_thread(wait_for_lock, &waiter);
    scene_wait_for_sent_to(0, 3, SENT_SET, 2); /* a request that comes after the release below is held for good */
    pthread_t closing = scene_thread(close_from_here, &close_status);
    scene_until(redlock_lock_loss(lock) == REDLOCK_LOSS_CLOSED);
    ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_CANCELLED);
    ck_assert_ptr_null(lock);
    ck_assert_has(result.text, texts[_i]);
    scene_each(0, 3, fake_server_release);
    assert_ends(&waiter, REDLOCK_CANCELLED);
    scene_join(closing);
    ck_assert_msg(close_status == REDLOCK_OK, "%s", redlock_result_text(&close_result));
}

/* --- Misbehaving nodes --- */

TEST(blocking, links_break_under_the_clients_own_thread)
{
    static const enum fake_ending endings[] = {FAKE_RESET, FAKE_CLOSE, FAKE_SHUTDOWN};
    options.wait_ms = SCENE_SOON_MS;
    scene_connect();
    for (unsigned round = 0; round < 30; round++) {
        for (unsigned i = 0; i < 3; i++)
            fake_server_drop(scene.node[i], endings[round % 3]);
        ck_assert_status(acquire("stock"), REDLOCK_OK);
        redlock_release(&lock, NULL, &result);
    }
}

/* --- Calls in a log or event callback --- */

static atomic_int inner_status;
static _Atomic(redlock_client *) known;

static void call_from_log(int level, const char *line, void *arg)
{
    redlock_lock *mine;
    redlock_client *client = atomic_load(&known);
    (void)level;
    (void)line;
    (void)arg;
    if (client)
        atomic_store(&inner_status, redlock_acquire(client, "stock", NULL, &mine, NULL));
}

TEST(blocking, a_call_on_the_clients_own_thread_is_refused)
{
    atomic_store(&known, NULL);
    atomic_store(&inner_status, 1);
    scene.options.log = call_from_log;
    scene_connect();
    atomic_store(&known, scene.client);
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    scene_wait_for_accepted(0, 2);
    ck_assert_status(redlock_ready(scene.client, REDLOCK_FOREVER, NULL), REDLOCK_OK);
    ck_assert_status(atomic_load(&inner_status), REDLOCK_INVALID);
}

static atomic_bool event_came;

static void ask_in_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    redlock_statistics statistics;
    redlock_node_status node;
    (void)event;
    (void)loss;
    (void)validity_ms;
    (void)arg;
    ck_assert_int_eq(redlock_held_by_me(scene.client, "stock", 0), 1);
    ck_assert_uint_eq(redlock_hold_count(mine), 1);
    ck_assert_status(redlock_statistics_get(scene.client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.locks_held, 1);
    ck_assert_status(redlock_node_status_get(scene.client, 0, &node), REDLOCK_OK);
    ck_assert_str_eq(node.state, "ready");
    atomic_store(&event_came, true);
}

TEST(blocking, an_event_callback_may_ask_what_no_node_is_asked_for)
{
    atomic_store(&event_came, false);
    scene_connect();
    options.event = ask_in_event;
    options.notify_before_ms = 59000; /* of 60 s minus the drift */
    ck_assert_status(acquire("stock"), REDLOCK_OK);
    scene_until(atomic_load(&event_came));
    ck_assert_status(redlock_release(&lock, NULL, NULL), REDLOCK_OK); /* a close would report its loss */
}

/* --- A thread that waits and is held up --- */

static struct {
    atomic_bool began, may_end, ended;
} handler;

/* Holds its thread up until the test has seen the other lock's fate, or for far too long. */
static void hold_up(int signal)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t end = test_deadline_ns(SCENE_SOON_MS);
    (void)signal;
    atomic_store(&handler.began, true);
    while (!atomic_load(&handler.may_end) && test_now_ns() < end)
        nanosleep(&pause, NULL);
    atomic_store(&handler.ended, true);
}

static void note_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)mine;
    (void)event;
    (void)loss;
    (void)validity_ms;
    atomic_store((atomic_bool *)arg, true);
}

/* One lone call behind the other; the last one waits, until it is cancelled. */
static void *wait_alone(void *unused)
{
    const redlock_acquire_options *waiting = SCENE_WITH(.wait_ms = REDLOCK_FOREVER, .cancellation = scene.cancellation);
    redlock_lock *mine;
    for (unsigned i = 0; i < 50; i++) {
        ck_assert_status(redlock_acquire(scene.client, "alone", NULL, &mine, NULL), REDLOCK_OK);
        ck_assert_status(redlock_release(&mine, NULL, NULL), REDLOCK_OK);
    }
    ck_assert_status(redlock_acquire(scene.client, "stock", waiting, &mine, NULL), REDLOCK_CANCELLED);
    return unused;
}

enum { IS_LOST, IS_RENEWED };

/* The thread's signal handler lasts as long as the test likes: it delays neither the loss of another lock nor its
 * renewal. */
TEST_ROWS(blocking, a_signal_handler_of_a_waiting_thread_delays_no_other_lock, IS_RENEWED + 1)
{
    struct sigaction action = {.sa_handler = hold_up}, before;
    memset(&handler, 0, sizeof handler);
    atomic_store(&event_came, false);
    scene_connect();
    scene_cancellation();
    scene_hold_on(0, 2, "stock");
    options.ttl_ms = _i == IS_LOST ? 2000 : 9000;
    options.no_renewal = _i == IS_LOST;
    options.event = note_event;
    options.event_arg = &event_came;
    ck_assert_status(acquire("other"), REDLOCK_OK);
    sigaction(SIGUSR2, &action, &before);
    pthread_t waiter = scene_thread(wait_alone, NULL);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    pthread_kill(waiter, SIGUSR2);
    scene_until(atomic_load(&handler.began));
    const unsigned long long renewed = scene_statistics().renewed;
    scene_until(_i == IS_LOST ? atomic_load(&event_came) : scene_statistics().renewed > renewed);
    ck_assert(!atomic_load(&handler.ended));
    ck_assert_int_eq(redlock_lock_loss(lock), _i == IS_LOST ? REDLOCK_LOSS_EXPIRED : REDLOCK_NOT_LOST);
    atomic_store(&handler.may_end, true);
    redlock_cancel(scene.cancellation);
    scene_join(waiter);
    sigaction(SIGUSR2, &before, NULL);
    ck_assert_status(redlock_release(&lock, NULL, NULL), _i == IS_LOST ? REDLOCK_LOST : REDLOCK_OK);
}

TEST_PROGRAM("blocking face")
