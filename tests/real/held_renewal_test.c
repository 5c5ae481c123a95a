/* Renewal on real servers. A lock with a short ttl lives until it is released. Renewals of many locks share commands. A
 * node that lost the key gets it again, but only while a majority has it. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A busy machine may delay a renewal, but not by most of a ttl. */
enum { TTL_MS = 3000, LONG_TTL_MS = 40000 };

static const char key[] = real_key("renewed");
static redlock_result result;

struct scene {
    struct cluster *cluster;
    struct face *face;
    struct held_story story;
    redlock_acquire_options acquire;
    redlock_lock *lock;
};

/* A silent node is given up before the lock ends, but not before the next renewal. */
static redlock_options options_for_ttl(uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, 0);

    options.node_timeout_ms = ttl_ms / 2;
    options.silence_limit_ms = options.connect_timeout_ms = ttl_ms;
    options.max_ttl_ms = 60000;
    return options;
}

/* Acquires a lock on every node. */
static void begin(struct scene *scene, int i, uint32_t ttl_ms, uint32_t no_renewal)
{
    redlock_options options = options_for_ttl(ttl_ms);

    memset(scene, 0, sizeof(*scene));
    scene->cluster = real_cluster(HELD_NODES, NULL);
    scene->face = held_open_trusted(face_of(i), cluster_nodes_string(scene->cluster), &options);
    scene->acquire = held_acquire_options(&scene->story);
    scene->acquire.no_renewal = no_renewal;
    scene->lock = held_acquire(scene->face, key, &scene->acquire);
    held_everywhere(scene->face, scene->cluster, key, scene->lock);
}

static void end(struct scene *scene, int status)
{
    real_status(face_release(scene->face, &scene->lock, &result), status, &result);
    ck_assert(real_nothing_left(scene->face));
    held_close(scene->face);
}

static int64_t pttl(struct scene *scene, size_t node)
{
    return cluster_integer(scene->cluster, node, "PTTL", key, NULL);
}

static bool is_lost(void *arg)
{
    struct scene *scene = arg;

    return atomic_load(&scene->story.lost) >
           0; /* redlock_validity_ms() is 0 slightly before the loss, because it counts whole milliseconds */
}

static void assert_held(struct scene *scene)
{
    ck_assert_uint_eq(atomic_load(&scene->story.lost), 0);
    ck_assert_int_gt(redlock_validity_ms(scene->lock), 0);
    held_everywhere(scene->face, scene->cluster, key, scene->lock);
}

/* --- Keeping a lock --- */

/* One client holds a lock with a short ttl and one with a long ttl. */
START_TEST(each_lock_is_renewed_in_its_own_time)
{
    struct scene scene;
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);

    begin(&scene, _i, TTL_MS, 0);
    acquire.ttl_ms = LONG_TTL_MS;
    redlock_lock *slow = held_acquire(scene.face, real_key("slow"), &acquire);
    ck_assert(!face_wait(scene.face, is_lost, &scene, 3 * TTL_MS));
    assert_held(&scene);
    ck_assert_int_lt(redlock_validity_ms(slow), LONG_TTL_MS - 2 * TTL_MS); /* not renewed together with the other */
    ck_assert_uint_eq(atomic_load(&story.lost), 0);
    held_release(scene.face, &slow);
    end(&scene, REDLOCK_OK);
}
END_TEST

START_TEST(without_renewal_it_ends)
{
    struct scene scene;

    begin(&scene, _i, TTL_MS, 1);
    ck_assert(face_wait(scene.face, is_lost, &scene, REAL_SOON_MS));
    held_settle(scene.face);
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_LOSS_EXPIRED);
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 1);
    ck_assert_uint_eq(atomic_load(&scene.story.failing), 0);
    end(&scene, REDLOCK_LOST);
}
END_TEST

struct promise {
    struct scene *scene;
    uint64_t end_ns; /* the latest end of validity that the client has shown */
};

