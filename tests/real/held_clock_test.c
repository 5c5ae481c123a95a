/* Real servers whose clocks jump. One node whose clock jumps is put in quarantine, and no other node is blamed. If the
 * clocks of a majority jump by the same amount, our own clock has stopped. */
#include "real/held.h"

/* Locks outlive the shift, so a lost lock has not merely expired. */
enum { TTL_MS = 60000, MAX_TTL_MS = 2000, SHIFT_US = 20000000 };

static const char key[] = real_key("clocked");
static struct held_scene scene;

static void begin(int i, uint32_t guard, uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, guard);
    options.max_ttl_ms = ttl_ms;
    held_nodes_with_clocks();
    held_begin(&scene, i, &options);
    real_until(scene.face, held_clocks_known(scene.face));
    held_take_everywhere(&scene, key);
}

static bool is_judged(void)
{
    redlock_node_status status = held_node_status(scene.face, 1);
    return status.quarantine_ms > 0 && strstr(status.objection, "its clock jumped");
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

REAL_CASE(clock, real_bare_case, NULL);

/* The node's keys expire at once, or live too long, so it counts as a node that lost data. Other clients learn of it
 * from the marker. */
TEST_LONG_ROWS(clock, a_node_whose_clock_jumps_is_in_quarantine, 2)
{
    redlock_options options = held_options(MAX_TTL_MS, 1);
    begin(_i, 1, MAX_TTL_MS);
    cluster_shift_clock(cluster, 1, shifts[_i]);
    real_until(scene.face, is_judged());
    assert_only_the_second_is_out(scene.face);
    ck_assert_uint_eq(held_statistics(scene.face).node_clock_jumps, 1);

    struct face *late = held_open(_i + 1, NULL, &options);
    assert_only_the_second_is_out(late);
    ck_assert_uint_eq(held_statistics(late).node_clock_jumps, 0); /* it did not see the jump; the marker shows it */
    redlock_lock *other = held_acquire(late, real_key("meanwhile"), NULL);
    held_release(late, &other);
    held_close(late);

    real_until(scene.face, held_all_usable(scene.face));
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0); /* at no time */
    held_everywhere(scene.face, key, scene.lock);
    held_end(&scene, REDLOCK_OK);
}

/* This happens when a virtual machine was paused and its clock does not count the pause: the nodes' clocks are ahead. A
 * minority whose clocks do not jump changes nothing, and neither does the guard. */
TEST_LONG_ROWS(clock, a_majority_that_jumps_the_same_way_is_our_own_clock, 2)
{
    size_t jumping = _i ? HELD_QUORUM : HELD_NODES;
    begin(_i, (uint32_t)_i, TTL_MS);
    for (size_t i = 0; i < jumping; i++)
        cluster_stop(cluster, i); /* otherwise a heartbeat might see only some of the jumps */
    for (size_t i = 0; i < jumping; i++)
        cluster_shift_clock(cluster, i, SHIFT_US);
    cluster_resume_all(cluster);
    real_until(scene.face, held_is_lost(&scene.story));
    ck_assert_int_eq(atomic_load(&scene.story.loss), REDLOCK_LOSS_CLOCK);
    ck_assert_int_eq(redlock_validity_ms(scene.lock), 0);
    real_status(face_release(scene.face, &scene.lock, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(scene.face));
    ck_assert_uint_eq(held_statistics(scene.face).losses[REDLOCK_LOSS_CLOCK], 1);
    ck_assert_uint_eq(held_statistics(scene.face).node_clock_jumps, 0);
    for (uint32_t i = 0; i < HELD_NODES; i++)
        ck_assert_int_eq(held_node_status(scene.face, i).quarantine_ms, 0);
    held_take(&scene, key); /* locks work again */
    held_end(&scene, REDLOCK_OK);
}

REAL_FAULTS_PROGRAM("held_clock")
