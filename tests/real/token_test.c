/* Locks that one client passes to another by their token, with each way to call, on real servers. */
#define _GNU_SOURCE
#include "real/clients.h"

#include "support/clock.h"

#include <stdio.h>
#include <string.h>

enum { NODES = 5, SHORT_TTL_MS = 4000 };

static struct face *open_face(int kind, uint32_t leave_locks)
{
    redlock_options options = face_options();
    options.leave_locks = leave_locks;
    options.renewal_percent = 33;
    return face_open_ready((enum face_kind)kind, deployment_nodes(real_nodes), &options);
}

/* A client acquires the lock, reports its token, and is closed. */
static void acquire_and_go(int kind, const char *key, uint32_t ttl_ms, char *token)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    struct face *face = open_face(kind, 1);
    redlock_lock *lock;
    options.ttl_ms = ttl_ms;
    options.no_renewal = 1;
    options.all_answers = 1;
    real_status(face_acquire(face, key, &options, &lock, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(result.granted, NODES);
    snprintf(token, REDLOCK_TOKEN_SIZE, "%s", redlock_lock_token(lock));
    face_close(&face, NULL);
    ck_assert(real_shows_everywhere(key, token)); /* at once: every node had replied */
}

struct lock_until {
    const redlock_lock *lock;
    uint64_t until_ns;
};

static bool has_lived(void *arg)
{
    const struct lock_until *wanted = arg;
    ck_assert_int_gt(redlock_validity_ms(wanted->lock), 0);
    return test_now_ns() > wanted->until_ns;
}

START_TEST(an_adopted_lock_is_renewed_and_released)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    const char *key = real_key("adopted");
    char token[REDLOCK_TOKEN_SIZE];
    redlock_lock *lock;
    acquire_and_go(_i, key, SHORT_TTL_MS, token);
    struct face *face = open_face((_i + 1) % FACES, 0);
    options.ttl_ms = SHORT_TTL_MS;
    real_status(face_adopt(face, key, &options, token, &lock, &result), REDLOCK_OK, &result);
    ck_assert_int_le(result.validity_ms, SHORT_TTL_MS);
    ck_assert_str_eq(redlock_lock_token(lock), token);
    struct lock_until wanted = {lock, test_deadline_ns(SHORT_TTL_MS + SHORT_TTL_MS / 4)};
    ck_assert(face_wait(face, has_lived, &wanted, REAL_SOON_MS));
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    ck_assert(real_nothing_left(face));
    face_close(&face, NULL);
}
END_TEST

START_TEST(adopting_is_what_extends_a_lock_by_its_token)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    const char *key = real_key("extended");
    char token[REDLOCK_TOKEN_SIZE];
    redlock_lock *lock;
    acquire_and_go(_i, key, 10000, token);
    struct face *face = open_face(_i, 1);
    options.ttl_ms = 30000;
    options.no_renewal = 1;
    real_status(face_adopt(face, key, &options, token, &lock, &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_gt(deployment_integer(real_nodes, i, "PTTL", key, NULL), 20000);
    face = open_face(_i, 0);
    real_status(face_release_token(face, key, token, &result), REDLOCK_OK, &result);
    ck_assert(real_shows_everywhere(key, "(nil)")); /* at once: every node had replied */
    real_status(face_release_token(face, key, token, &result), REDLOCK_LOST, &result);
    real_status(face_adopt(face, key, NULL, token, &lock, &result), REDLOCK_LOST, &result);
    ck_assert_ptr_null(lock);
    face_close(&face, NULL);
}
END_TEST

/* --- Waiters --- */

struct counted {
    struct face *face;
    const char *key;
    uint32_t waiters;
};

static bool shows_waiters(void *arg)
{
    struct counted *counted = arg;
    redlock_state state;
    real_status(face_query(counted->face, counted->key, &state, &result), REDLOCK_OK, &result);
    for (size_t i = 0; i < NODES; i++)
        if (state.node[i].waiters != (int32_t)counted->waiters)
            return false;
    return state.waiters == counted->waiters;
}

START_TEST(a_query_counts_who_waits)
{
    struct face *holder = open_face(_i, 0), *faces[3];
    struct counted counted = {holder, real_key("awaited"), 0};
    struct waiter waiters[3];
    redlock_lock *lock;
    real_status(face_acquire(holder, counted.key, NULL, &lock, &result), REDLOCK_OK, &result);
    ck_assert(shows_waiters(&counted));
    for (size_t i = 0; i < 3; i++) {
        faces[i] = open_face(BLOCKING_FACE, 0);
        waiter_start(&waiters[i], face_client(faces[i]), counted.key,
                     (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT);
    }
    counted.waiters = 3;
    ck_assert(face_wait(holder, shows_waiters, &counted, REAL_SOON_MS));
    /* A dead waiter does not count when its entry has expired. */
    deployment_command(real_nodes, 0, NULL, 0, "ZADD", real_key("awaited") ":redlock:queue", "1", "dead", NULL);
    ck_assert(shows_waiters(&counted));
    real_status(face_release(holder, &lock, &result), REDLOCK_OK, &result);
    waiters_finish_and_release(waiters, 3);
    for (size_t i = 0; i < 3; i++)
        face_close(&faces[i], NULL);
    counted.waiters = 0;
    ck_assert(face_wait(holder, shows_waiters, &counted, REAL_SOON_MS));
    face_close(&holder, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_token");
    TCase *tcase = real_shared_case(suite, "tokens");
    tcase_add_loop_test(tcase, an_adopted_lock_is_renewed_and_released, 0, FACES);
    tcase_add_loop_test(tcase, adopting_is_what_extends_a_lock_by_its_token, 0, FACES);
    tcase_add_loop_test(tcase, a_query_counts_who_waits, 0, FACES);
    return real_run(suite, false);
}
