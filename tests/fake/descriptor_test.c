/* Asynchronous functions on a client that owns its loop's thread, whose callbacks redlock_dispatch() runs. Also runs
 * under ThreadSanitizer. */
#include "fake/scene.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 100 };

static redlock_result result;
static redlock_lock *lock;
static redlock_client *client; /* a copy for redlock_dispatch(): redlock_close_async() sets scene.client to NULL */
static redlock_acquire_options options;
static struct answer answer, other, many[MANY];

static int inner_status; /* of a call inside a callback */

/* The thread of a callback. */
static struct {
    pthread_t thread;
    unsigned told;
    bool starting;
} seen;

/* The events of a lock. */
static struct {
    unsigned told, lost;
    int loss;
    int64_t validity_ms;
    bool releases;
} events;

/* --- The log --- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char errors[4096];

static void note_error(int level, const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&log_mutex);
    if (level == REDLOCK_LOG_ERROR)
        snprintf(errors + strlen(errors), sizeof errors - strlen(errors), "%s\n", line);
    pthread_mutex_unlock(&log_mutex);
}

static bool is_logged(void *text)
{
    pthread_mutex_lock(&log_mutex);
    bool is_there = strstr(errors, text) != NULL;
    pthread_mutex_unlock(&log_mutex);
    return is_there;
}

static void assert_logged(const char *text)
{
    char copy[128];
    snprintf(copy, sizeof copy, "%s", text);
    ck_assert_msg(wait_until(is_logged, copy, SCENE_SOON_MS), "'%s' is not in the log: %s", text, errors);
}

/* --- The scene --- */

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    errors[0] = '\0';
    memset(&answer, 0, sizeof answer);
    memset(&other, 0, sizeof other);
    memset(many, 0, sizeof many);
    memset(&events, 0, sizeof events);
    memset(&seen, 0, sizeof seen);
    inner_status = 1;
    scene.options.log = note_error;
}

static void connect_client(void)
{
    scene_connect();
    client = scene.client;
}

static void close_client(void)
{
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_OK);
    ck_assert_ptr_null(scene.client);
}

static bool is_readable(void *descriptor)
{
    struct pollfd completions = {.fd = *(int *)descriptor, .events = POLLIN};
    return poll(&completions, 1, 0) == 1;
}

/* Waits until completions wait. */
static void wait_for_completions(void)
{
    int descriptor = redlock_descriptor(client);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_msg(wait_until(is_readable, &descriptor, SCENE_SOON_MS), "the descriptor does not become readable");
}

static void assert_not_readable(void)
{
    int descriptor = redlock_descriptor(client);
    ck_assert_msg(!is_readable(&descriptor), "the descriptor is readable");
}

static int wait_for(struct answer *awaited)
{
    while (!awaited->told) {
        wait_for_completions();
        ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    }
    return awaited->result.status;
}

static void acquire(const char *resource)
{
    scene_start_acquire(&answer, resource, &options);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    lock = answer.lock;
}

static void release(void)
{
    scene_start_release(&answer, &lock);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
}

/* The number of operations in progress on the nodes: those whose completion waits are not counted. */
static bool nothing_is_pending(void *unused)
{
    redlock_statistics statistics;
    (void)unused;
    redlock_statistics_get(client, &statistics);
    return statistics.operations_pending == 0;
}

static void start_many(void)
{
    static char names[MANY][16];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "stock %u", i);
        scene_start_acquire(&many[i], names[i], NULL);
    }
}

static void release_many(void)
{
    for (unsigned i = 0; i < MANY; i++)
        if (many[i].lock)
            scene_start_release(&many[i], &many[i].lock);
    for (unsigned i = 0; i < MANY; i++)
        wait_for(&many[i]);
}

static unsigned told_of_many(void)
{
    unsigned told = 0;
    for (unsigned i = 0; i < MANY; i++)
        told += many[i].told;
    return told;
}

/* --- Every operation --- */