static bool is_lost_after_promises(void *arg)
{
    struct promise *promise = arg;
    uint64_t now = test_now_ns();
    int64_t left = redlock_validity_ms(promise->scene->lock);
    uint64_t end = now + (uint64_t)left * UINT64_C(1000000);

    if (left > 0 && end > promise->end_ns)
        promise->end_ns = end;
    return is_lost(promise->scene);
}

/* With a cap, lock and keys live longer than the ttl, up to the cap and no longer. */
START_TEST(a_cap_ends_it)
{
    enum { CAP_MS = 5 * TTL_MS / 2 };
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = options_for_ttl(TTL_MS);
    struct scene scene = {.cluster = cluster};
    struct promise promise = {&scene, 0};

    scene.face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    scene.acquire = held_acquire_options(&scene.story);
    scene.acquire.cap_ms = CAP_MS;
    uint64_t before = test_now_ns();
    scene.lock = held_acquire(scene.face, key, &scene.acquire);
    uint64_t acquired = test_now_ns();
    ck_assert(face_wait(scene.face, is_lost_after_promises, &promise, REAL_SOON_MS));
    uint64_t lost = test_now_ns();
    held_settle(scene.face);
    ck_assert_uint_ge(lost - before, (CAP_MS - TTL_MS / 2) * UINT64_C(1000000));
    ck_assert_uint_le(promise.end_ns - acquired, CAP_MS * UINT64_C(1000000));
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_LOSS_EXPIRED);
    ck_assert_uint_eq(atomic_load(&scene.story.failing), 0);
    end(&scene, REDLOCK_LOST);
}
END_TEST

/* --- Healing --- */

/* Two nodes are flushed, one after the other. Each gets the key again. */
START_TEST(what_a_node_has_lost_is_put_back)
{
    struct scene scene;

    begin(&scene, _i, 2 * TTL_MS, 0);
    for (size_t node = 0; node < 2; node++) {
        cluster_flush(scene.cluster, node);
        ck_assert(!held_is_on(scene.cluster, node, key, scene.lock));
        held_everywhere(scene.face, scene.cluster, key, scene.lock);
    }
    assert_held(&scene);
    end(&scene, REDLOCK_OK);
}
END_TEST

struct place {
    struct scene *scene;
    size_t node;
};

static bool is_back(void *arg)
{
    struct place *place = arg;

    return held_is_on(place->scene->cluster, place->node, key, place->scene->lock);
}

/* The restart breaks the connection. So the client notices it long before the next renewal. */
START_TEST(a_restarted_node_is_healed_soon)
{
    struct scene scene;
    struct place place = {&scene, 1};

    begin(&scene, _i, LONG_TTL_MS, 0);
    cluster_restart(scene.cluster, 1);
    uint64_t before = test_now_ns();
    ck_assert(face_wait(scene.face, is_back, &place, REAL_SOON_MS));
    ck_assert_uint_lt(test_now_ns() - before, LONG_TTL_MS / 4 * UINT64_C(1000000));
    assert_held(&scene);
    end(&scene, REDLOCK_OK);
}
END_TEST

/* A majority has lost the key, so the lock is lost. No node gets the key again. */
START_TEST(nothing_is_put_back_without_a_quorum)
{
    struct scene scene;

    begin(&scene, _i, 2 * TTL_MS, 0);
    for (size_t node = 0; node < HELD_QUORUM; node++)
        cluster_flush(scene.cluster, node);
    uint64_t deadline = test_deadline_ns(REAL_SOON_MS);
    while (!is_lost(&scene) && test_now_ns() < deadline) {
        for (size_t node = 0; node < HELD_QUORUM; node++)
            ck_assert_int_eq(cluster_integer(scene.cluster, node, "EXISTS", key, NULL), 0);
        face_idle(scene.face, 5);
    }
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_LOSS_GONE);
    for (size_t node = 0; node < HELD_QUORUM; node++)
        ck_assert_int_eq(cluster_integer(scene.cluster, node, "EXISTS", key, NULL), 0);
    end(&scene, REDLOCK_LOST);
}
END_TEST

