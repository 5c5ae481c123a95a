/* The blocking API against fake nodes: several threads, interruption, and misbehaving nodes. Also runs under
 * ThreadSanitizer. */
#include "fake/scene.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static redlock_result result;
static redlock_lock *lock;
static redlock_acquire_options options;

static void three_nodes(void)
{
    scene_begin(3);
    lock = NULL;
    options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
}

static void close_client(void)
{
    ck_assert_status(redlock_close(&scene.client, &result), REDLOCK_OK);
    ck_assert_ptr_null(scene.client);
}

static void hold_majority(void)
{
    scene_hold_on(0, 2, "stock");
}

START_TEST(acquire_extend_query_release)
{
    redlock_state state;
    scene_connect();
    ck_assert_status(redlock_acquire(scene.client, "stock", NULL, &lock, &result), REDLOCK_OK);
    ck_assert_int_gt(result.validity_ms, 50000);
    ck_assert_int_gt(redlock_validity_ms(lock), 50000);
    ck_assert_status(redlock_extend(lock, 120000, &result), REDLOCK_OK);
    ck_assert_int_gt(redlock_validity_ms(lock), 110000);
    ck_assert(redlock_held_by_me(scene.client, "stock", 0));
    ck_assert_status(redlock_query(scene.client, "stock", 0, &state, &result), REDLOCK_OK);
    ck_assert_int_eq(state.locked, 1);
    ck_assert_int_eq(state.held_by_me, 1);
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_OK);
    ck_assert_ptr_null(lock);
    ck_assert(!redlock_held_by_me(scene.client, "stock", 0));
    close_client();
}
END_TEST

START_TEST(results_are_optional)
{
    scene_connect();
    ck_assert_status(redlock_ready(scene.client, 0, NULL), REDLOCK_OK);
    ck_assert_status(redlock_acquire(scene.client, "stock", NULL, &lock, NULL), REDLOCK_OK);
    ck_assert_status(redlock_extend(lock, 0, NULL), REDLOCK_OK);
    ck_assert_status(redlock_query(scene.client, "stock", 0, NULL, NULL), REDLOCK_OK);
    ck_assert_status(redlock_release(&lock, NULL), REDLOCK_OK);
    ck_assert_status(redlock_close(&scene.client, NULL), REDLOCK_OK);
}
END_TEST

static void refuse_majority(const char *resource, const char *error)
{
    scene_add_rule(0, 2, &(struct fake_rule){.command = "SET", .argument = resource, .skip = true, .reply = error});
}

START_TEST(each_failure_has_its_status)
{
    scene_connect();
    hold_majority();
    ck_assert_status(redlock_acquire(scene.client, "stock", NULL, &lock, &result), REDLOCK_HELD);
    ck_assert_ptr_null(lock);
    options.wait_ms = 1000; /* the last attempt, after half of it, is to be answered on a busy machine too */
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(result.cause, REDLOCK_HELD);
    refuse_majority("loading", FAKE_LOADING);
    ck_assert_status(redlock_acquire(scene.client, "loading", NULL, &lock, &result), REDLOCK_NO_QUORUM);
    refuse_majority("forbidden", FAKE_NOPERM);
    ck_assert_status(redlock_acquire(scene.client, "forbidden", NULL, &lock, &result), REDLOCK_MISCONFIGURED);
    ck_assert_ptr_null(lock);
    close_client();
}
END_TEST

/* --- Several threads --- */

/* A fake node does not wake waiters, so a hand-over lasts until the next waiter polls. Therefore there are few
 * hand-overs, and many locks that only one thread uses. */
enum { THREADS = 4, HAND_OVERS = 2, OWN_LOCKS = 40 };

static struct {
    int shared; /* not atomic: ThreadSanitizer reports two threads in the section */
    atomic_uint inside;
    atomic_uint failed;
    atomic_uint names;
} section;

static void expect(bool right)
{
    if (!right)
        atomic_fetch_add(&section.failed, 1);
}

static void lock_own(const char *name)
{
    redlock_lock *mine;
    expect(redlock_acquire(scene.client, name, NULL, &mine, NULL) == REDLOCK_OK);
    expect(redlock_validity_ms(mine) > 0);
    expect(redlock_held_by_me(scene.client, name, 0));
    expect(redlock_extend(mine, 0, NULL) == REDLOCK_OK);
    expect(redlock_release(&mine, NULL) == REDLOCK_OK);
}

