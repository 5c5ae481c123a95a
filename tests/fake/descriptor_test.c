/* Asynchronous functions on a client that owns its loop's thread, whose callbacks redlock_dispatch() runs. Also runs
 * under ThreadSanitizer. */
#include "fake/scene.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 100 };

static redlock_result result;
static redlock_lock *lock;
static redlock_acquire_options options;
static struct answer answer, other, closed, many[MANY];

static struct scene_events events;
static bool releases; /* the handler of events does */

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    memset(&events, 0, sizeof events);
    releases = false;
}

static void connected_nodes(void)
{
    three_nodes();
    scene_connect();
}

static void leaving_nodes(void)
{
    three_nodes();
    scene.options.leave_locks = 1;
    scene_connect();
}

static bool is_readable(int descriptor)
{
    struct pollfd completions = {.fd = descriptor, .events = POLLIN};
    return poll(&completions, 1, 0) == 1;
}

/* Waits until completions wait. */
static void wait_for_completions(void)
{
    ck_assert_int_ge(redlock_descriptor(scene.connected), 0);
    scene_until_or(is_readable(redlock_descriptor(scene.connected)), "the descriptor does not become readable");
}

static void assert_ends(struct answer *awaited, int status)
{
    scene_wait(awaited);
    ck_assert_answer(awaited, status);
}

/* The asynchronous close, or the blocking one: the loop runs both. */
static void close_client(bool asynchronously)
{
    if (asynchronously) {
        scene_start_close(&closed);
        assert_ends(&closed, REDLOCK_OK);
    } else
        ck_assert_status(redlock_close(&scene.client, NULL, &result), REDLOCK_OK);
    ck_assert_ptr_null(scene.client);
}

static void ask_many(redlock_callback first)
{
    for (unsigned i = 0; i < MANY; i++)
        scene_start_ready_then(&many[i], 0, i ? scene_completed : first);
    scene_until(scene_statistics().operations_pending == 0); /* those whose completion waits are not counted */
}

static unsigned completed_of_many(void)
{
    unsigned completed = 0;
    for (unsigned i = 0; i < MANY; i++)
        completed += many[i].callbacks;
    return completed;
}

SCENE_CASE(operations, connected_nodes);

/* Of an acquire, an adoption and a release by token. */
TEST(operations, arguments_are_copied)
{
    char resource[] = "stock", token[] = SCENE_OTHER, further[] = "a name that ends in :redlock:queue";
    redlock_name also[] = {{further, sizeof further - 1}, {further, 1}};
    struct answer several, released;
    scene_hold_on(0, 3, "adopted");
    scene_hold_on(0, 3, "released");
    scene_start_acquire(&answer, resource, &options);
    scene_start_adopt(&other, "adopted", NULL, token);
    scene_start_release_token(&released, "released", token);
    options.also = also;
    options.also_count = 2;
    scene_start_acquire(&several, "several", &options);
    memset(resource, 'x', sizeof resource);
    memset(token, 'x', sizeof token);
    memset(further, 'x', sizeof further);
    memset(also, 0, sizeof also);
    memset(&options, 0xFF, sizeof options);
    assert_ends(&answer, REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_resource(answer.lock, NULL), "stock");
    assert_ends(&other, REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_token(other.lock), SCENE_OTHER);
    assert_ends(&released, REDLOCK_OK);
    assert_ends(&several, REDLOCK_INVALID);
    ck_assert_has(several.result.text, ":redlock:queue");
}

/* The value of an eventfd is the number of writes to it. */
TEST(operations, one_write_announces_all_completions)
{
    uint64_t writes;
    ck_assert_int_ge(redlock_descriptor(scene.connected), 0);
    ck_assert(!is_readable(redlock_descriptor(scene.connected)));
    scene_start_acquires(many, MANY, &options);
    scene_until(scene_statistics().operations_pending == 0);
    ck_assert_uint_eq(completed_of_many(), 0);
    ck_assert_int_eq(read(redlock_descriptor(scene.connected), &writes, sizeof writes), sizeof writes);
    ck_assert_uint_eq(writes, 1);
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_OK);
    ck_assert_uint_eq(completed_of_many(), MANY);
    ck_assert(!is_readable(redlock_descriptor(scene.connected)));
}

static bool closes;