START_TEST(every_operation_completes)
{
    char token[REDLOCK_TOKEN_SIZE];
    connect_client();
    ck_assert_status(redlock_ready_async(client, 0, scene_told, &answer), REDLOCK_OK);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    answer.told = 0;
    ck_assert_status(redlock_trust_async(client, scene_told, &answer), REDLOCK_OK);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "guard is off");
    scene.started += 2;
    acquire("stock");
    ck_assert_int_gt(redlock_validity_ms(lock), 20000);
    scene_start_extend(&answer, lock, 120000);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    scene_start_query(&answer, "stock");
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    ck_assert_int_eq(answer.state.held_by_me, 1);
    ck_assert_str_eq(answer.state.token, redlock_lock_token(lock));
    ck_assert_str_eq(answer.result.node[0].name, fake_server_address(scene.node[0]));
    snprintf(token, sizeof token, "%s", redlock_lock_token(lock));
    scene_start_adopt(&answer, "stock", NULL, token);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, "this client holds that lock");
    scene_start_release_token(&answer, "stock", token);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    release();
    scene_start_close(&answer);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
}
END_TEST

/* A second client adopts and releases by token. */
START_TEST(a_token_serves_another_client)
{
    redlock_lock *mine;
    redlock_client *first;
    connect_client();
    first = client;
    ck_assert_status(redlock_acquire(first, "stock", NULL, &mine, &result), REDLOCK_OK);
    connect_client();
    scene_start_adopt(&answer, "stock", NULL, redlock_lock_token(mine));
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_token(answer.lock), redlock_lock_token(mine));
    lock = answer.lock;
    release();
    scene_start_release_token(&answer, "stock", redlock_lock_token(mine));
    ck_assert_status(wait_for(&answer), REDLOCK_LOST);
    close_client();
    ck_assert_status(redlock_close(&first, NULL), REDLOCK_OK);
}
END_TEST

START_TEST(arguments_are_copied)
{
    char resource[] = "stock", token[] = "no-such-token";
    connect_client();
    scene_start_acquire(&answer, resource, &options);
    scene_start_release_token(&other, resource, token);
    memset(resource, 'x', sizeof resource);
    memset(token, 'x', sizeof token);
    memset(&options, 0xFF, sizeof options);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    ck_assert_str_eq(redlock_lock_resource(answer.lock, NULL), "stock");
    ck_assert_status(wait_for(&other), REDLOCK_LOST);
    lock = answer.lock;
    release();
    close_client();
}
END_TEST

START_TEST(further_resources_are_copied)
{
    char name[] = "a name that ends in :redlock:queue";
    redlock_name also = {name, sizeof name - 1};
    connect_client();
    options.also = &also;
    options.also_count = 1;
    scene_start_acquire(&answer, "stock", &options);
    memset(name, 'x', sizeof name);
    memset(&also, 0, sizeof also);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    ck_assert_has(answer.result.text, ":redlock:queue");
    close_client();
}
END_TEST

static void acquire_refused(const char *resource, const char *text)
{
    scene_start_acquire(&answer, resource, &options);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    ck_assert_ptr_null(answer.lock);
    ck_assert_has(answer.result.text, text);
}

