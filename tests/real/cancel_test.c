/* Operations on real servers that are cancelled, interrupted or closed at any moment: each ends exactly once, and no
 * key is left. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/fixture.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { NODES = 5, QUORUM = 3 };

static const char key[] = real_key("cancel");
static redlock_result result;

static struct face *open_face(int kind)
{
    return face_open_ready((enum face_kind)kind, deployment_nodes(real_nodes), NULL);
}

/* Checks that the status is OK or CANCELLED, and that there is a handle only with OK. */
static bool acquired_or_cancelled(int status, const redlock_lock *lock)
{
    ck_assert_msg(status == REDLOCK_OK || status == REDLOCK_CANCELLED, "%s", redlock_result_text(&result));
    ck_assert((status == REDLOCK_OK) == (lock != NULL));
    return status == REDLOCK_OK;
}

/* --- From another thread --- */

struct canceller {
    redlock_cancellation *cancellation;
    long after_ns;              /* the moment of the cancellation, which is the subject: any one must do */
    bool (*when)(void *unused); /* the condition to cancel on, instead of a time; may be NULL */
};

static void *cancel(void *arg)
{
    struct canceller *canceller = arg;
    struct timespec pause = {.tv_nsec = canceller->after_ns};

    if (canceller->when != NULL)
        wait_until(canceller->when, NULL, REAL_SOON_MS);
    else
        nanosleep(&pause, NULL);
    redlock_cancel(canceller->cancellation);
    return NULL;
}

static int acquire_and_cancel(struct face *face, struct canceller *canceller, redlock_lock **lock)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    pthread_t thread;

    ck_assert_int_eq(redlock_cancellation_create(face_client(face), &canceller->cancellation), REDLOCK_OK);
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = canceller->cancellation;
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel, canceller), 0);
    int status = face_acquire(face, key, &options, lock, &result);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    redlock_cancellation_destroy(&canceller->cancellation);
    ck_assert_ptr_null(canceller->cancellation);
    return status;
}

START_TEST(at_any_moment_of_a_free_lock)
{
    enum { TIMES = 200 };
    struct face *face = open_face(_i);
    unsigned seed = 1;
    redlock_lock *lock;

    for (int i = 0; i < TIMES; i++) {
        struct canceller canceller = {.after_ns = rand_r(&seed) % 600000};
        int status = acquire_and_cancel(face, &canceller, &lock);
        if (acquired_or_cancelled(status, lock))
            face_release(face, &lock, &result);
    }
    ck_assert(real_nothing_left(face));
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}
END_TEST

START_TEST(at_any_moment_of_a_held_lock)
{
    enum { TIMES = 50 };
    struct face *holder = open_face(_i);
    struct face *face = open_face(_i);
    unsigned seed = 2;
    redlock_lock *held, *lock;

    real_status(face_acquire(holder, key, NULL, &held, &result), REDLOCK_OK, &result);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(held)));
    for (int i = 0; i < TIMES; i++) {
        struct canceller canceller = {.after_ns = rand_r(&seed) % 8000000};
        real_status(acquire_and_cancel(face, &canceller, &lock), REDLOCK_CANCELLED, &result);
        ck_assert_ptr_null(lock);
    }
    ck_assert(real_shows_everywhere(key, redlock_lock_token(held)));
    real_status(face_release(holder, &held, &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
    face_close(&holder, NULL);
}
END_TEST

START_TEST(before_it_began)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;

    ck_assert_int_eq(redlock_cancellation_create(face_client(face), &options.cancellation), REDLOCK_OK);
    redlock_cancel(options.cancellation);
    redlock_cancel(options.cancellation);
    real_status(face_acquire(face, key, &options, &lock, &result), REDLOCK_CANCELLED, &result);
    ck_assert_ptr_null(lock);
    ck_assert_uint_eq(result.attempts, 0);
    redlock_cancellation_destroy(&options.cancellation);
    face_close(&face, NULL);
}
END_TEST

