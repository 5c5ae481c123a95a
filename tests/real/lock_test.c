/* One lock on real servers without faults, with each way to call: the documented guarantees. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5, QUORUM = 3, TTL_MS = 60000, NANOSECONDS = 1000000 };

static redlock_result result;

static struct face *open_face(int kind)
{
    return face_open_ready((enum face_kind)kind, deployment_nodes(real_nodes), NULL);
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

static void refuse(struct face *face, const char *key, int status)
{
    redlock_lock *lock;

    real_status(face_acquire(face, key, NULL, &lock, &result), status, &result);
    ck_assert_ptr_null(lock);
}

static int64_t pttl(size_t node, const char *key)
{
    return deployment_integer(real_nodes, node, "PTTL", key, NULL);
}

static bool lock_is_over(void *lock)
{
    return redlock_validity_ms(lock) == 0;
}

static bool is_free_everywhere(void *key)
{
    return real_shows_everywhere(key, "(nil)");
}

/* --- Acquire and release --- */

START_TEST(a_lock_is_its_token_on_every_node)
{
    struct face *face = open_face(_i);
    const char *key = real_key("token");
    redlock_lock *lock = acquire(face, key, NULL);

    ck_assert_uint_eq(result.nodes, NODES);
    ck_assert_uint_eq(result.quorum, QUORUM);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert_uint_eq(result.held + result.absent + result.refused + result.unreachable + result.timed_out, 0);
    ck_assert_uint_eq(result.attempts, 1);
    ck_assert_int_gt(result.validity_ms, 0);
    ck_assert_uint_eq(strlen(redlock_lock_token(lock)), REDLOCK_TOKEN_SIZE - 1);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    release(face, &lock);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert(real_nothing_left(face));
    close_face(face);
}
END_TEST

START_TEST(two_clients_exclude_each_other)
{
    struct face *first = open_face(_i);
    struct face *second = open_face((_i + 1) % FACES);
    const char *key = real_key("two");
    redlock_lock *lock = acquire(first, key, NULL);

    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    refuse(second, key, REDLOCK_HELD);
    ck_assert_uint_ge(result.held, QUORUM);
    ck_assert_uint_eq(result.granted, 0);
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    ck_assert_int_eq(redlock_held_by_me(face_client(first), key, 0), 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(second), key, 0), 0);
    release(first, &lock);
    ck_assert(real_nothing_left(first));
    lock = acquire(second, key, NULL);
    refuse(first, key, REDLOCK_HELD);
    release(second, &lock);
    close_face(first);
    close_face(second);
}
END_TEST

START_TEST(a_foreign_lock_on_a_majority_excludes_ours)
{
    struct face *face = open_face(_i);
    const char *key = real_key("foreign");

    for (size_t i = 0; i < QUORUM; i++)
        ck_assert(real_foreign_set(i, key, "theirs"));
    refuse(face, key, REDLOCK_HELD);
    ck_assert_uint_eq(result.held, QUORUM);
    for (size_t i = 0; i < QUORUM; i++)
        real_delete(i, key);
    ck_assert(real_nothing_left(face));
    close_face(face);
}
END_TEST

START_TEST(our_lock_excludes_a_foreign_one)
{
    struct face *face = open_face(_i);
    const char *key = real_key("ours");
    redlock_lock *lock = acquire(face, key, NULL);

    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    for (size_t i = 0; i < NODES; i++)
        ck_assert(!real_foreign_set(i, key, "theirs"));
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    release(face, &lock);
    close_face(face);
}
END_TEST