/* It may start an operation, and then call a function that blocks; it may not dispatch, and only close asynchronously. */
static void call_in_callback(redlock_client *called, const redlock_result *ended, void *arg)
{
    redlock_client *same = called;
    scene_start_query(&other, "stock");
    ck_assert_status(redlock_ready(called, 0, NULL), REDLOCK_OK);
    ck_assert_status(redlock_dispatch(called), REDLOCK_INVALID);
    ck_assert_status(redlock_close(&same, NULL, &result), REDLOCK_INVALID);
    ck_assert_has(result.text, "redlock_close_async()");
    ck_assert_ptr_eq(same, called);
    ck_assert_uint_eq(completed_of_many(), 0);
    scene_completed(called, ended, arg);
    if (!closes)
        return;
    scene_start_close(&closed);
    ck_assert_status(redlock_ready_async(called, 0, scene_completed, &answer), REDLOCK_INVALID);
}

TEST_ROWS(operations, a_callback_may_start_and_block_and_not_dispatch_or_close, 2)
{
    closes = _i;
    ask_many(call_in_callback);
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_OK);
    ck_assert_uint_eq(completed_of_many(), MANY);
    ck_assert_uint_eq(other.callbacks, 0);
    scene_until(closes || scene_is_logged("inside a callback"));
    assert_ends(closes ? &closed : &other, REDLOCK_OK);
    ck_assert_uint_eq(other.callbacks, 1); /* a close cancels the query, unless it has ended before */
}

/* --- Two threads --- */

static pthread_barrier_t barrier;

static void *dispatch_once(void *unused)
{
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_OK);
    return unused;
}

static void hold_dispatch(redlock_client *called, const redlock_result *ended, void *arg)
{
    scene_completed(called, ended, arg);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
}

/* One thread dispatches, and is inside a callback until the barrier; meanwhile a query has completed. A second thread
 * may not dispatch. A close waits until the first one has left, and runs what it has not. */
TEST_ROWS(operations, a_thread_that_dispatches_is_alone, 2)
{
    pthread_barrier_init(&barrier, NULL, 2);
    scene_start_ready_then(&answer, 0, hold_dispatch);
    wait_for_completions();
    pthread_t thread = scene_thread(dispatch_once, NULL);
    pthread_barrier_wait(&barrier);
    scene_start_query(&other, "stock");
    wait_for_completions();
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_INVALID);
    ck_assert_uint_eq(other.callbacks, 0);
    scene_until(scene_is_logged("another thread is dispatching"));
    pthread_barrier_wait(&barrier);
    if (_i)
        close_client(false);
    scene_join(thread);
    if (!_i)
        assert_ends(&other, REDLOCK_OK);
    ck_assert_uint_eq(other.callbacks, 1);
    ck_assert_answer(&other, REDLOCK_OK);
    pthread_barrier_destroy(&barrier);
}

static pthread_t called_on;
static bool starts_query;

static void end_thread(redlock_client *called, const redlock_result *ended, void *arg)
{
    ck_assert_ptr_eq(called, scene.connected);
    called_on = pthread_self();
    scene_completed(called, ended, arg);
    ck_assert(!starts_query || redlock_descriptor(called) >= 0); /* otherwise later */
    if (starts_query)
        scene_start_query(&other, "stock");
    pthread_exit(NULL);
}

/* The first callback ends its thread: the others, and the call that it may have started, are not lost. */
TEST_ROWS(operations, callbacks_run_on_the_thread_that_dispatches_and_may_end_it, 2)
{
    starts_query = _i;
    ask_many(end_thread);
    pthread_t thread = scene_thread(dispatch_once, NULL);
    scene_join(thread);
    ck_assert(pthread_equal(called_on, thread));
    ck_assert_uint_eq(completed_of_many(), 1);
    wait_for_completions();
    assert_ends(&many[MANY - 1], REDLOCK_OK);
    ck_assert_uint_eq(completed_of_many(), MANY);
    if (starts_query)
        assert_ends(&other, REDLOCK_OK);
}

/* --- Cancellation, close --- */

/* The first acquire waits for the lock; of the others some have not been started by the loop's thread when they are
 * cancelled. */
TEST(operations, cancel_ends_operations_that_were_started_before)
{
    scene_hold_on(0, 2, "stock");
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = scene_cancellation();
    scene_start_acquire(&answer, "stock", &options);
    scene_wait_for_sent(0, SENT_WAIT, 1);
    for (unsigned i = 0; i < MANY; i++)
        scene_start_acquire(&many[i], "stock", &options);
    redlock_cancel(scene.cancellation);
    redlock_cancellation_reset(scene.cancellation);
    for (unsigned i = 0; i < MANY; i++)
        assert_ends(&many[i], REDLOCK_CANCELLED);
    assert_ends(&answer, REDLOCK_CANCELLED);
}

