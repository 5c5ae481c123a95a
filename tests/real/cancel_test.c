/* Operations on real servers that are cancelled, interrupted or closed at any moment: each ends exactly once, and no
 * key is left. tests/fake/wait_test.c cancels at each chosen moment. */
#include "real/held.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static const char key[] = real_key("cancel");

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

REAL_CASE(cancelled, real_shared_case, NULL);

TEST_ROWS(cancelled, cancelled_at_any_moment, ROWS(moments) * FACES)
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
}

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

TEST_ROWS(cancelled, signals_interrupt_nothing, FACES)
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
}

/* --- In each turn of the loop --- */

static struct {
    struct ev_loop *loop;
    unsigned acquired, closed; /* number of callbacks */
    int status;                /* of the acquire */
} callbacks;

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *unused)
{
    (void)unused;
    ck_assert_ptr_nonnull(client);
    ck_assert((lock != NULL) == (given->status == REDLOCK_OK));
    ck_assert_uint_eq(callbacks.closed, 0);
    callbacks.acquired++;
    callbacks.status = given->status;
    ev_break(callbacks.loop, EVBREAK_ONE);
}

static void on_closed(redlock_client *client, const redlock_result *given, void *unused)
{
    (void)given;
    (void)unused;
    ck_assert_ptr_null(client);
    callbacks.closed++;
    ev_break(callbacks.loop, EVBREAK_ONE);
}

/* Starts an acquire, and ends it after this number of turns: by its cancellation, or by closing the client, which releases
 * the lock if it is held. The loop is destroyed right after the close. */
static void end_after(int turns, bool cancels)
{
    const redlock_options options = face_options();
    redlock_cancellation *cancellation;
    redlock_client *client;
    callbacks.loop = ev_loop_new(EVFLAG_NOENV);
    callbacks.acquired = callbacks.closed = 0;
    int status = redlock_attach(callbacks.loop, cluster_nodes_string(cluster), &options, &client, &result);
    real_status(status, REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_cancellation_create(client, &cancellation), REDLOCK_OK);
    const redlock_acquire_options *how = REAL_WITH(.wait_ms = REDLOCK_FOREVER, .cancellation = cancellation);
    ck_assert_int_eq(redlock_acquire_async(client, key, how, on_acquired, NULL), REDLOCK_OK);
    for (int i = 0; i < turns; i++)
        ev_run(callbacks.loop, EVRUN_NOWAIT);
    if (cancels) {
        redlock_cancel(cancellation);
        while (callbacks.acquired == 0)
            ev_run(callbacks.loop, 0); /* each callback ends it */
        ck_assert(callbacks.status == REDLOCK_OK || callbacks.status == REDLOCK_CANCELLED);
    }
    ck_assert_int_eq(redlock_close_async(&client, on_closed, NULL), REDLOCK_OK);
    ck_assert_ptr_null(client);
    while (callbacks.closed == 0)
        ev_run(callbacks.loop, 0);
    ck_assert_uint_eq(callbacks.acquired, 1);
    ck_assert_uint_eq(callbacks.closed, 1);
    ev_loop_destroy(callbacks.loop);
    redlock_cancellation_destroy(&cancellation);
}

/* From the first connection on. */
TEST_ROWS(cancelled, acquire_that_ends_in_any_turn_of_the_loop_leaves_no_key, 2)
{
    for (int turns = 0; turns < 60; turns++) {
        end_after(turns, _i == 0);
        ck_assert_uint_eq(deployment_keys_left(real_nodes), 0);
    }
}

REAL_PROGRAM("real_cancel")