START_TEST(a_name_may_hold_any_byte)
{
    struct face *face = open_face(_i);
    char name[REDLOCK_RESOURCE_MAX];
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock;
    size_t size;

    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = (char)i;
    memcpy(name, DEPLOYMENT_PREFIX, strlen(DEPLOYMENT_PREFIX));
    options.resource_size = sizeof(name);
    real_status(face_acquire(face, name, &options, &lock, &result), REDLOCK_OK, &result);
    ck_assert_mem_eq(redlock_lock_resource(lock, &size), name, sizeof(name));
    ck_assert_uint_eq(size, sizeof(name));
    ck_assert_int_eq(redlock_held_by_me(face_client(face), name, sizeof(name)), 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(face), name, sizeof(name) - 1), 0);
    redlock_lock *other = acquire(face, real_key(""), NULL); /* a prefix of the other lock's name */
    release(face, &other);
    release(face, &lock);
    close_face(face);
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
        int64_t left = pttl(i, key);
        int64_t passed = (int64_t)((test_now_ns() - before) / NANOSECONDS) + 1;
        ck_assert_msg(left + passed + 2 >= validity + drift, "node %zu: %lld ms left, valid for %lld", i,
                      (long long)left, (long long)validity);
    }
}

/* When the node's key ends, in ms; at most a little too early. */
static int64_t end_of(size_t node, const char *key)
{
    return (int64_t)(test_now_ns() / NANOSECONDS) + pttl(node, key);
}

struct lengthened {
    const char *key;
    int64_t end;
};

static bool is_lengthened(void *arg)
{
    const struct lengthened *lengthened = arg;

    for (size_t i = 0; i < NODES; i++)
        if (end_of(i, lengthened->key) <= lengthened->end)
            return false;
    return true;
}

/* A majority decides an extension; the other nodes execute it a moment later. */
static void await_extension(struct face *face, const char *key, int64_t end)
{
    struct lengthened lengthened = {key, end};

    ck_assert_msg(face_wait(face, is_lengthened, &lengthened, REAL_SOON_MS), "not lengthened everywhere");
}

START_TEST(a_lock_is_valid_for_less_than_the_nodes_keep_it)
{
    static const uint32_t ttls[] = {8000, 20000, 60000};
    struct face *face = open_face(_i);
    const char *key = real_key("valid");

    for (size_t t = 0; t < 3; t++) {
        redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
        options.ttl_ms = ttls[t];
        redlock_lock *lock = acquire(face, key, &options);
        ck_assert_int_le(result.validity_ms, ttls[t] - ttls[t] / 100 - 2);
        ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
        for (int round = 0; round < 5; round++)
            assert_covered(lock, key, ttls[t]);
        int64_t last = 0;
        for (size_t i = 0; i < NODES; i++) {
            int64_t left = pttl(i, key), end = (int64_t)(test_now_ns() / NANOSECONDS) + left;
            last = end > last ? end : last;
        }
        face_idle(face, 10); /* the extension moves the end by at least this much */
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        await_extension(face, key, last + 3);
        assert_covered(lock, key, ttls[t]);
        release(face, &lock);
        ck_assert(real_nothing_left(face));
    }
    close_face(face);
}
END_TEST

/* --- Extend --- */

START_TEST(an_extension_never_shortens)
{
    struct face *face = open_face(_i);
    const char *key = real_key("shorter");
    redlock_lock *lock = acquire(face, key, NULL);

    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
    real_status(face_extend(face, lock, 1000, &result), REDLOCK_OK, &result);
    ck_assert_int_gt(redlock_validity_ms(lock), TTL_MS / 2);
    face_idle(face, 5);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_gt(pttl(i, key), TTL_MS / 2);
    release(face, &lock);
    close_face(face);
}
END_TEST

/* --- Loss --- */