static void lock_shared(void)
{
    redlock_lock *mine;
    expect(redlock_acquire(scene.client, "stock", &options, &mine, NULL) == REDLOCK_OK);
    expect(atomic_fetch_add(&section.inside, 1) == 0);
    section.shared++;
    atomic_fetch_sub(&section.inside, 1);
    expect(redlock_release(&mine, NULL) == REDLOCK_OK);
}

static void *take_turns(void *unused)
{
    char name[16];
    (void)unused;
    snprintf(name, sizeof name, "own-%u", atomic_fetch_add(&section.names, 1));
    for (unsigned i = 0; i < OWN_LOCKS; i++)
        lock_own(name);
    for (unsigned i = 0; i < HAND_OVERS; i++)
        lock_shared();
    return NULL;
}

START_TEST(threads_exclude_each_other)
{
    pthread_t threads[THREADS];
    section.shared = 0;
    atomic_store(&section.inside, 0);
    atomic_store(&section.failed, 0);
    options.wait_ms = REDLOCK_FOREVER;
    scene_connect();
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(atomic_load(&section.failed), 0);
    ck_assert_int_eq(section.shared, THREADS * HAND_OVERS);
    close_client();
}
END_TEST

/* --- Interruption --- */

static redlock_cancellation *cancellation;

static void *wait_for_lock(void *status)
{
    redlock_lock *mine;
    *(int *)status = redlock_acquire(scene.client, "stock", &options, &mine, NULL);
    return mine;
}

static void cancel_in_handler(int signal)
{
    (void)signal;
    redlock_cancel(cancellation);
}

START_TEST(a_wait_is_ended_by_another_thread_or_a_signal)
{
    pthread_t threads[2];
    int statuses[2] = {1, 1};
    struct sigaction action = {.sa_handler = cancel_in_handler}, before;
    scene_connect();
    hold_majority();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = cancellation;
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_for_lock, &statuses[i]), 0);
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    sigaction(SIGUSR2, &action, &before);
    if (_i)
        pthread_kill(threads[0], SIGUSR2);
    else
        redlock_cancel(cancellation);
    for (unsigned i = 0; i < 2; i++) {
        void *mine;
        ck_assert_int_eq(pthread_join(threads[i], &mine), 0);
        ck_assert_status(statuses[i], REDLOCK_CANCELLED);
        ck_assert_ptr_null(mine);
    }
    sigaction(SIGUSR2, &before, NULL);
    redlock_cancellation_destroy(&cancellation);
    close_client();
}
END_TEST

START_TEST(reset_cancellation_serves_again)
{
    pthread_t thread;
    int status = 1;
    scene_connect();
    hold_majority();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = cancellation;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_lock, &status), 0);
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    redlock_cancel(cancellation);
    redlock_cancellation_reset(cancellation); /* usually before the loop has seen it; the wait ends anyway */
    pthread_join(thread, NULL);
    ck_assert_status(status, REDLOCK_CANCELLED);
    options.wait_ms = 20;
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_TIMED_OUT);
    redlock_cancel(cancellation);
    redlock_cancel(cancellation);
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_CANCELLED);
    redlock_cancellation_reset(cancellation);
    redlock_cancellation_reset(cancellation);
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_TIMED_OUT);
    redlock_cancellation_reset(NULL);
    redlock_cancellation_destroy(&cancellation);
    close_client();
}
END_TEST

static atomic_uint interrupted;

static void count_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&interrupted, 1);
}

static bool was_interrupted(void *arg)
{
    (void)arg;
    return atomic_load(&interrupted) > 0;
}

/* A signal whose handler does not call redlock_cancel() does not end a call. The client's own thread never receives
 * one. */
START_TEST(a_signal_by_itself_interrupts_nothing)
{
    pthread_t thread;
    void *mine;
    int status = 1;
    struct sigaction action = {.sa_handler = count_signal}, before;
    atomic_store(&interrupted, 0);
    scene_connect();
    hold_majority();
    options.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_lock, &status), 0);
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    sigaction(SIGUSR2, &action, &before);
    pthread_kill(thread, SIGUSR2);
    ck_assert(wait_until(was_interrupted, NULL, SCENE_SOON_MS));
    scene_let_go_on(0, 2, "stock");
    ck_assert_int_eq(pthread_join(thread, &mine), 0);
    ck_assert_status(status, REDLOCK_OK);
    lock = mine;
    ck_assert_status(redlock_release(&lock, NULL), REDLOCK_OK);
    sigaction(SIGUSR2, &before, NULL);
    close_client();
}
END_TEST