static bool is_set_on_the_last(void *unused)
{
    (void)unused;
    return deployment_integer(real_nodes, NODES - 1, "EXISTS", key, NULL) == 1;
}

/* A majority got the request and does not reply. */
START_TEST(while_nodes_hang)
{
    struct face *face = open_face(_i);
    struct canceller canceller = {.when = is_set_on_the_last};
    redlock_lock *lock;

    for (size_t i = 0; i < QUORUM; i++)
        deployment_stop(real_nodes, i);
    real_status(acquire_and_cancel(face, &canceller, &lock), REDLOCK_CANCELLED, &result);
    ck_assert(real_nothing_left(face)); /* no key stays on the running nodes */
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}
END_TEST

START_TEST(while_no_node_is_connected)
{
    struct canceller canceller = {.after_ns = 20000000};
    redlock_lock *lock;

    for (size_t i = 0; i < NODES; i++)
        deployment_stop(real_nodes, i);
    struct face *face = face_open((enum face_kind)_i, deployment_nodes(real_nodes), NULL);
    real_status(acquire_and_cancel(face, &canceller, &lock), REDLOCK_CANCELLED, &result);
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    face_close(&face, NULL);
}
END_TEST

/* --- From a signal handler, and unrelated signals --- */

static redlock_cancellation *cancelled_by_signal;
static atomic_uint signals;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
    redlock_cancel(cancelled_by_signal);
}