static void note_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    ck_assert(!lock || mine == lock); /* NULL: the grant is being dispatched, too */
    scene_note_event(mine, event, loss, validity_ms, arg);
    if (releases)
        scene_start_release(&other, &lock);
}

SCENE_CASE(leaving, leaving_nodes);

/* Some are granted and wait to be dispatched, one waits for its lock. The handles that the caller never got have no
 * events, and their locks are released although locks are to be left: nobody has their tokens. */
TEST_ROWS(leaving, a_close_runs_the_callbacks_that_wait, 2)
{
    options.event = note_event;
    options.event_arg = &events;
    scene_hold_on(0, 2, "held");
    scene_start_acquires(many, MANY, &options);
    scene_until(scene_statistics().operations_pending == 0);
    options.wait_ms = REDLOCK_FOREVER;
    scene_start_acquire(&other, "held", &options);
    ck_assert_uint_eq(completed_of_many(), 0);
    close_client(_i);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_uint_eq(many[i].callbacks, 1);
        ck_assert_ptr_null(many[i].lock);
        ck_assert_answer(&many[i], REDLOCK_CANCELLED);
        ck_assert_int_eq(many[i].result.validity_ms, 0);
    }
    ck_assert_answer(&other, REDLOCK_CANCELLED);
    ck_assert(!_i || closed.place > other.place);
    ck_assert_uint_eq(events.count, 0);
}

/* Another process has the lock, and may hold it. */
TEST(leaving, an_adoption_that_a_close_cancels_deletes_nothing)
{
    scene_hold_on(0, 3, "stock");
    scene_start_adopt(&answer, "stock", NULL, SCENE_OTHER);
    wait_for_completions();
    close_client(false);
    ck_assert_answer(&answer, REDLOCK_CANCELLED);
    scene_assert_key(0, 3, "stock", true);
}

/* --- Events of locks --- */

enum { KEPT, RELEASED_IN_HANDLER, RELEASED_BEFORE };

/* A thread that gets no processor may dispatch the first event together with the grant: then it acquires a longer lock. */
static void acquire_without_an_event(bool warns)
{
    for (uint32_t ttl_ms = 1000; !lock || events.count > 0; ttl_ms *= 2) {
        if (lock)
            redlock_release(&lock, NULL, NULL);
        memset(&events, 0, sizeof events);
        options.ttl_ms = ttl_ms;
        options.notify_before_ms = warns ? ttl_ms * 9 / 10 : 0; /* a client that is late still warns first */
        scene_start_acquire(&answer, "stock", &options);
        assert_ends(&answer, REDLOCK_OK);
        lock = answer.lock;
    }
}

/* The lock is lost while no thread dispatches. Its holder does not know that; or a warning and the loss wait together,
 * and the handler releases the lock at the first; or a blocking release takes back the event that waits. */
TEST_ROWS(operations, a_loss_needs_no_dispatch_and_is_an_event_until_the_release, RELEASED_BEFORE + 1)
{
    int descriptor;
    struct rlimit limit;
    options.event = note_event;
    options.event_arg = &events;
    options.no_renewal = 1;
    acquire_without_an_event(_i == RELEASED_IN_HANDLER);
    releases = _i == RELEASED_IN_HANDLER;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    close(descriptor = dup(STDIN_FILENO)); /* the next one */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)descriptor, limit.rlim_max}), 0);
    ck_assert_status(redlock_lost_descriptor(lock, &descriptor), REDLOCK_SYSTEM);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_status(redlock_lost_descriptor(lock, &descriptor), REDLOCK_OK);
    scene_until(is_readable(descriptor));
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    ck_assert_int_eq(redlock_lock_loss(lock), REDLOCK_LOSS_EXPIRED);
    ck_assert_uint_eq(events.count, 0);
    wait_for_completions();
    if (_i == RELEASED_BEFORE)
        ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_LOST);
    ck_assert_status(redlock_dispatch(scene.connected), REDLOCK_OK);
    ck_assert_uint_eq(events.count, _i == RELEASED_BEFORE ? 0 : 1);
    ck_assert_uint_eq(events.lost, _i == KEPT ? 1 : 0);
    ck_assert_int_eq(events.loss[0], _i == KEPT ? REDLOCK_LOSS_EXPIRED : REDLOCK_NOT_LOST);
    if (_i == RELEASED_IN_HANDLER)
        assert_ends(&other, REDLOCK_LOST);
    ck_assert(!is_readable(redlock_descriptor(scene.connected)));
    if (_i == KEPT)
        ck_assert_status(redlock_release(&lock, NULL, &result), REDLOCK_LOST);
}

TEST_PROGRAM("descriptor")