static redlock_result close_result;

static void *close_from_here(void *status)
{
    *(int *)status = redlock_close(&scene.client, &close_result);
    return NULL;
}

/* The close first ends the operations of other threads. */
START_TEST(a_close_ends_what_others_wait_for)
{
    pthread_t waiting, closing;
    int status = 1, close_status = 1;
    redlock_lock *mine;
    redlock_client *client;
    scene_connect();
    client = scene.client;
    hold_majority();
    options.wait_ms = REDLOCK_FOREVER;
    ck_assert_status(redlock_acquire(client, "held by close", NULL, &mine, NULL), REDLOCK_OK);
    ck_assert_int_eq(pthread_create(&waiting, NULL, wait_for_lock, &status), 0);
    ck_assert(fake_server_wait_for(scene.node[0], "EVALSHA", 1, SCENE_SOON_MS));
    ck_assert_int_eq(pthread_create(&closing, NULL, close_from_here, &close_status), 0);
    ck_assert_int_eq(pthread_join(waiting, NULL), 0);
    ck_assert_status(status, REDLOCK_CANCELLED);
    ck_assert_int_eq(pthread_join(closing, NULL), 0);
    ck_assert_status(close_status, REDLOCK_OK);
    ck_assert_ptr_null(scene.client);
}
END_TEST

static bool is_closed(void *unused)
{
    (void)unused;
    return redlock_lock_loss(lock) == REDLOCK_LOSS_CLOSED;
}

/* The close waits for nodes that owe a reply to another thread's acquire. */
START_TEST(release_during_close_is_cancelled_and_ends_the_handle)
{
    static const char *const texts[] = {"releases the lock", "leaves the lock to expire"};
    pthread_t waiting, closing;
    int status = 1, close_status = 1;
    scene.options.leave_locks = (uint32_t)_i;
    scene.keys_may_stay = _i;
    scene_connect();
    ck_assert_status(redlock_acquire(scene.client, "held by close", NULL, &lock, NULL), REDLOCK_OK);
    scene_add_rule(0, scene.nodes, &(struct fake_rule){.command = "SET", .argument = "stock", .hold = true});
    ck_assert_int_eq(pthread_create(&waiting, NULL, wait_for_lock, &status), 0);
    for (unsigned i = 0; i < scene.nodes; i++) /* a request that comes after the release below is held for good */
        ck_assert(fake_server_wait_for(scene.node[i], "SET", 2, SCENE_SOON_MS));
    ck_assert_int_eq(pthread_create(&closing, NULL, close_from_here, &close_status), 0);
    ck_assert(wait_until(is_closed, NULL, SCENE_SOON_MS));
    ck_assert_status(redlock_release(&lock, &result), REDLOCK_CANCELLED);
    ck_assert_ptr_null(lock);
    ck_assert_has(result.text, texts[_i]);
    scene_each(0, scene.nodes, fake_server_release);
    ck_assert_int_eq(pthread_join(waiting, NULL), 0);
    ck_assert_int_eq(pthread_join(closing, NULL), 0);
    ck_assert_msg(close_status == REDLOCK_OK, "%s", redlock_result_text(&close_result));
}
END_TEST

/* --- Misbehaving nodes --- */

START_TEST(links_break_under_the_clients_own_thread)
{
    static const enum fake_ending endings[] = {FAKE_RESET, FAKE_CLOSE, FAKE_SHUTDOWN};
    options.wait_ms = SCENE_SOON_MS;
    scene_connect();
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 3; i++)
            fake_server_drop(scene.node[i], endings[_i]);
        ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_OK);
        redlock_release(&lock, &result);
    }
    close_client();
}
END_TEST

START_TEST(unasked_replies_under_the_clients_own_thread)
{
    options.wait_ms = SCENE_SOON_MS;
    scene.keys_may_stay = true; /* an undo that got such a reply is repeated, but not indefinitely */
    scene_connect();
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 3; i++)
            fake_server_push(scene.node[i], "+EXTRA\r\n+EXTRA\r\n", 16);
        ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_OK);
        redlock_release(&lock, &result);
    }
    redlock_close(&scene.client, &result); /* the status depends on whether such nodes confirmed every undo */
    ck_assert_ptr_null(scene.client);
}
END_TEST