static void set_timer(long interval_us, long first_us)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    struct itimerval timer = {.it_interval.tv_usec = interval_us, .it_value.tv_usec = first_us};

    atomic_store(&signals, 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

START_TEST(from_a_signal_handler)
{
    struct face *holder = open_face(_i);
    struct face *face = open_face(_i);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *held, *lock;

    real_status(face_acquire(holder, key, NULL, &held, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_cancellation_create(face_client(face), &options.cancellation), REDLOCK_OK);
    cancelled_by_signal = options.cancellation;
    options.wait_ms = REDLOCK_FOREVER;
    set_timer(0, 30000);
    real_status(face_acquire(face, key, &options, &lock, &result), REDLOCK_CANCELLED, &result);
    ck_assert_uint_eq(atomic_load(&signals), 1);
    cancelled_by_signal = NULL;
    redlock_cancellation_destroy(&options.cancellation);
    real_status(face_release(holder, &held, &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
    face_close(&holder, NULL);
}
END_TEST

static bool enough_signals(void)
{
    return atomic_load(&signals) >= 100;
}

/* The handler's redlock_cancel(NULL) has no effect, and the interrupted system calls must have none. */
START_TEST(signals_interrupt_nothing)
{
    struct face *face = open_face(_i);
    redlock_state state;
    redlock_lock *lock;

    cancelled_by_signal = NULL;
    set_timer(500, 500);
    while (!enough_signals()) {
        real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK, &result);
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    }
    set_timer(0, 0);
    face_close(&face, NULL);
}
END_TEST

/* --- In each turn of the loop --- */

struct turns {
    struct ev_loop *loop;
    redlock_client *client;
    redlock_lock *lock;
    unsigned started;
    unsigned told;
    unsigned closed;
    int status;
};

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;

    ck_assert_ptr_nonnull(client);
    ck_assert_uint_eq(turns->closed, 0);
    turns->told++;
    turns->lock = lock;
    turns->status = given->status;
    ck_assert((lock != NULL) == (given->status == REDLOCK_OK));
    ev_break(turns->loop, EVBREAK_ONE);
}

static void on_told(redlock_client *client, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;

    ck_assert_ptr_nonnull(client);
    ck_assert_uint_eq(turns->closed, 0);
    turns->told++;
    turns->status = given->status;
    ev_break(turns->loop, EVBREAK_ONE);
}

static void on_closed(redlock_client *client, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;

    (void)given;
    ck_assert_ptr_null(client);
    ck_assert_uint_eq(turns->told, turns->started);
    turns->closed++;
    ev_break(turns->loop, EVBREAK_ONE);
}

static void begin(struct turns *turns)
{
    redlock_options options = face_options();

    memset(turns, 0, sizeof(*turns));
    turns->loop = ev_loop_new(EVFLAG_NOENV);
    int status = redlock_attach(turns->loop, deployment_nodes(real_nodes), &options, &turns->client, &result);
    real_status(status, REDLOCK_OK, &result);
}

static void turn(struct turns *turns, int count)
{
    for (int i = 0; i < count; i++)
        ev_run(turns->loop, EVRUN_NOWAIT);
}

static void start(struct turns *turns, const char *name, redlock_cancellation *cancellation)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = cancellation;
    ck_assert_int_eq(redlock_acquire_async(turns->client, name, &options, on_acquired, turns), REDLOCK_OK);
    turns->started++;
}

static void wait_told(struct turns *turns)
{
    while (turns->told < turns->started)
        ev_run(turns->loop, 0);
}

static void close_and_destroy(struct turns *turns)
{
    ck_assert_int_eq(redlock_close_async(&turns->client, on_closed, turns), REDLOCK_OK);
    ck_assert_ptr_null(turns->client);
    while (turns->closed == 0)
        ev_run(turns->loop, 0); /* each callback ends it */
    ck_assert_uint_eq(turns->closed, 1);
    ev_loop_destroy(turns->loop);
}

/* From the first connection on. */
START_TEST(in_every_turn_of_the_loop)
{
    struct turns turns;

    for (int k = 0; k < 60; k++) {
        redlock_cancellation *cancellation;
        begin(&turns);
        ck_assert_int_eq(redlock_cancellation_create(turns.client, &cancellation), REDLOCK_OK);
        start(&turns, key, cancellation);
        turn(&turns, k);
        redlock_cancel(cancellation);
        wait_told(&turns);
        ck_assert(turns.status == REDLOCK_OK || turns.status == REDLOCK_CANCELLED);
        close_and_destroy(&turns); /* releases the lock, if it was acquired */
        redlock_cancellation_destroy(&cancellation);
        ck_assert_uint_eq(turns.told, 1);
        ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
    }
}
END_TEST

START_TEST(closed_in_every_turn_of_the_loop)
{
    struct turns turns;

    for (int k = 0; k < 60; k++) {
        begin(&turns);
        start(&turns, key, NULL);
        turn(&turns, k);
        close_and_destroy(&turns);
        ck_assert_uint_eq(turns.told, 1);
        ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
    }
}
END_TEST

/* Acquires, extensions, releases and queries are in progress when the client is closed. The loop is destroyed right
 * after the close. */
static void on_queried(redlock_client *client, const redlock_state *state, const redlock_result *given, void *arg)
{
    ck_assert_ptr_nonnull(state);
    on_told(client, given, arg);
}

START_TEST(closed_under_load)
{
    enum { LOCKS = 300 };
    struct turns turns;
    redlock_lock *locks[LOCKS];
    char name[64];

    begin(&turns);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "%s:%d", key, i);
        start(&turns, name, NULL);
        if (i < LOCKS / 3) {
            wait_told(&turns);
            locks[i] = turns.lock;
        }
    }
    for (int i = 0; i < LOCKS / 3; i++) {
        if (i % 3 == 0)
            ck_assert_int_eq(redlock_extend_async(locks[i], 0, on_told, &turns), REDLOCK_OK);
        else if (i % 3 == 1)
            ck_assert_int_eq(redlock_release_async(&locks[i], on_told, &turns), REDLOCK_OK);
        else
            ck_assert_int_eq(redlock_query_async(turns.client, name, 0, on_queried, &turns), REDLOCK_OK);
        turns.started++;
    }
    turn(&turns, _i);
    close_and_destroy(&turns);
    ck_assert_uint_eq(turns.told, turns.started);
    ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
}
END_TEST

/* --- From a callback --- */