START_TEST(what_is_lost_does_not_touch_the_next_holder)
{
    struct face *late = open_face(_i);
    struct face *next = open_face((_i + 1) % FACES);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    const char *key = real_key("next");

    options.ttl_ms = 300;
    options.wait_ms = REDLOCK_FOREVER;
    redlock_lock *lost = acquire(late, key, &options);
    redlock_lock *lock = acquire(next, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    ck_assert_int_eq(redlock_validity_ms(lost), 0); /* otherwise two clients hold the lock */
    ck_assert(face_wait(next, lock_is_over, lost, REAL_SOON_MS));
    real_status(face_extend(late, lost, 0, &result), REDLOCK_LOST, &result);
    real_status(face_release(late, &lost, &result), REDLOCK_LOST, &result);
    face_idle(late, 10);
    for (size_t i = 0, shown = 0; i < NODES; i++) {
        char value[64];
        deployment_command(real_nodes, i, value, sizeof(value), "GET", key, NULL);
        shown += strcmp(value, redlock_lock_token(lock)) == 0;
        ck_assert(i < NODES - 1 || shown >= QUORUM);
    }
    real_status(face_extend(next, lock, 0, &result), REDLOCK_OK, &result);
    release(next, &lock);
    close_face(late);
    close_face(next);
}
END_TEST

/* --- Query --- */

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
    refuse(face, key, REDLOCK_HELD);
    face_idle(face, 10);
    for (size_t i = 0; i < NODES; i++) {
        ck_assert_int_eq(deployment_integer(real_nodes, i, "LLEN", key, NULL), 1);
        real_delete(i, key);
    }
    close_face(face);
}
END_TEST

/* --- Closing --- */

START_TEST(closing_releases_what_is_held)
{
    struct face *face = open_face(_i);

    for (int i = 0; i < 20; i++) {
        char key[32];
        snprintf(key, sizeof(key), real_key("close%d"), i);
        acquire(face, key, NULL);
    }
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(deployment_keys_left(real_nodes), 0); /* at once: the close has waited for every node */
}
END_TEST

START_TEST(closing_leaves_what_is_held_if_told_to)
{
    redlock_options options = face_options();
    const char *key = real_key("left");
    char token[REDLOCK_TOKEN_SIZE];

    options.leave_locks = 1;
    struct face *face = face_open_ready((enum face_kind)_i, deployment_nodes(real_nodes), &options);
    redlock_lock *lock = acquire(face, key, NULL);
    snprintf(token, sizeof(token), "%s", redlock_lock_token(lock));
    ck_assert(real_soon_everywhere(key, token));
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
    ck_assert(real_shows_everywhere(key, token));
    for (size_t i = 0; i < NODES; i++)
        real_delete(i, key);
}
END_TEST

/* Many locks in a row: each leaves no key, and frees the resource for the next. */
START_TEST(many_in_a_row)
{
    struct face *face = open_face(_i);
    char key[] = real_key("row");

    for (int i = 0; i < 500; i++) {
        redlock_lock *lock = acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
        release(face, &lock);
    }
    ck_assert(face_wait(face, is_free_everywhere, key, REAL_SOON_MS));
    close_face(face);
}
END_TEST

static Suite *lock_suite(void)
{
    Suite *suite = suite_create("real_lock");
    TCase *tcase = real_shared_case(suite, "lock");

    tcase_add_loop_test(tcase, a_lock_is_its_token_on_every_node, 0, FACES);
    tcase_add_loop_test(tcase, two_clients_exclude_each_other, 0, FACES);
    tcase_add_loop_test(tcase, a_foreign_lock_on_a_majority_excludes_ours, 0, FACES);
    tcase_add_loop_test(tcase, our_lock_excludes_a_foreign_one, 0, FACES);
    tcase_add_loop_test(tcase, a_name_may_hold_any_byte, 0, FACES);
    tcase_add_loop_test(tcase, a_lock_is_valid_for_less_than_the_nodes_keep_it, 0, FACES);
    tcase_add_loop_test(tcase, an_extension_never_shortens, 0, FACES);
    tcase_add_loop_test(tcase, what_is_lost_does_not_touch_the_next_holder, 0, FACES);
    tcase_add_loop_test(tcase, a_query_shows_what_is_no_lock, 0, FACES);
    tcase_add_loop_test(tcase, a_key_of_another_kind_is_held_by_another, 0, FACES);
    tcase_add_loop_test(tcase, closing_releases_what_is_held, 0, FACES);
    tcase_add_loop_test(tcase, closing_leaves_what_is_held_if_told_to, 0, FACES);
    tcase_add_loop_test(tcase, many_in_a_row, 0, FACES);
    return suite;
}

int main(void)
{
    return real_run(lock_suite(), false);
}
