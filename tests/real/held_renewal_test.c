/* Renewal on real servers. tests/fake/renewal_test.c has many locks, whose renewals share commands, held_guard_test.c the
 * healing of nodes that lose keys, held_loss_test.c the end of a lock. */
#include "real/held.h"

#include <string.h>

/* A busy machine may delay a renewal, but not by most of a ttl. */
enum { TTL_MS = 3000, LONG_TTL_MS = 40000 };

static const char key[] = real_key("renewed");
static struct held_scene scene;

/* A silent node is given up before the lock ends, but not before the next renewal. */
static void begin(int i, uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, 0);
    options.node_timeout_ms = ttl_ms / 2;
    options.silence_limit_ms = options.connect_timeout_ms = ttl_ms;
    options.max_ttl_ms = 60000;
    held_begin(&scene, i, &options);
}

static void assert_held(void)
{
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0);
    ck_assert_int_gt(redlock_validity_ms(scene.lock), 0);
    held_everywhere(scene.face, key, scene.lock);
}

REAL_CASE(renewal, real_bare_case, NULL);

/* One client holds a lock with a short ttl and one with a long ttl. On one node, another client has set the key: it
 * stays as it is. */
TEST(renewal, each_lock_is_renewed_in_its_own_time_and_no_other_key)
{
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    char value[64];
    begin(_i, TTL_MS);
    held_take_everywhere(&scene, key);
    ck_assert(cluster_command(cluster, 0, NULL, 0, "SET", key, "theirs", NULL));
    acquire.ttl_ms = LONG_TTL_MS;
    redlock_lock *slow = held_acquire(scene.face, real_key("slow"), &acquire);
    face_idle(scene.face, 3 * TTL_MS);
    ck_assert(!held_is_lost(&scene.story));
    ck_assert_int_gt(redlock_validity_ms(scene.lock), 0);
    ck_assert_int_lt(redlock_validity_ms(slow), LONG_TTL_MS - 2 * TTL_MS); /* not renewed together with the other */
    ck_assert(cluster_command(cluster, 0, value, sizeof value, "GET", key, NULL));
    ck_assert_str_eq(value, "theirs");
    ck_assert_int_eq(cluster_integer(cluster, 0, "PTTL", key, NULL), -1);
    cluster_integer(cluster, 0, "DEL", key, NULL);
    held_everywhere(scene.face, key, scene.lock);
    ck_assert(cluster_command(cluster, 0, NULL, 0, "SET", key, "theirs", NULL));
    held_release(scene.face, &slow);
    held_release(scene.face, &scene.lock);
    held_close(scene.face); /* waits for every node */
    ck_assert(cluster_command(cluster, 0, value, sizeof value, "GET", key, NULL));
    ck_assert_str_eq(value, "theirs");
    cluster_integer(cluster, 0, "DEL", key, NULL);
}

/* While one renewal waits for a silent node, the next one begins, and also finds the key missing on the other node. The
 * second healing then finds the key set. The client must know that this node has it, because a release goes only to
 * nodes that may have the key. */
TEST(renewal, a_node_that_is_healed_twice_is_released)
{
    begin(_i, TTL_MS);
    held_take_everywhere(&scene, key);
    cluster_stop(cluster, 3);
    cluster_flush(cluster, 4);
    held_await_more(scene.face, HELD_COUNTER(healed), 1);
    held_await_more(scene.face, HELD_COUNTER(renewed), 3);
    cluster_resume(cluster, 3);
    assert_held();
    real_status(face_extend(scene.face, scene.lock, 6 * REAL_SOON_MS, &result), REDLOCK_OK, &result);
    held_end(&scene, REDLOCK_OK); /* the key would not expire by itself for a minute */
}

REAL_FAULTS_PROGRAM("held_renewal")