static redlock_statistics statistics_of(struct face *face)
{
    redlock_statistics statistics;

    held_settle(face);
    redlock_statistics_get(face_client(face), &statistics);
    return statistics;
}

static bool has_healed(void *face)
{
    return statistics_of(face).healed > 0;
}

struct renewals {
    struct face *face;
    uint64_t count;
};

static bool has_renewed(void *arg)
{
    struct renewals *renewals = arg;

    return statistics_of(renewals->face).renewed >= renewals->count;
}

/* While one renewal waits for a silent node, the next one begins, and also finds the key missing on the other node. The
 * second healing then finds the key set. The client must know that this node has it, because a release goes only to
 * nodes that may have the key. */
START_TEST(a_node_that_is_healed_twice_is_released)
{
    struct scene scene;

    begin(&scene, _i, TTL_MS, 0);
    cluster_stop(scene.cluster, 3);
    cluster_flush(scene.cluster, 4);
    ck_assert(face_wait(scene.face, has_healed, scene.face, REAL_SOON_MS));
    struct renewals more = {scene.face, statistics_of(scene.face).renewed + 3};
    ck_assert(face_wait(scene.face, has_renewed, &more, REAL_SOON_MS));
    cluster_resume(scene.cluster, 3);
    assert_held(&scene);
    real_status(face_extend(scene.face, scene.lock, 6 * REAL_SOON_MS, &result), REDLOCK_OK, &result);
    end(&scene, REDLOCK_OK); /* the key would not expire by itself for a minute */
}
END_TEST

/* Another client has set the key on that node meanwhile. Healing must not touch it. */
START_TEST(another_holders_key_is_left_alone)
{
    struct scene scene;
    char value[64];

    begin(&scene, _i, TTL_MS, 0);
    cluster_integer(scene.cluster, 0, "DEL", key, NULL);
    ck_assert(cluster_command(scene.cluster, 0, NULL, 0, "SET", key, "theirs", NULL));
    face_idle(scene.face, 2 * TTL_MS);
    ck_assert(cluster_command(scene.cluster, 0, value, sizeof(value), "GET", key, NULL));
    ck_assert_str_eq(value, "theirs");
    ck_assert_int_eq(pttl(&scene, 0), -1);
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0);
    cluster_integer(scene.cluster, 0, "DEL", key, NULL);
    end(&scene, REDLOCK_OK);
}
END_TEST

/* --- Many locks --- */

static long long calls_of(struct cluster *cluster, size_t node, const char *command)
{
    char reply[16384], field[64];

    ck_assert(cluster_command(cluster, node, reply, sizeof(reply), "INFO", "commandstats", NULL));
    snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(reply, field);
    return at == NULL ? 0 : strtoll(at + strlen(field), NULL, 10);
}

static void hold_many(struct face *face, redlock_lock **locks, unsigned count, struct held_story *story)
{
    redlock_acquire_options acquire = held_acquire_options(story);
    char name[40];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), real_key("many%u"), i);
        locks[i] = held_acquire(face, name, &acquire);
    }
}

static void release_many(struct face *face, redlock_lock **locks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_gt(redlock_validity_ms(locks[i]), 0);
        held_release(face, &locks[i]);
    }
}

struct counts {
    struct cluster *cluster;
    long long keys[HELD_NODES], commands[HELD_NODES]; /* totals */
    long long more;                                   /* minimum number of further keys */
};

static void count_renewals(struct counts *counts)
{
    for (size_t node = 0; node < HELD_NODES; node++) {
        counts->keys[node] = calls_of(counts->cluster, node, "pexpire");
        counts->commands[node] = calls_of(counts->cluster, node, "evalsha");
    }
}

