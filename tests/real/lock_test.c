/* One lock on real servers without faults, with each way to call: the documented guarantees. */
#include "real/real.h"

#include "support/clock.h"

#include <string.h>

enum { NODES = 5, QUORUM = 3, NANOSECONDS = 1000000 };

static redlock_result result;

static struct face *open_face(int i)
{
    return face_open_ready(face_of(i), deployment_nodes(real_nodes), NULL);
}

static void close_face(struct face *face)
{
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(result.pending_undos, 0);
}

static redlock_lock *acquire(struct face *face, const char *key, const redlock_acquire_options *options)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, options, &lock, &result), REDLOCK_OK, &result);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

static void release(struct face *face, redlock_lock **lock)
{
    real_status(face_release(face, lock, &result), REDLOCK_OK, &result);
    ck_assert_ptr_null(*lock);
}

static void refuse(struct face *face, const char *key)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_HELD, &result);
    ck_assert_ptr_null(lock);
    ck_assert_uint_ge(result.held, QUORUM);
    ck_assert_uint_eq(result.granted, 0);
}

START_TEST(a_lock_is_its_token_on_every_node_and_excludes_another)
{
    struct face *first = open_face(_i), *second = open_face(_i + 1);
    const char *key = real_key("two");
    redlock_lock *lock = acquire(first, key, NULL);
    ck_assert_uint_eq(result.nodes, NODES);
    ck_assert_uint_eq(result.quorum, QUORUM);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert_uint_eq(result.held + result.absent + result.refused + result.unreachable + result.timed_out, 0);
    ck_assert_uint_eq(result.attempts, 1);
    ck_assert_int_gt(result.validity_ms, 0);
    ck_assert_uint_eq(strlen(redlock_lock_token(lock)), REDLOCK_TOKEN_SIZE - 1);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    refuse(second, key);
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    ck_assert_int_eq(redlock_held_by_me(face_client(first), key, 0), 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(second), key, 0), 0);
    release(first, &lock);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert(real_nothing_left(first));
    lock = acquire(second, key, NULL);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    refuse(first, key);
    release(second, &lock);
    close_face(first);
    close_face(second);
}
END_TEST

/* --- Validity --- */

/* A node's key always outlives the holder's validity by the drift allowance. 2 ms are for rounding. */
static void assert_covered(redlock_lock *lock, const char *key, uint32_t ttl_ms)
{
    int64_t drift = ttl_ms / 100 + 2;
    for (size_t i = 0; i < NODES; i++) {
        uint64_t before = test_now_ns();
        int64_t validity = redlock_validity_ms(lock);
        int64_t left = deployment_integer(real_nodes, i, "PTTL", key, NULL);
        int64_t passed = (int64_t)((test_now_ns() - before) / NANOSECONDS) + 1;
        ck_assert_msg(left + passed + 2 >= validity + drift, "node %zu: %lld ms left, valid for %lld", i,
                      (long long)left, (long long)validity);
    }
}

START_TEST(a_lock_is_valid_for_less_than_the_nodes_keep_it)
{
    enum { TTL_MS = 20000, ROUNDS = 5 };
    struct face *face = open_face(_i);
    const char *key = real_key("valid");
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = TTL_MS;
    redlock_lock *lock = acquire(face, key, &options);
    ck_assert_int_le(result.validity_ms, TTL_MS - TTL_MS / 100 - 2);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    for (int round = 0; round < ROUNDS; round++)
        assert_covered(lock, key, TTL_MS);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    ck_assert_int_le(result.validity_ms, TTL_MS - TTL_MS / 100 - 2);
    release(face, &lock);
    close_face(face);
}
END_TEST

/* --- Keys that are no lock of this library --- */

START_TEST(a_query_shows_what_is_no_lock)
{
    struct face *face = open_face(_i);
    const char *key = real_key("odd");
    redlock_state state;
    ck_assert(real_foreign_set(0, key, "theirs"));
    ck_assert(real_foreign_set(1, key, "theirs"));
    deployment_command(real_nodes, 2, NULL, 0, "RPUSH", key, "element", NULL);
    deployment_command(real_nodes, 3, NULL, 0, "SET", key, "line\nbreak", NULL);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.locked, 0);
    ck_assert_uint_eq(state.locked_nodes, 2);
    ck_assert_uint_eq(state.free_nodes, 1);
    ck_assert_int_eq(state.remaining_ms, 0);
    ck_assert_str_eq(state.token, "theirs");
    ck_assert_str_eq(state.node[2].token, "(not a string)");
    ck_assert_str_eq(state.node[3].token, "line\\x0abreak");
    ck_assert(state.node[3].remaining_ms == REDLOCK_STATE_NO_EXPIRY);
    for (size_t i = 0; i < NODES; i++)
        real_delete(i, key);
    close_face(face);
}
END_TEST

START_TEST(a_key_of_another_kind_is_held_by_another)
{
    struct face *face = open_face(_i);
    const char *key = real_key("list");
    for (size_t i = 0; i < NODES; i++)
        deployment_command(real_nodes, i, NULL, 0, "RPUSH", key, "element", NULL);
    refuse(face, key);
    close_face(face); /* undoes what there is to undo */
    for (size_t i = 0; i < NODES; i++) {
        ck_assert_int_eq(deployment_integer(real_nodes, i, "LLEN", key, NULL), 1);
        real_delete(i, key);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_lock");
    TCase *tcase = real_shared_case(suite, "lock");
    tcase_add_loop_test(tcase, a_lock_is_its_token_on_every_node_and_excludes_another, 0, FACES);
    tcase_add_loop_test(tcase, a_lock_is_valid_for_less_than_the_nodes_keep_it, 0, FACES);
    tcase_add_loop_test(tcase, a_query_shows_what_is_no_lock, 0, FACES);
    tcase_add_loop_test(tcase, a_key_of_another_kind_is_held_by_another, 0, FACES);
    return real_run(suite, false);
}
