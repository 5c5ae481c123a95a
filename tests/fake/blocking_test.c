/* The blocking API against fake nodes: threads that are interrupted or cancelled, and threads as owners of locks. Also
 * runs under ThreadSanitizer. */
#include "fake/calls.h"

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

static void connected_nodes(void)
{
    three_nodes();
    scene_connect();
}

static void release(redlock_lock **released)
{
    if (*released)
        redlock_release(released, NULL, &result);
}

/* A thread that acquires "stock". */
struct visit {
    pthread_t thread;
    redlock_acquire_options options;
    bool releases;
    redlock_lock *lock;
    int status;
};

static void *acquire_stock(void *arg)
{
    struct visit *visit = arg;
    visit->status = redlock_acquire(scene.client, "stock", &visit->options, &visit->lock, NULL);
    ck_assert_int_eq(visit->lock != NULL, visit->status == REDLOCK_OK);
    if (visit->releases && visit->lock)
        ck_assert_status(redlock_release(&visit->lock, NULL, NULL), REDLOCK_OK);
    return NULL;
}

TEST_CASE_WITHIN(blocking, three_nodes, scene_end, 2 * SCENE_TIMEOUT_S);

/* --- Interruption --- */

static void assert_ends(struct visit *waiter, int status)
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

/* A signal whose handler does not call redlock_cancel() does not end a call. The client's own thread never receives
 * one. Cancellations by another thread: fake_deadline. */
TEST_ROWS(blocking, a_wait_is_ended_by_a_cancellation_and_not_by_a_signal, 2)
{
    struct visit waiter[2];
    struct sigaction action = {.sa_handler = on_signal}, before;
    scene_connect();
    options.cancellation = scene_cancellation();
    scene_hold_on(0, 2, "stock");
    options.wait_ms = REDLOCK_FOREVER;
    for (unsigned i = 0; i < 2; i++) {
        waiter[i] = (struct visit){.options = options, .releases = true};
        waiter[i].thread = scene_thread(acquire_stock, &waiter[i]);
    }
    scene_wait_for_sent(0, SENT_WAIT, 1);
    handler_cancels = _i;
    atomic_store(&interrupted, 0);
    sigaction(SIGUSR2, &action, &before);
    pthread_kill(waiter[0].thread, SIGUSR2);
    scene_until(atomic_load(&interrupted) > 0);
    if (!handler_cancels)
        scene_let_go_on(0, 2, "stock");
    for (unsigned i = 0; i < 2; i++)
        assert_ends(&waiter[i], handler_cancels ? REDLOCK_CANCELLED : REDLOCK_OK);
    sigaction(SIGUSR2, &before, NULL);
}

static void *close_from_here(void *status)
{
    *(int *)status = redlock_close(&scene.client, NULL, &close_result);
    return NULL;
}

/* The close ends another thread's acquire, and waits for the nodes that owe a reply to it. */
TEST(blocking, acquire_and_release_during_close_are_cancelled)
{
    struct visit waiter = {.options = options, .releases = true};
    int close_status = 1;
    scene.options.leave_locks = 1;
    scene.options.node_timeout_ms = 10 * SCENE_SOON_MS; /* the close does not end before this thread has released */
    scene.keys_may_stay = true;
    scene_connect();
    ck_assert_status(redlock_acquire(scene.client, "held by close", &options, &lock, &result), REDLOCK_OK);
    scene_add_rule(0, 3, &(struct fake_rule){.command = "SET", .argument = "stock", .hold = true});
    waiter.thread = scene_thread(acquire_stock, &waiter);
    scene_wait_for_sent_to(0, 3, SENT_SET, 2); /* a request that comes after the release below is held for good */
    pthread_t closing = scene_thread(close_from_here, &close_status);
    scene_until(redlock_lock_loss(lock) == REDLOCK_LOSS_CLOSED);
    ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_CANCELLED);
    ck_assert_ptr_null(lock);
    ck_assert_has(result.text, "leaves the lock to expire");
    scene_each(0, 3, fake_server_release);
    assert_ends(&waiter, REDLOCK_CANCELLED);
    scene_join(closing);
    ck_assert_msg(close_status == REDLOCK_OK, "%s", redlock_result_text(&close_result));
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
    call.lock = mine;
    ck_assert_uint_eq(calls_not_refused(BLOCKING, 0, "on the client's own thread"), 0);
    ck_assert_status(redlock_dispatch(scene.client), REDLOCK_INVALID);
    atomic_store(&event_came, true);
}

TEST(blocking, an_event_callback_may_ask_what_no_node_is_asked_for_and_not_wait)
{
    atomic_store(&event_came, false);
    call_begin();
    scene_connect();
    options.event = ask_in_event;
    options.notify_before_ms = 59000; /* of 60 s minus the drift */
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_OK);
    scene_until(atomic_load(&event_came));
    ck_assert_status(redlock_release(&lock, NULL, NULL), REDLOCK_OK); /* a close would report its loss */
}

/* --- A thread as the owner --- */

enum { THREADS_TRIED = 1000, CANCELS = 300, WORKERS = 4 };

SCENE_CASE(owner, connected_nodes);

