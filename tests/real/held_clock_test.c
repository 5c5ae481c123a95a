/* Real servers whose clocks jump. One node whose clock jumps is put in quarantine, and no other node is blamed. If the
 * clocks of a majority jump by the same amount, our own clock has stopped. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Locks outlive the shift, so a lost lock has not merely expired. */
enum { TTL_MS = 60000, MAX_TTL_MS = 2000, SHIFT_US = 20000000 };

static const char key[] = real_key("clocked");
static redlock_result result;

static struct cluster *make_cluster(void)
{
    struct cluster_node_options nodes[HELD_NODES] = {{0}};

    for (size_t i = 0; i < HELD_NODES; i++)
        nodes[i].own_clock = true;
    return real_cluster(HELD_NODES, &(struct cluster_options){.nodes = nodes});
}

struct scene {
    struct cluster *cluster;
    struct face *face;
    struct held_story story;
    redlock_lock *lock;
};

/* After two samples of each clock: in the handshake and in a heartbeat. */
static bool clocks_are_known(void *face)
{
    for (uint32_t i = 0; i < HELD_NODES; i++)
        if (!held_node_status(face, i).clock_known || !held_node_status(face, i).round_trip_us)
            return false;
    return true;
}

static void begin(struct scene *scene, int i, uint32_t guard, uint32_t ttl_ms, uint32_t max_ttl_ms)
{
    redlock_options options = held_options(ttl_ms, guard);

    memset(scene, 0, sizeof(*scene));
    options.max_ttl_ms = max_ttl_ms;
    scene->cluster = make_cluster();
    scene->face = held_open_trusted(face_of(i), cluster_nodes_string(scene->cluster), &options);
    ck_assert(face_wait(scene->face, clocks_are_known, scene->face, REAL_SOON_MS));
    redlock_acquire_options acquire = held_acquire_options(&scene->story);
    scene->lock = held_acquire(scene->face, key, &acquire);
    held_everywhere(scene->face, scene->cluster, key, scene->lock);
}

static redlock_statistics counted(struct face *face)
{
    redlock_statistics statistics;

    ck_assert_int_eq(redlock_statistics_get(face_client(face), &statistics), REDLOCK_OK);
    return statistics;
}

static bool is_judged(void *face)
{
    redlock_node_status status = held_node_status(face, 1);

    return status.quarantine_ms > 0 && strstr(status.objection, "its clock jumped");
}

static bool all_are_usable(void *face)
{
    for (uint32_t i = 0; i < HELD_NODES; i++)
        if (!held_node_status(face, i).usable)
            return false;
    return true;
}

static void assert_only_the_second_is_out(struct face *face)
{
    for (uint32_t i = 0; i < HELD_NODES; i++) {
        redlock_node_status status = held_node_status(face, i);
        ck_assert_msg((status.quarantine_ms > 0) == (i == 1), "node %u: %s", i, status.objection);
        ck_assert_uint_eq(status.usable, i != 1);
    }
}

static const int shifts[] = {SHIFT_US, -250000};

/* The node's keys expire at once, or live too long, so it counts as a node that lost data. Other clients learn of it
 * from the marker. */
START_TEST(a_node_whose_clock_jumps_is_in_quarantine)
{
    struct scene scene;
    redlock_lock *other;

    begin(&scene, _i, 1, MAX_TTL_MS, MAX_TTL_MS);
    cluster_shift_clock(scene.cluster, 1, shifts[_i]);
    ck_assert(face_wait(scene.face, is_judged, scene.face, REAL_SOON_MS));
    assert_only_the_second_is_out(scene.face);
    ck_assert_uint_eq(counted(scene.face).node_clock_jumps, 1);
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_NOT_LOST);

    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct face *late = held_open(face_of(_i + 1), cluster_nodes_string(scene.cluster), &options);
    assert_only_the_second_is_out(late);
    ck_assert_uint_eq(counted(late).node_clock_jumps, 0); /* this client did not see the jump; the marker shows it */
    real_status(face_acquire(late, real_key("meanwhile"), NULL, &other, &result), REDLOCK_OK, &result);
    held_release(late, &other);

    ck_assert(face_wait(scene.face, all_are_usable, scene.face, REAL_SOON_MS));
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0); /* at no time */
    held_everywhere(scene.face, scene.cluster, key, scene.lock);
    held_release(scene.face, &scene.lock);
    held_close(scene.face);
    held_close(late);
}
END_TEST