static void close_inside(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;

    ck_assert_int_eq(given->status, REDLOCK_OK);
    ck_assert_ptr_nonnull(lock);
    turns->told++;
    turns->client = NULL;
    ck_assert_int_eq(redlock_close_async(&client, on_closed, turns), REDLOCK_OK);
}

START_TEST(closed_inside_a_callback)
{
    struct turns turns;

    begin(&turns);
    ck_assert_int_eq(redlock_acquire_async(turns.client, key, NULL, close_inside, &turns), REDLOCK_OK);
    turns.started++;
    ev_run(turns.loop, 0);
    ck_assert_uint_eq(turns.closed, 1);
    ev_loop_destroy(turns.loop);
    ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
}
END_TEST

struct chain {
    struct turns turns;
    redlock_lock *lock;
    int left;
};

static void chain_released(redlock_client *client, const redlock_result *given, void *arg);

static void chain_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct chain *chain = arg;

    (void)client;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    chain->lock = lock;
    ck_assert_int_eq(redlock_release_async(&chain->lock, chain_released, chain), REDLOCK_OK);
}

static void chain_released(redlock_client *client, const redlock_result *given, void *arg)
{
    struct chain *chain = arg;

    ck_assert_int_eq(given->status, REDLOCK_OK);
    if (--chain->left == 0)
        ev_break(chain->turns.loop, EVBREAK_ONE);
    else
        ck_assert_int_eq(redlock_acquire_async(client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), chain_acquired, chain),
                         REDLOCK_OK);
}

START_TEST(each_callback_may_start_the_next)
{
    struct chain chain = {.left = 200};

    begin(&chain.turns);
    ck_assert_int_eq(
        redlock_acquire_async(chain.turns.client, key, REDLOCK_WAIT_MS(REAL_SOON_MS), chain_acquired, &chain),
        REDLOCK_OK);
    ev_run(chain.turns.loop, 0);
    ck_assert_int_eq(chain.left, 0);
    close_and_destroy(&chain.turns);
}
END_TEST

/* A thousand operations at the same time. */
static void flood_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;

    (void)client;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    ck_assert_int_eq(redlock_release_async(&lock, on_told, turns), REDLOCK_OK);
}

START_TEST(a_thousand_in_flight)
{
    enum { LOCKS = 1000 };
    struct turns turns;
    char name[64];

    begin(&turns);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "%s:%d", key, i);
        ck_assert_int_eq(redlock_acquire_async(turns.client, name, NULL, flood_acquired, &turns), REDLOCK_OK);
        turns.started++;
    }
    wait_told(&turns);
    close_and_destroy(&turns);
    ck_assert_uint_eq(turns.told, LOCKS);
}
END_TEST

static Suite *cancel_suite(void)
{
    Suite *suite = suite_create("real_cancel");
    TCase *tcase = real_shared_case(suite, "cancelled");
    TCase *turns = real_shared_case(suite, "turns");

    tcase_add_loop_test(tcase, at_any_moment_of_a_free_lock, 0, FACES);
    tcase_add_loop_test(tcase, at_any_moment_of_a_held_lock, 0, FACES);
    tcase_add_loop_test(tcase, before_it_began, 0, FACES);
    if (deployment_has_control()) {
        tcase_add_loop_test(tcase, while_nodes_hang, 0, FACES);
        tcase_add_loop_test(tcase, while_no_node_is_connected, 0, FACES);
    }
    tcase_add_loop_test(tcase, from_a_signal_handler, 0, FACES);
    tcase_add_loop_test(tcase, signals_interrupt_nothing, 0, FACES);
    tcase_add_test(turns, in_every_turn_of_the_loop);
    tcase_add_test(turns, closed_in_every_turn_of_the_loop);
    tcase_add_loop_test(turns, closed_under_load, 0, 5);
    tcase_add_test(turns, closed_inside_a_callback);
    tcase_add_test(turns, each_callback_may_start_the_next);
    tcase_add_test(turns, a_thousand_in_flight);
    return suite;
}

int main(void)
{
    return real_run(cancel_suite(), false);
}
