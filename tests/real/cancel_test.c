/* Acquires on real servers that another thread cancels at any moment: each ends exactly once, and no key is left.
 * tests/fake/wait_test.c cancels at each chosen moment, and has signals and closes. */
#include "real/held.h"

#include <pthread.h>
#include <stdlib.h>

static const char key[] = real_key("cancel");

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
        ck_assert(real_soon_shows(NULL, key, redlock_lock_token(held)));
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

REAL_PROGRAM("real_cancel")
