/* Renewal on real servers. A lock with a short ttl lives until it is released. Renewals of many locks share commands.
 * held_guard_test.c has the healing of nodes that lose keys, held_loss_test.c the end of a lock. */
#include "real/held.h"

#include <stdio.h>
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

/* --- One lock --- */

REAL_CASE(one, real_bare_case, NULL);
REAL_CASE(many, real_bare_case, NULL);

/* One client holds a lock with a short ttl and one with a long ttl. On one node, another client has set the key: it
 * stays as it is. */
TEST(one, each_lock_is_renewed_in_its_own_time_and_no_other_key)
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
TEST(one, a_node_that_is_healed_twice_is_released)
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

/* --- Many locks --- */

static void hold_many(redlock_lock **locks, unsigned count)
{
    char name[40];
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, real_key("many%u"), i);
        held_take(&scene, name);
        locks[i] = scene.lock;
    }
}

/* bench hold does this with 100,000 locks. A command renews up to 64 keys. Locks that are due at other times need some
 * more commands, although they wait for others. */
TEST(many, renewals_of_thousands_travel_together)
{
    enum { LOCKS = 2000, MANY_TTL_MS = 15000, LEAST_KEYS = 8 };
    static redlock_lock *locks[LOCKS];
    long long keys[HELD_NODES], commands[HELD_NODES];
    begin(_i, MANY_TTL_MS);
    hold_many(locks, LOCKS);
    face_idle(scene.face, 100); /* time for late grants */
    for (size_t node = 0; node < HELD_NODES; node++) {
        keys[node] = real_calls(node, "pexpire");
        commands[node] = real_calls(node, "evalsha");
    }
    held_await_more(scene.face, HELD_COUNTER(renewed), LOCKS);
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0);
    for (size_t node = 0; node < HELD_NODES; node++) {
        long long more_keys = real_calls(node, "pexpire") - keys[node];
        long long more_commands = real_calls(node, "evalsha") - commands[node];
        ck_assert_int_gt(more_keys, 0);
        ck_assert_msg(more_commands * 64 >= more_keys && more_commands * LEAST_KEYS <= more_keys + LOCKS / 10,
                      "node %zu: %lld commands for %lld keys", node, more_commands, more_keys);
        ck_assert_uint_eq(cluster_keys(cluster, node, NULL, deployment_marks), LOCKS);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        ck_assert_int_gt(redlock_validity_ms(locks[i]), 0);
        held_release(scene.face, &locks[i]);
    }
    ck_assert(real_nothing_left(scene.face));
}

REAL_FAULTS_PROGRAM("held_renewal")