static bool is_full(void *face)
{
    return held_node_status(face, 1).findings & REDLOCK_FINDING_FULL;
}

/* The jump cannot be written to the marker. It is written when the node has memory again. */
START_TEST(a_full_node_whose_clock_jumps_is_in_quarantine_later)
{
    struct scene scene;

    begin(&scene, _i, 1, MAX_TTL_MS, MAX_TTL_MS);
    ck_assert(cluster_command(scene.cluster, 1, NULL, 0, "CONFIG", "SET", "maxmemory", "1", NULL));
    cluster_shift_clock(scene.cluster, 1, SHIFT_US);
    ck_assert(face_wait(scene.face, is_full, scene.face, REAL_SOON_MS));
    ck_assert(!held_node_status(scene.face, 1).usable);
    ck_assert(cluster_command(scene.cluster, 1, NULL, 0, "CONFIG", "SET", "maxmemory", "0", NULL));
    ck_assert(face_wait(scene.face, is_judged, scene.face, REAL_SOON_MS));
    ck_assert_uint_eq(counted(scene.face).node_clock_jumps, 1);
    held_release(scene.face, &scene.lock);
    held_close(scene.face);
}
END_TEST

static bool is_lost(void *arg)
{
    return atomic_load(&((struct scene *)arg)->story.lost) > 0;
}

/* This happens when a virtual machine was paused and its clock does not count the pause: the nodes' clocks are ahead. A
 * minority whose clocks do not jump changes nothing, and neither does the guard. */
START_TEST(a_majority_that_jumps_the_same_way_is_our_own_clock)
{
    size_t jumping = _i / 2 ? HELD_QUORUM : HELD_NODES;
    uint32_t guard = (uint32_t)(_i % 2 ^ _i / 2); /* every pair of values of API, guard and number occurs */
    struct scene scene;

    begin(&scene, _i, guard, TTL_MS, TTL_MS);
    for (size_t i = 0; i < jumping; i++)
        cluster_stop(scene.cluster, i); /* otherwise a heartbeat might see only some of the jumps */
    for (size_t i = 0; i < jumping; i++)
        cluster_shift_clock(scene.cluster, i, SHIFT_US);
    cluster_resume_all(scene.cluster);
    ck_assert(face_wait(scene.face, is_lost, &scene, REAL_SOON_MS));
    ck_assert_int_eq(atomic_load(&scene.story.loss), REDLOCK_LOSS_CLOCK);
    ck_assert_int_eq(redlock_validity_ms(scene.lock), 0);
    real_status(face_release(scene.face, &scene.lock, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(scene.face));
    ck_assert_uint_eq(counted(scene.face).losses[REDLOCK_LOSS_CLOCK], 1);
    for (uint32_t i = 0; i < HELD_NODES; i++)
        ck_assert_int_eq(held_node_status(scene.face, i).quarantine_ms, 0);
    ck_assert_uint_eq(counted(scene.face).node_clock_jumps, 0);
    scene.lock = held_acquire(scene.face, key, NULL); /* locks work again */
    ck_assert_int_gt(redlock_validity_ms(scene.lock), 0);
    held_release(scene.face, &scene.lock);
    held_close(scene.face);
}
END_TEST

static Suite *clock_suite(void)
{
    Suite *suite = suite_create("held_clock");
    TCase *tcase = real_bare_case(suite, "clock");

    real_add_long_test(tcase, a_node_whose_clock_jumps_is_in_quarantine, 2);
    real_add_test(tcase, a_full_node_whose_clock_jumps_is_in_quarantine_later);
    real_add_long_test(tcase, a_majority_that_jumps_the_same_way_is_our_own_clock, 4);
    return suite;
}

int main(void)
{
    return real_run(clock_suite(), true);
}