START_TEST(a_bad_argument_is_the_callbacks_status)
{
    char longer[REDLOCK_RESOURCE_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    connect_client();
    acquire_refused(NULL, "NULL");
    acquire_refused("", "empty");
    acquire_refused(longer, "longer than 512");
    options.resource_size = 1u << 30;
    acquire_refused("short", "longer than 512");
    options.resource_size = 0;
    options.also_count = 1u << 30;
    acquire_refused("stock", "also_count");
    options.also_count = 1;
    acquire_refused("stock", "also is NULL");
    options.also_count = 0;
    options.struct_size = 1u << 30;
    acquire_refused("stock", "struct_size");
    scene_start_adopt(&answer, "stock", NULL, NULL);
    ck_assert_status(wait_for(&answer), REDLOCK_INVALID);
    close_client();
}
END_TEST

/* --- Which thread, and when --- */

static void note_thread(redlock_client *called, const redlock_result *told, void *arg)
{
    ck_assert_ptr_eq(called, client);
    ck_assert(!seen.starting);
    seen.thread = pthread_self();
    seen.told++;
    scene_told(called, told, arg);
}

static void *dispatch_once(void *status)
{
    *(int *)status = redlock_dispatch(client);
    return NULL;
}

static void start_ready_noting(struct answer *told)
{
    memset(told, 0, sizeof *told);
    seen.starting = true;
    ck_assert_status(redlock_ready_async(client, 0, note_thread, told), REDLOCK_OK);
    seen.starting = false;
    scene.started++;
}

/* The second thread dispatches after the first one has ended. */
START_TEST(callbacks_run_on_the_thread_that_dispatches)
{
    pthread_t thread;
    int status = 1;
    connect_client();
    start_ready_noting(&answer);
    wait_for_completions();
    ck_assert_int_eq(pthread_create(&thread, NULL, dispatch_once, &status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_uint_eq(seen.told, 1);
    ck_assert(pthread_equal(seen.thread, thread));
    start_ready_noting(&other);
    wait_for(&other);
    ck_assert(pthread_equal(seen.thread, pthread_self()));
    close_client();
}
END_TEST

/* The value of an eventfd is the number of writes to it. */
START_TEST(one_write_announces_all_completions)
{
    uint64_t writes;
    connect_client();
    ck_assert_int_ge(redlock_descriptor(client), 0);
    assert_not_readable();
    start_many();
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    ck_assert_uint_eq(told_of_many(), 0);
    ck_assert_int_eq(read(redlock_descriptor(client), &writes, sizeof writes), sizeof writes);
    ck_assert_uint_eq(writes, 1);
    ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    ck_assert_uint_eq(told_of_many(), MANY);
    assert_not_readable();
    release_many();
    close_client();
}
END_TEST

/* A caller may dispatch by a timer, without the descriptor, and request it later. */
START_TEST(the_descriptor_is_readable_for_what_waits_already)
{
    connect_client();
    scene_start_acquire(&answer, "stock", NULL);
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    wait_for_completions();
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    lock = answer.lock;
    scene_start_release(&answer, &lock);
    while (!answer.told)
        ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    close_client();
}
END_TEST

/* --- Calls in callbacks --- */

static void release_in_callback(redlock_client *called, redlock_lock *mine, const redlock_result *told, void *arg)
{
    scene_acquired(called, mine, told, arg);
    scene_start_release(&other, &mine);
    inner_status = redlock_ready(called, 0, NULL); /* a blocking call may follow an asynchronous one */
}

START_TEST(a_callback_may_start_and_block)
{
    connect_client();
    inner_status = 1;
    ck_assert_status(redlock_acquire_async(client, "stock", NULL, release_in_callback, &answer), REDLOCK_OK);
    scene.started++;
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    ck_assert_status(inner_status, REDLOCK_OK);
    ck_assert_uint_eq(other.told, 0);
    ck_assert_status(wait_for(&other), REDLOCK_OK);
    close_client();
}
END_TEST

static void dispatch_in_callback(redlock_client *called, const redlock_result *told, void *arg)
{
    inner_status = redlock_dispatch(called);
    scene_told(called, told, arg);
}

START_TEST(a_dispatch_inside_a_callback_is_refused)
{
    connect_client();
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_status(redlock_ready_async(client, 0, i ? scene_told : dispatch_in_callback, &many[i]), REDLOCK_OK);
    scene.started += MANY;
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    ck_assert_status(inner_status, REDLOCK_INVALID);
    assert_logged("inside a callback");
    ck_assert_uint_eq(told_of_many(), MANY);
    close_client();
}
END_TEST

static void close_in_callback(redlock_client *called, const redlock_result *told, void *arg)
{
    redlock_client *same = called;
    scene_told(called, told, arg);
    inner_status = redlock_close(&same, &result);
    ck_assert_ptr_eq(same, called);
}

START_TEST(a_close_inside_a_callback_is_refused)
{
    connect_client();
    ck_assert_status(redlock_ready_async(client, 0, close_in_callback, &answer), REDLOCK_OK);
    scene.started++;
    wait_for(&answer);
    ck_assert_status(inner_status, REDLOCK_INVALID);
    ck_assert_has(result.text, "redlock_close_async()");
    close_client();
}
END_TEST

static void close_async_in_callback(redlock_client *called, const redlock_result *told, void *arg)
{
    scene_told(called, told, arg);
    scene_start_close(&other);
    ck_assert_status(redlock_ready_async(called, 0, scene_told, &answer), REDLOCK_INVALID);
}

START_TEST(a_callback_may_close_asynchronously)
{
    connect_client();
    ck_assert_status(redlock_ready_async(client, 0, close_async_in_callback, &answer), REDLOCK_OK);
    scene.started++;
    ck_assert_status(wait_for(&other), REDLOCK_OK);
    ck_assert_uint_eq(answer.told, 1);
}
END_TEST

/* --- Two threads --- */

static pthread_barrier_t barrier;

static void hold_dispatch(redlock_client *called, const redlock_result *told, void *arg)
{
    scene_told(called, told, arg);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
}

/* Returns the thread that dispatches, and is inside a callback until the barrier; a query has completed meanwhile. */
static pthread_t start_dispatch(int *status)
{
    pthread_t thread;
    connect_client();
    pthread_barrier_init(&barrier, NULL, 2);
    ck_assert_status(redlock_ready_async(client, 0, hold_dispatch, &answer), REDLOCK_OK);
    scene.started++;
    wait_for_completions();
    ck_assert_int_eq(pthread_create(&thread, NULL, dispatch_once, status), 0);
    pthread_barrier_wait(&barrier);
    scene_start_query(&other, "stock");
    wait_for_completions();
    return thread;
}

START_TEST(a_second_thread_that_dispatches_is_refused)
{
    int status = 1;
    pthread_t thread = start_dispatch(&status);
    ck_assert_status(redlock_dispatch(client), REDLOCK_INVALID);
    ck_assert_uint_eq(other.told, 0);
    assert_logged("another thread is dispatching");
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_status(status, REDLOCK_OK);
    ck_assert_status(wait_for(&other), REDLOCK_OK);
    pthread_barrier_destroy(&barrier);
    close_client();
}
END_TEST

/* The close waits until the dispatching thread has left, and runs what it has not. */
START_TEST(a_close_waits_for_the_thread_that_dispatches)
{
    int status = 1;
    pthread_t thread = start_dispatch(&status);
    pthread_barrier_wait(&barrier);
    close_client();
    ck_assert_uint_eq(other.told, 1);
    ck_assert_status(other.result.status, REDLOCK_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_status(status, REDLOCK_OK);
    pthread_barrier_destroy(&barrier);
}
END_TEST

static bool starts_query;

static void end_thread(redlock_client *called, const redlock_result *told, void *arg)
{
    scene_told(called, told, arg);
    if (starts_query)
        scene_start_query(&other, "stock");
    pthread_exit(NULL);
}

/* The first callback ends its thread: the others, and the call that it may have started, are not lost. */
START_TEST(a_callback_may_end_its_thread)
{
    pthread_t thread;
    int status = 1;
    starts_query = _i;
    connect_client();
    ck_assert_int_ge(redlock_descriptor(client), 0);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_status(redlock_ready_async(client, 0, i ? scene_told : end_thread, &many[i]), REDLOCK_OK);
    scene.started += MANY;
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    ck_assert_int_eq(pthread_create(&thread, NULL, dispatch_once, &status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(told_of_many(), 1);
    wait_for_completions();
    wait_for(&many[MANY - 1]);
    ck_assert_uint_eq(told_of_many(), MANY);
    if (starts_query)
        ck_assert_status(wait_for(&other), REDLOCK_OK);
    close_client();
}
END_TEST

static atomic_uint told_in_threads;

static void count_told(redlock_client *called, const redlock_result *told, void *arg)
{
    (void)called;
    (void)told;
    atomic_fetch_add(&told_in_threads, 1);
    ck_assert_uint_eq(atomic_fetch_add((atomic_uint *)arg, 1), 0);
}

static atomic_uint each[4][MANY];

static void *start_ready_many(void *arg)
{
    atomic_uint *own = arg;
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_status(redlock_ready_async(client, 0, count_told, &own[i]), REDLOCK_OK);
    return NULL;
}

START_TEST(any_thread_may_start_an_operation)
{
    pthread_t threads[4];
    connect_client();
    atomic_store(&told_in_threads, 0);
    memset(each, 0, sizeof each);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, start_ready_many, each[i]), 0);
    while (atomic_load(&told_in_threads) < 4 * MANY) {
        wait_for_completions();
        ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    }
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    close_client();
}
END_TEST

/* --- Cancellation, close --- */

/* The first acquire waits for the lock; the second has not been started by the loop's thread when it is cancelled. */
START_TEST(cancel_ends_what_was_started_before)
{
    redlock_cancellation *cancellation;
    connect_client();
    ck_assert_status(redlock_cancellation_create(client, &cancellation), REDLOCK_OK);
    scene_hold_on(0, 2, "stock");
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = cancellation;
    scene_start_acquire(&answer, "stock", &options);
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    scene_start_acquire(&other, "stock", &options);
    redlock_cancel(cancellation);
    redlock_cancellation_reset(cancellation);
    ck_assert_status(wait_for(&other), REDLOCK_CANCELLED);
    redlock_cancel(cancellation);
    ck_assert_status(wait_for(&answer), REDLOCK_CANCELLED);
    redlock_cancellation_destroy(&cancellation);
    close_client();
}
END_TEST

/* Some are granted and wait to be dispatched, one waits for its lock. The loop runs both kinds of close. */
START_TEST(a_close_runs_the_callbacks_that_wait)
{
    connect_client();
    options.wait_ms = REDLOCK_FOREVER;
    scene_hold_on(0, 2, "held");
    start_many();
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    scene_start_acquire(&other, "held", &options);
    ck_assert_uint_eq(told_of_many(), 0);
    if (_i) {
        scene_start_close(&answer);
        ck_assert_status(wait_for(&answer), REDLOCK_OK);
        ck_assert_uint_gt(answer.place, other.place);
    } else
        close_client();
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_uint_eq(many[i].told, 1);
        ck_assert_ptr_null(many[i].lock);
        ck_assert_answer(&many[i], REDLOCK_CANCELLED);
        ck_assert_int_eq(many[i].result.validity_ms, 0);
    }
    ck_assert_answer(&other, REDLOCK_CANCELLED);
}
END_TEST

static unsigned calls_in_close;

static void call_in_close(redlock_client *called, const redlock_result *told, void *arg)
{
    redlock_lock *none;
    scene_told(called, told, arg);
    ck_assert_status(redlock_ready_async(called, 0, scene_told, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_acquire(called, "stock", NULL, &none, &result), REDLOCK_INVALID);
    ck_assert(!redlock_held_by_me(called, "stock", 0));
    ck_assert_status(redlock_dispatch(called), REDLOCK_INVALID);
    calls_in_close++;
}

START_TEST(the_last_callbacks_of_a_close_may_call_in_vain)
{
    connect_client();
    acquire("stock");
    ck_assert_status(redlock_ready_async(client, 0, call_in_close, &other), REDLOCK_OK);
    scene.started++;
    calls_in_close = 0;
    if (_i) {
        scene_start_close(&answer);
        ck_assert_status(wait_for(&answer), REDLOCK_OK);
    } else
        close_client();
    ck_assert_uint_eq(calls_in_close, 1);
}
END_TEST

/* --- Events of locks --- */

static void note_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    ck_assert_ptr_eq(arg, &events);
    ck_assert_ptr_eq(mine, lock);
    events.told++;
    events.lost += event == REDLOCK_EVENT_LOST;
    events.loss = loss;
    events.validity_ms = validity_ms;
    if (events.releases)
        scene_start_release(&other, &lock);
}

static void acquire_with_events(uint32_t ttl_ms)
{
    memset(&events, 0, sizeof events);
    options.event = note_event;
    options.event_arg = &events;
    options.ttl_ms = ttl_ms;
    options.no_renewal = 1;
    connect_client();
    acquire("stock");
}

static bool is_lost(void *unused)
{
    redlock_statistics statistics;
    (void)unused;
    redlock_statistics_get(client, &statistics);
    return statistics.losses[REDLOCK_LOSS_EXPIRED] == 1;
}

/* No thread dispatches: the validity and the descriptor of the loss do not need it. */
START_TEST(a_loss_needs_no_dispatch)
{
    int descriptor;
    acquire_with_events(1000);
    ck_assert_status(redlock_lost_descriptor(lock, &descriptor), REDLOCK_OK);
    ck_assert(wait_until(is_lost, NULL, SCENE_SOON_MS));
    ck_assert(is_readable(&descriptor));
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    ck_assert_int_eq(redlock_lock_loss(lock), REDLOCK_LOSS_EXPIRED);
    ck_assert_uint_eq(events.told, 0);
    wait_for_completions();
    ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    ck_assert_uint_eq(events.told, 1);
    ck_assert_uint_eq(events.lost, 1);
    ck_assert_int_eq(events.loss, REDLOCK_LOSS_EXPIRED);
    assert_not_readable();
    scene_start_release(&answer, &lock);
    ck_assert_status(wait_for(&answer), REDLOCK_LOST);
    close_client();
}
END_TEST

/* A warning and the loss wait together; the handler releases the lock at the first. */
START_TEST(a_released_handle_has_no_more_events)
{
    options.notify_before_ms = 900; /* long before the end: a thread that is late still warns first */
    acquire_with_events(1000);
    ck_assert(wait_until(is_lost, NULL, SCENE_SOON_MS));
    wait_for_completions();
    events.releases = true;
    ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    ck_assert_uint_eq(events.told, 1);
    ck_assert_uint_eq(events.lost, 0);
    ck_assert_int_eq(events.loss, REDLOCK_NOT_LOST);
    ck_assert_status(wait_for(&other), REDLOCK_LOST);
    close_client();
}
END_TEST

/* The blocking release, too, takes back an event that waits. */
START_TEST(a_release_takes_back_the_events_that_wait)
{
    acquire_with_events(1000);
    ck_assert(wait_until(is_lost, NULL, SCENE_SOON_MS));
    wait_for_completions();
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_LOST);
    ck_assert_status(redlock_dispatch(client), REDLOCK_OK);
    ck_assert_uint_eq(events.told, 0);
    close_client();
}
END_TEST

START_TEST(a_close_reports_the_loss_of_held_locks)
{
    acquire_with_events(60000);
    if (_i) {
        scene_start_close(&answer);
        ck_assert_status(wait_for(&answer), REDLOCK_OK);
    } else
        close_client();
    ck_assert_uint_eq(events.lost, 1);
    ck_assert_int_eq(events.loss, REDLOCK_LOSS_CLOSED);
}
END_TEST

/* The handle that the caller never got has no events. */
START_TEST(a_grant_that_a_close_takes_back_has_no_events)
{
    memset(&events, 0, sizeof events);
    options.event = note_event;
    options.event_arg = &events;
    connect_client();
    scene_start_acquire(&answer, "stock", &options);
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    close_client();
    ck_assert_answer(&answer, REDLOCK_CANCELLED);
    ck_assert_uint_eq(events.told, 0);
}
END_TEST

/* --- Bad input --- */

START_TEST(a_null_callback_is_refused)
{
    connect_client();
    acquire("stock");
    ck_assert_status(redlock_ready_async(client, 0, NULL, NULL), REDLOCK_INVALID);
    assert_logged("the callback of a ..._async function is NULL");
    ck_assert_status(redlock_acquire_async(client, "more", NULL, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_adopt_async(client, "more", NULL, "token", NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_extend_async(lock, 0, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_query_async(client, "more", 0, NULL, NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_close_async(&scene.client, NULL, NULL), REDLOCK_INVALID);
    assert_logged("redlock_close_async(): the callback is NULL");
    ck_assert_ptr_eq(scene.client, client);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    ck_assert_status(redlock_release_async(&lock, NULL, NULL), REDLOCK_OK); /* needs none */
    ck_assert_ptr_null(lock);
    close_client();
}
END_TEST

static void *dispatch_attached(void *unused)
{
    ck_assert_status(redlock_dispatch(scene.client), REDLOCK_INVALID);
    return unused;
}

START_TEST(an_attached_client_has_no_dispatch)
{
    pthread_t thread;
    scene_attach();
    ck_assert_status(redlock_descriptor(scene.client), REDLOCK_INVALID);
    assert_logged("redlock_descriptor(): the client is attached");
    ck_assert_int_eq(pthread_create(&thread, NULL, dispatch_attached, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    lock = scene_lock("stock"); /* turns the loop, which logs */
    assert_logged("redlock_dispatch(): the client is attached");
    ck_assert_status(redlock_ready_async(scene.client, 0, NULL, NULL), REDLOCK_INVALID);
    assert_logged("..._async function is NULL");
    ck_assert_status(scene_release(&answer, &lock), REDLOCK_OK);
    ck_assert_status(redlock_dispatch(NULL), REDLOCK_INVALID);
    ck_assert_status(redlock_descriptor(NULL), REDLOCK_INVALID);
}
END_TEST

START_TEST(no_more_operations_than_allowed_wait_for_dispatch)
{
    scene.options.operations_max = 2;
    connect_client();
    acquire("stock");
    scene_start_query(&answer, "stock");
    scene_start_query(&other, "stock");
    ck_assert(wait_until(nothing_is_pending, NULL, SCENE_SOON_MS));
    ck_assert_status(redlock_query_async(client, "stock", 0, scene_queried, NULL), REDLOCK_INVALID);
    assert_logged("operations_max");
    scene_start_release(&many[0], &lock);
    ck_assert_status(wait_for(&answer), REDLOCK_OK);
    ck_assert_status(wait_for(&many[0]), REDLOCK_OK);
    scene_start_query(&many[1], "stock");
    ck_assert_status(wait_for(&many[1]), REDLOCK_OK);
    close_client();
}
END_TEST

/* Without memory nothing is started, but a lock is released all the same. */
START_TEST(without_memory_nothing_starts_and_a_release_succeeds)
{
    struct test_allocator *allocator = test_allocator_new();
    scene.options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    connect_client();
    acquire("stock");
    options.event = note_event;
    for (size_t k = 1; k <= 2; k++) { /* the call, and its events */
        test_allocator_fail_from(allocator, k);
        ck_assert_status(redlock_acquire_async(client, "more", &options, scene_acquired, NULL), REDLOCK_NO_MEMORY);
        test_allocator_fail_from(allocator, 0);
    }
    test_allocator_fail_from(allocator, 1);
    ck_assert_status(redlock_release_async(&lock, scene_told, NULL), REDLOCK_NO_MEMORY);
    ck_assert_ptr_null(lock);
    test_allocator_fail_from(allocator, 0);
    options.wait_ms = SCENE_SOON_MS; /* until the nodes have confirmed */
    acquire("stock");
    release();
    close_client();
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptor");
    TCase *tcase = scene_case(suite, "operations", three_nodes);
    tcase_add_test(tcase, every_operation_completes);
    tcase_add_test(tcase, a_token_serves_another_client);
    tcase_add_test(tcase, arguments_are_copied);
    tcase_add_test(tcase, further_resources_are_copied);
    tcase_add_test(tcase, a_bad_argument_is_the_callbacks_status);
    tcase_add_test(tcase, callbacks_run_on_the_thread_that_dispatches);
    tcase_add_test(tcase, one_write_announces_all_completions);
    tcase_add_test(tcase, the_descriptor_is_readable_for_what_waits_already);
    tcase_add_test(tcase, a_callback_may_start_and_block);
    tcase_add_test(tcase, a_dispatch_inside_a_callback_is_refused);
    tcase_add_test(tcase, a_close_inside_a_callback_is_refused);
    tcase_add_test(tcase, a_callback_may_close_asynchronously);
    tcase = scene_case(suite, "threads", three_nodes);
    tcase_add_test(tcase, a_second_thread_that_dispatches_is_refused);
    tcase_add_test(tcase, a_close_waits_for_the_thread_that_dispatches);
    tcase_add_loop_test(tcase, a_callback_may_end_its_thread, 0, 2);
    tcase_add_test(tcase, any_thread_may_start_an_operation);
    tcase_add_test(tcase, cancel_ends_what_was_started_before);
    tcase_add_loop_test(tcase, a_close_runs_the_callbacks_that_wait, 0, 2);
    tcase_add_loop_test(tcase, the_last_callbacks_of_a_close_may_call_in_vain, 0, 2);
    tcase = scene_case(suite, "events", three_nodes);
    tcase_add_test(tcase, a_loss_needs_no_dispatch);
    tcase_add_test(tcase, a_released_handle_has_no_more_events);
    tcase_add_test(tcase, a_release_takes_back_the_events_that_wait);
    tcase_add_loop_test(tcase, a_close_reports_the_loss_of_held_locks, 0, 2);
    tcase_add_test(tcase, a_grant_that_a_close_takes_back_has_no_events);
    tcase = scene_case(suite, "bad input", three_nodes);
    tcase_add_test(tcase, a_null_callback_is_refused);
    tcase_add_test(tcase, an_attached_client_has_no_dispatch);
    tcase_add_test(tcase, no_more_operations_than_allowed_wait_for_dispatch);
    tcase_add_test(tcase, without_memory_nothing_starts_and_a_release_succeeds);
    return run_suite(suite);
}