static bool are_renewed(void *arg)
{
    const struct counts *counts = arg;

    for (size_t node = 0; node < HELD_NODES; node++)
        if (calls_of(counts->cluster, node, "pexpire") < counts->keys[node] + counts->more)
            return false;
    return true;
}

/* 200 locks need at least four commands of 64 keys. Locks that are due at other times need some more commands, although
 * they wait for others. */
START_TEST(renewals_travel_together)
{
    enum { LOCKS = 200, MANY_TTL_MS = 3000, PERIODS = 4, MOST = 25 };
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = options_for_ttl(MANY_TTL_MS);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;
    redlock_lock *locks[LOCKS];
    struct counts before = {.cluster = cluster, .more = PERIODS * LOCKS}, after = {.cluster = cluster};

    hold_many(face, locks, LOCKS, &story);
    face_idle(face, 100); /* time for late grants */
    count_renewals(&before);
    ck_assert(face_wait(face, are_renewed, &before, REAL_SOON_MS));
    count_renewals(&after);
    ck_assert_uint_eq(atomic_load(&story.lost), 0);
    for (size_t node = 0; node < HELD_NODES; node++) {
        long long keys = after.keys[node] - before.keys[node], commands = after.commands[node] - before.commands[node];
        ck_assert_msg(commands * 64 >= keys, "node %zu: %lld keys in %lld commands", node, keys, commands);
        ck_assert_msg(commands * LOCKS <= (keys + LOCKS) * MOST, "node %zu: %lld commands for %lld keys", node,
                      commands, keys);
    }
    release_many(face, locks, LOCKS);
    held_close(face);
}
END_TEST

/* bench hold does this with 100,000 locks. Each lock is renewed once, a third of the ttl after it was acquired. */
START_TEST(thousands_are_held)
{
    enum { LOCKS = 2000, MANY_TTL_MS = 15000 };
    static redlock_lock *locks[LOCKS];
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = options_for_ttl(MANY_TTL_MS);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;

    hold_many(face, locks, LOCKS, &story);
    struct renewals all = {face, statistics_of(face).renewed + LOCKS};
    ck_assert(face_wait(face, has_renewed, &all, 4 * REAL_SOON_MS));
    ck_assert_uint_eq(atomic_load(&story.lost), 0);
    for (size_t node = 0; node < HELD_NODES; node++)
        ck_assert_uint_eq(cluster_keys(cluster, node, NULL, deployment_marks), LOCKS);
    release_many(face, locks, LOCKS);
    ck_assert(real_nothing_left(face));
    held_close(face);
}
END_TEST

/* More releases than one node's queue accepts at once. */
START_TEST(closing_releases_thousands)
{
    enum { LOCKS = 12000 };
    static redlock_lock *locks[LOCKS];
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = options_for_ttl(60000);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    struct held_story story;
    hold_many(face, locks, LOCKS, &story);
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(atomic_load(&story.lost), LOCKS);
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, deployment_marks), 0);
}
END_TEST

static Suite *renewal_suite(void)
{
    Suite *suite = suite_create("held_renewal");
    TCase *keeping = real_bare_case(suite, "keeping");
    TCase *healing = real_bare_case(suite, "healing");
    TCase *many = real_bare_case(suite, "many");

    real_add_test(keeping, each_lock_is_renewed_in_its_own_time);
    real_add_test(keeping, without_renewal_it_ends);
    real_add_test(keeping, a_cap_ends_it);
    real_add_test(healing, what_a_node_has_lost_is_put_back);
    real_add_test(healing, a_restarted_node_is_healed_soon);
    real_add_test(healing, nothing_is_put_back_without_a_quorum);
    real_add_test(healing, a_node_that_is_healed_twice_is_released);
    real_add_test(healing, another_holders_key_is_left_alone);
    real_add_test(many, renewals_travel_together);
    tcase_add_test(many, thousands_are_held);
    real_add_test(many, closing_releases_thousands);
    return suite;
}

int main(void)
{
    return real_run(renewal_suite(), true);
}