START_TEST(a_client_is_closed_while_nodes_cannot_be_reached)
{
    scene_each(0, 3, fake_server_stop_listening);
    ck_assert_status(redlock_connect(scene_list(), &scene.options, &scene.client, &result), REDLOCK_OK);
    if (_i)
        ck_assert_status(redlock_ready(scene.client, 20, &result), REDLOCK_TIMED_OUT);
    close_client();
}
END_TEST

/* --- A log callback that calls the library, which is not allowed --- */

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

START_TEST(a_call_on_the_clients_own_thread_is_refused)
{
    atomic_store(&known, NULL);
    atomic_store(&inner_status, 1);
    scene.options.log = call_from_log;
    scene_connect();
    atomic_store(&known, scene.client);
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    ck_assert(fake_server_wait_for_accepted(scene.node[0], 2, SCENE_SOON_MS));
    ck_assert_status(redlock_ready(scene.client, REDLOCK_FOREVER, NULL), REDLOCK_OK);
    ck_assert_status(atomic_load(&inner_status), REDLOCK_INVALID);
    close_client();
}
END_TEST

/* --- Calls that an event callback may make --- */

static struct {
    atomic_bool told;
    int held, got, status;
    uint32_t count;
    redlock_statistics statistics;
    redlock_node_status node;
} inside;

static void ask_in_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    redlock_client *client = atomic_load(&known);
    (void)loss;
    (void)validity_ms;
    (void)arg;
    if (event != REDLOCK_EVENT_ENDING || !client || atomic_load(&inside.told))
        return;
    inside.held = redlock_held_by_me(client, "stock", 0);
    inside.count = redlock_hold_count(mine);
    inside.got = redlock_statistics_get(client, &inside.statistics);
    inside.status = redlock_node_status_get(client, 0, &inside.node);
    atomic_store(&inside.told, true);
}

static bool is_told_inside(void *arg)
{
    (void)arg;
    return atomic_load(&inside.told);
}

START_TEST(an_event_callback_may_ask_what_no_node_is_asked_for)
{
    memset(&inside, 0, sizeof inside);
    scene_connect();
    atomic_store(&known, scene.client);
    options.event = ask_in_event;
    options.notify_before_ms = 59000; /* of 60 s minus the drift */
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_OK);
    ck_assert(wait_until(is_told_inside, NULL, SCENE_SOON_MS));
    ck_assert_int_eq(inside.held, 1);
    ck_assert_uint_eq(inside.count, 1);
    ck_assert_status(inside.got, REDLOCK_OK);
    ck_assert_uint_eq(inside.statistics.locks_held, 1);
    ck_assert_status(inside.status, REDLOCK_OK);
    ck_assert_str_eq(inside.node.state, "ready");
    ck_assert_status(redlock_release(&lock, NULL), REDLOCK_OK);
    atomic_store(&known, NULL);
    close_client();
}
END_TEST

/* --- The calling thread drives the loop --- */

static struct {
    pthread_t caller;
    atomic_bool drove;     /* a call of the caller was decided on its own thread */
    atomic_bool on_caller; /* an event callback ran there */
} drives;

static void note_thread(int level, const char *text, void *arg)
{
    (void)level;
    (void)arg;
    if (strncmp(text, "acquire ", 8) == 0 && pthread_equal(pthread_self(), drives.caller))
        atomic_store(&drives.drove, true);
}

/* Acquires and releases until the calling thread has driven the loop, and the loop's thread rests. */
static void drive(void)
{
    redlock_lock *mine;
    for (atomic_store(&drives.drove, false); !atomic_load(&drives.drove);) {
        ck_assert_status(redlock_acquire(scene.client, "driven", NULL, &mine, NULL), REDLOCK_OK);
        ck_assert_status(redlock_release(&mine, NULL), REDLOCK_OK);
    }
}

static void connect_to_drive(void)
{
    memset(&drives, 0, sizeof drives);
    drives.caller = pthread_self();
    scene.options.log = note_thread;
    scene.options.log_level = REDLOCK_LOG_DEBUG;
    scene_connect();
    drive();
}

