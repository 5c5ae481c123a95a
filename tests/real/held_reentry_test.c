/* An owner re-enters its lock, on real servers: any number of times, without a request to the nodes unless the lock has
 * to be extended. Each handle is released once. tests/fake/owner_test.c has threads as owners. */
#include "real/held.h"

enum { TTL_MS = 20000 };

static const char key[] = real_key("again");
static const char owner[] = "somebody", other_owner[] = "somebody else";
static struct held_scene scene;

static void begin(int i, uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, 0);
    options.renewal_percent = 0;
    options.max_ttl_ms = 60000;
    held_begin(&scene, i, &options);
    scene.acquire.owner = owner;
}

static redlock_lock *take(void)
{
    return held_acquire(scene.face, key, &scene.acquire);
}

static void refuse(const void *by, int status)
{
    redlock_acquire_options acquire = scene.acquire;
    acquire.owner = by;
    acquire.wait_ms = 0;
    held_refuse(scene.face, key, &acquire, status);
}

/* The commands that acquires, extensions and releases have made the nodes execute. */
static long long calls(void)
{
    long long total = 0;
    for (size_t i = 0; i < HELD_NODES; i++)
        total += real_calls(i, "set") + real_calls(i, "evalsha") + real_calls(i, "eval");
    return total;
}

REAL_CASE(reentry, real_bare_case, NULL);

TEST_ROWS(reentry, owner_reenters_its_lock_without_a_request, FACES)
{
    enum { TIMES = 10 };
    redlock_lock *locks[TIMES];
    begin(_i, TTL_MS);
    held_take_everywhere(&scene, key);
    locks[0] = scene.lock;
    long long before = calls();
    for (uint32_t i = 1; i < TIMES; i++) {
        locks[i] = take();
        ck_assert_ptr_ne(locks[i], locks[i - 1]);
        ck_assert_uint_eq(redlock_hold_count(locks[0]), i + 1);
        ck_assert_str_eq(redlock_lock_token(locks[i]), redlock_lock_token(locks[0]));
    }
    for (uint32_t i = 0; i + 1 < TIMES; i++) { /* the first handle is like the others */
        held_release(scene.face, &locks[i]);
        ck_assert_uint_eq(redlock_hold_count(locks[TIMES - 1]), TIMES - 1 - i);
        ck_assert_int_eq(redlock_held_by_me(face_client(scene.face), key, 0), 1);
    }
    ck_assert_int_eq(calls(), before);
    refuse(other_owner, REDLOCK_HELD);
    if (face_of(_i) != BLOCKING_FACE) /* where a thread is an owner */
        refuse(NULL, REDLOCK_HELD);
    ck_assert_int_gt(calls(), before);
    scene.lock = locks[TIMES - 1];
    ck_assert_uint_eq(redlock_hold_count(scene.lock), 1);
    held_end(&scene, REDLOCK_OK);
}

/* Both handles see the new end: if more validity is asked for than is left, and if the new ttl is longer. An acquire
 * never shortens the validity. */
TEST_ROWS(reentry, reentry_extends_a_lock_that_is_too_short, FACES)
{
    begin(_i, 5000);
    held_take_everywhere(&scene, key);
    real_until(scene.face, redlock_validity_ms(scene.lock) < 2500); /* half of it */
    scene.acquire.minimum_validity_ms = 3000;
    redlock_lock *second = take();
    ck_assert_int_gt(redlock_validity_ms(scene.lock), 3000);
    scene.acquire.ttl_ms = 2 * TTL_MS;
    redlock_lock *third = take();
    ck_assert_int_gt(redlock_validity_ms(scene.lock), 3 * TTL_MS / 2);
    scene.acquire.ttl_ms = TTL_MS / 2;
    redlock_lock *fourth = take();
    ck_assert_int_gt(redlock_validity_ms(fourth), 3 * TTL_MS / 2);
    ck_assert_uint_eq(redlock_hold_count(scene.lock), 4);
    held_release(scene.face, &second);
    held_release(scene.face, &third);
    held_release(scene.face, &fourth);
    held_end(&scene, REDLOCK_OK);
}

/* Each handle has its own callback. The outer section has lost its protection: no inner section may begin until the
 * outer one has ended, too. */
TEST_ROWS(reentry, a_lost_lock_is_not_reentered_before_all_handles_are_released, FACES)
{
    struct held_story stories[2];
    redlock_lock *locks[2];
    begin(_i, 1000);
    for (unsigned i = 0; i < 2; i++) {
        scene.acquire = held_acquire_options(&stories[i]);
        scene.acquire.owner = owner;
        locks[i] = take();
    }
    for (unsigned i = 0; i < 2; i++)
        real_until(scene.face, held_is_lost(&stories[i]));
    face_idle(scene.face, 20); /* a second notification would arrive now */
    refuse(owner, REDLOCK_LOST);
    held_result_says("release all its handles first");
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(atomic_load(&stories[i].lost), 1);
        ck_assert_ptr_eq(stories[i].lock, locks[i]);
        ck_assert_uint_eq(redlock_hold_count(locks[1]), 2 - i);
        refuse(owner, REDLOCK_LOST);
        real_status(face_release(scene.face, &locks[i], &result), REDLOCK_LOST, &result);
    }
    scene.acquire.ttl_ms = TTL_MS;
    held_take(&scene, key); /* waits, because the nodes' keys outlive the lock by the drift */
    ck_assert_uint_eq(redlock_hold_count(scene.lock), 1);
    held_end(&scene, REDLOCK_OK);
}

REAL_PROGRAM("held_reentry")
