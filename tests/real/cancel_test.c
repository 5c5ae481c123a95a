/* Operations on real servers that are cancelled, interrupted or closed at any moment: each ends exactly once, and no
 * key is left. tests/fake/wait_test.c cancels at each chosen moment. */
#define _GNU_SOURCE
#include "real/held.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static const char key[] = real_key("cancel");
static redlock_result result;

/* --- From another thread --- */

struct canceller {
    redlock_cancellation *cancellation;
    long after_ns; /* the moment of the cancellation, which is the subject: any one must do */
};

static void *cancel(void *arg)
{
    struct canceller *canceller = arg;
    struct timespec pause = {.tv_nsec = canceller->after_ns};
    nanosleep(&pause, NULL);
    redlock_cancel(canceller->cancellation);
    return NULL;
}

static int acquire_and_cancel(struct face *face, long after_ns, redlock_lock **lock)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    struct canceller canceller = {.after_ns = after_ns};
    pthread_t thread;
    ck_assert_int_eq(redlock_cancellation_create(face_client(face), &canceller.cancellation), REDLOCK_OK);
    options.wait_ms = REDLOCK_FOREVER;
    options.cancellation = canceller.cancellation;
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel, &canceller), 0);
    int status = face_acquire(face, key, &options, lock, &result);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    redlock_cancellation_destroy(&canceller.cancellation);
    return status;
}

static const struct moments {
    const char *lock;
    bool held;
    int times;
    long within_ns;
} moments[] = {{"a free lock", false, 200, 600000}, {"a held lock", true, 50, 8000000}};

START_TEST(at_any_moment)
{
    const struct moments *row = &moments[_i / FACES];
    struct face *holder = real_open(_i), *face = real_open(_i);
    redlock_lock *held = row->held ? held_acquire(holder, key, NULL) : NULL, *lock;
    unsigned seed = 1;
    if (held)
        ck_assert(real_soon_everywhere(key, redlock_lock_token(held)));
    for (int i = 0; i < row->times; i++) {
        int status = acquire_and_cancel(face, rand_r(&seed) % row->within_ns, &lock);
        ck_assert_msg((status == REDLOCK_OK && !held) || status == REDLOCK_CANCELLED, "%s: %s", row->lock,
                      redlock_result_text(&result));
        ck_assert((status == REDLOCK_OK) == (lock != NULL));
        if (lock)
            face_release(face, &lock, &result);
    }
    if (held) {
        ck_assert(real_shows_everywhere(key, redlock_lock_token(held)));
        held_release(holder, &held);
    }
    ck_assert(real_nothing_left(face));
    held_close(face);
    held_close(holder);
}
END_TEST

/* --- Unrelated signals --- */

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static void set_timer(long interval_us)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    struct itimerval timer = {.it_interval.tv_usec = interval_us, .it_value.tv_usec = interval_us};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

START_TEST(signals_interrupt_nothing)
{
    struct face *face = real_open(_i);
    redlock_state state;
    redlock_lock *lock;
    signals = 0;
    set_timer(500);
    while (signals < 100) {
        lock = held_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
        held_release(face, &lock);
    }
    set_timer(0);
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

static void on_told(redlock_client *client, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;
    ck_assert_ptr_nonnull(client);
    ck_assert_uint_eq(turns->closed, 0);
    turns->told++;
    turns->status = given->status;
    ev_break(turns->loop, EVBREAK_ONE);
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct turns *turns = arg;
    turns->lock = lock;
    ck_assert((lock != NULL) == (given->status == REDLOCK_OK));
    on_told(client, given, arg);
}

static void on_queried(redlock_client *client, const redlock_state *state, const redlock_result *given, void *arg)
{
    ck_assert_ptr_nonnull(state);
    on_told(client, given, arg);
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
    *turns = (struct turns){.loop = ev_loop_new(EVFLAG_NOENV)};
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

/* Releases what is held. The loop is destroyed right after the close. */
static void close_and_destroy(struct turns *turns)
{
    ck_assert_int_eq(redlock_close_async(&turns->client, on_closed, turns), REDLOCK_OK);
    ck_assert_ptr_null(turns->client);
    while (turns->closed == 0)
        ev_run(turns->loop, 0); /* each callback ends it */
    ck_assert_uint_eq(turns->closed, 1);
    ck_assert_uint_eq(turns->told, turns->started);
    ev_loop_destroy(turns->loop);
    ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
}

/* From the first connection on. _i 0: cancelled; 1: closed. */
START_TEST(in_every_turn_of_the_loop)
{
    struct turns turns;
    for (int k = 0; k < 60; k++) {
        redlock_cancellation *cancellation;
        begin(&turns);
        ck_assert_int_eq(redlock_cancellation_create(turns.client, &cancellation), REDLOCK_OK);
        start(&turns, key, cancellation);
        turn(&turns, k);
        if (_i == 0) {
            redlock_cancel(cancellation);
            wait_told(&turns);
            ck_assert(turns.status == REDLOCK_OK || turns.status == REDLOCK_CANCELLED);
        }
        close_and_destroy(&turns);
        redlock_cancellation_destroy(&cancellation);
    }
}
END_TEST

/* Acquires, extensions, releases and queries are in progress when the client is closed. */
START_TEST(closed_under_load)
{
    enum { LOCKS = 300 };
    struct turns turns;
    redlock_lock *locks[LOCKS];
    char name[64];
    begin(&turns);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "%s:%d", key, i);
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
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_cancel");
    TCase *tcase = real_shared_case(suite, "cancelled"), *turns = real_shared_case(suite, "turns");
    tcase_add_loop_test(tcase, at_any_moment, 0, 2 * FACES);
    tcase_add_loop_test(tcase, signals_interrupt_nothing, 0, FACES);
    tcase_add_loop_test(turns, in_every_turn_of_the_loop, 0, 2);
    tcase_add_loop_test(turns, closed_under_load, 0, 5);
    return real_run(suite, false);
}