/* The system gives the pthread_t of a thread that has ended to a later one. */
TEST(owner, new_thread_is_another_owner_than_dead_one_of_same_pthread_t)
{
    struct visit first = {.options = options}, later = first;
    unsigned same = 0;
    first.thread = scene_thread(acquire_stock, &first);
    assert_ends(&first, REDLOCK_OK);
    for (unsigned i = 0; i < THREADS_TRIED && !same; i++) {
        later.thread = scene_thread(acquire_stock, &later);
        assert_ends(&later, REDLOCK_HELD);
        same += pthread_equal(later.thread, first.thread) != 0;
    }
    ck_assert_uint_eq(same, 1);
    ck_assert_uint_eq(redlock_hold_count(first.lock), 1);
    release(&first.lock);
}

/* --- Options for re-entry --- */

static const char self[] = "the owner";

static const struct {
    uint32_t reentry;
    const void *owner;
    int status; /* of the second acquire by the same thread, with the same options */
    const char *words;
} reentries[] = {
    {REDLOCK_REENTRY_DEFAULT, NULL, REDLOCK_OK, "this owner already holds the lock: hold count 2; no request was sent"},
    {REDLOCK_REENTRY_DEFAULT, self, REDLOCK_OK, "hold count 2"},
    {REDLOCK_REENTRY_OWNER, self, REDLOCK_OK, "hold count 2"},
    {REDLOCK_REENTRY_NEVER, NULL, REDLOCK_HELD, "this client itself holds 'stock', for another owner"},
    {REDLOCK_REENTRY_OWNER, NULL, REDLOCK_INVALID, "owner is NULL; pass the address of the owner"},
    {REDLOCK_REENTRY_NEVER, self, REDLOCK_INVALID, "REDLOCK_REENTRY_NEVER and an owner exclude each other"},
    {3, NULL, REDLOCK_INVALID, "reentry is 3"},
};

TEST_ROWS(owner, reentry_option_selects_the_owner, ROWS(reentries))
{
    options.reentry = reentries[_i].reentry;
    options.any = reentries[_i].status == REDLOCK_HELD; /* of one */
    options.owner = reentries[_i].owner;
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result),
                     reentries[_i].status == REDLOCK_INVALID ? REDLOCK_INVALID : REDLOCK_OK);
    redlock_lock *first = lock, *second;
    options.ttl_ms = 20000; /* less than the lock has */
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &second, &result), reentries[_i].status);
    ck_assert_has(redlock_result_text(&result), reentries[_i].words);
    redlock_lock_set_user_data(first, &scene);
    ck_assert_ptr_null(redlock_lock_user_data(second)); /* each handle has its own */
    release(&second);
    if (reentries[_i].status == REDLOCK_OK)
        ck_assert_has(redlock_result_text(&result), "still held by its owner: hold count 1");
    release(&first);
}

/* --- pthread_cancel(3) --- */

static void release_at_exit(void *arg)
{
    release(arg);
}

/* Only a worker's cleanup handler releases its lock, so its handle must be set before a cancellation takes effect. */
static void *work_until_cancelled(void *arg)
{
    char name[24];
    redlock_lock *own = NULL;
    snprintf(name, sizeof name, "own-%u", *(unsigned *)arg);
    pthread_cleanup_push(release_at_exit, &own);
    for (;;) {
        redlock_acquire(scene.client, name, NULL, &own, NULL);
        pthread_testcancel();
        redlock_extend(own, 0, NULL, NULL);
        redlock_wait_lost(own, 0, NULL);
        redlock_release(&own, NULL, NULL);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

TEST(owner, cancelled_threads_leave_no_lock)
{
    pthread_t threads[WORKERS];
    unsigned numbers[WORKERS];
    for (unsigned cancel = 0; cancel < CANCELS / WORKERS; cancel++) {
        for (unsigned i = 0; i < WORKERS; i++) {
            numbers[i] = i;
            threads[i] = scene_thread(work_until_cancelled, &numbers[i]);
        }
        redlock_query(scene.client, "own-0", 0, NULL, NULL,
                      NULL); /* takes a round trip, during which the workers run */
        for (unsigned i = 0; i < WORKERS; i++)
            pthread_cancel(threads[i]);
        for (unsigned i = 0; i < WORKERS; i++)
            scene_join(threads[i]);
    }
    ck_assert_uint_eq(scene_statistics().locks_held, 0);
    ck_assert_uint_eq(scene_statistics().operations_pending, 0);
}

/* A cancelled thread completes its calls: the client is created and closed completely. */
static void *open_and_close(void *unused)
{
    redlock_client *client;
    (void)unused;
    pthread_cancel(pthread_self());
    if (redlock_connect(scene_list(), &scene.options, &client, NULL) == REDLOCK_OK)
        redlock_close(&client, NULL, NULL);
    pthread_testcancel();
    return NULL;
}

TEST(owner, pending_cancel_waits_for_the_end_of_a_call)
{
    ck_assert_ptr_eq(scene_join(scene_thread(open_and_close, NULL)), PTHREAD_CANCELED);
}

TEST_PROGRAM("blocking face")