/* Calls that end at once read nothing: as many as there are, the loop's thread finds that a node has disconnected. */
START_TEST(calls_without_a_wait_do_not_keep_the_loop_from_reading)
{
    connect_to_drive();
    fake_server_drop(scene.node[0], FAKE_CLOSE);
    while (fake_server_accepted(scene.node[0]) < 2)
        ck_assert_status(redlock_acquire(scene.client, "", NULL, &lock, NULL), REDLOCK_INVALID);
    close_client();
}
END_TEST

static void note_event(redlock_lock *mine, int event, int loss, int64_t validity_ms, void *arg)
{
    (void)mine;
    (void)event;
    (void)loss;
    (void)validity_ms;
    atomic_store(&drives.on_caller, pthread_equal(pthread_self(), drives.caller));
    redlock_cancel(arg);
}

/* Also while the calling thread waits for another lock. */
START_TEST(events_are_reported_on_the_clients_own_thread)
{
    redlock_lock *other;
    redlock_acquire_options waiting = REDLOCK_ACQUIRE_OPTIONS_INIT;
    connect_to_drive();
    hold_majority();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.ttl_ms = 300;
    options.no_renewal = 1;
    options.event = note_event;
    options.event_arg = waiting.cancellation = cancellation;
    waiting.wait_ms = REDLOCK_FOREVER;
    ck_assert_status(redlock_acquire(scene.client, "other", &options, &other, NULL), REDLOCK_OK);
    ck_assert_status(redlock_acquire(scene.client, "stock", &waiting, &lock, &result), REDLOCK_CANCELLED);
    ck_assert(!atomic_load(&drives.on_caller));
    ck_assert_status(redlock_release(&other, NULL), REDLOCK_LOST);
    redlock_cancellation_destroy(&cancellation);
    close_client();
}
END_TEST

static void *acquire_beside(void *arg)
{
    redlock_lock *mine;
    int *status = arg;
    *status = redlock_acquire(scene.client, "beside", NULL, &mine, NULL);
    if (*status == REDLOCK_OK)
        *status = redlock_release(&mine, NULL);
    redlock_cancel(cancellation);
    return NULL;
}

/* While the calling thread drives for its own call, it also serves the calls of others. */
START_TEST(a_thread_that_waits_serves_the_others)
{
    pthread_t other;
    int status = 1;
    connect_to_drive();
    hold_majority();
    ck_assert_status(redlock_cancellation_create(scene.client, &cancellation), REDLOCK_OK);
    options.cancellation = cancellation;
    options.wait_ms = REDLOCK_FOREVER;
    ck_assert_int_eq(pthread_create(&other, NULL, acquire_beside, &status), 0);
    ck_assert_status(redlock_acquire(scene.client, "stock", &options, &lock, &result), REDLOCK_CANCELLED);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_status(status, REDLOCK_OK);
    redlock_cancellation_destroy(&cancellation);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blocking face");
    TCase *tcase = scene_case(suite, "blocking", three_nodes);
    tcase_set_timeout(tcase, 2 * SCENE_TIMEOUT_S);
    tcase_add_test(tcase, acquire_extend_query_release);
    tcase_add_test(tcase, results_are_optional);
    tcase_add_test(tcase, each_failure_has_its_status);
    tcase_add_test(tcase, threads_exclude_each_other);
    tcase_add_loop_test(tcase, a_wait_is_ended_by_another_thread_or_a_signal, 0, 2);
    tcase_add_test(tcase, reset_cancellation_serves_again);
    tcase_add_test(tcase, a_signal_by_itself_interrupts_nothing);
    tcase_add_test(tcase, a_close_ends_what_others_wait_for);
    tcase_add_loop_test(tcase, release_during_close_is_cancelled_and_ends_the_handle, 0, 2);
    tcase_add_loop_test(tcase, links_break_under_the_clients_own_thread, 0, 3);
    tcase_add_test(tcase, unasked_replies_under_the_clients_own_thread);
    tcase_add_loop_test(tcase, a_client_is_closed_while_nodes_cannot_be_reached, 0, 2);
    tcase_add_test(tcase, a_call_on_the_clients_own_thread_is_refused);
    tcase_add_test(tcase, an_event_callback_may_ask_what_no_node_is_asked_for);
    tcase_add_test(tcase, calls_without_a_wait_do_not_keep_the_loop_from_reading);
    tcase_add_test(tcase, events_are_reported_on_the_clients_own_thread);
    tcase_add_test(tcase, a_thread_that_waits_serves_the_others);
    return run_suite(suite);
}
