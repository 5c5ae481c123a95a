/* Network faults between the client and real servers, with each way to call: slow, one-way, and broken connections. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/delay_proxy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5, QUORUM = 3, NODE_TIMEOUT_MS = 300 };

static const char key[] = real_key("network");
static struct cluster *cluster;
static struct delay_proxy *proxy;
static redlock_result result;

static struct face *open_face(int i, uint32_t node_timeout_ms)
{
    uint16_t ports[NODES];
    redlock_options options = face_options();
    cluster = real_cluster(NODES, NULL);
    for (size_t n = 0; n < NODES; n++)
        ports[n] = cluster_port(cluster, n);
    proxy = delay_proxy_start(ports, NODES);
    real_note_descriptors();
    if (node_timeout_ms > 0)
        options.node_timeout_ms = node_timeout_ms;
    return face_open_ready(face_of(i), delay_proxy_nodes_string(proxy), &options);
}

static void lock_and_release(struct face *face)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(result.attempts, 1);
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
}

static void refuse(struct face *face)
{
    redlock_lock *lock;
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_ptr_null(lock);
}

static bool all_answer(void *face)
{
    redlock_state state;
    return face_query(face, key, &state, &result) == REDLOCK_OK && result.granted == NODES;
}

/* Waits until every node replies in time again: all data that the proxy delayed has arrived. */
static void settle(struct face *face)
{
    ck_assert(face_wait(face, all_answer, face, REAL_SOON_MS));
}

/* --- Slow --- */

/* Round trips of 1, 1, 1, 5 and 20 ms: the third reply decides the round, without waiting for the slow nodes. */
START_TEST(a_round_takes_as_long_as_its_quorum)
{
    enum { LOCKS = 40 };
    static const uint32_t round_trip_us[NODES] = {1000, 1000, 1000, 5000, 20000};
    struct face *face = open_face(_i, NODE_TIMEOUT_MS);
    unsigned not_waited_for = 0;
    redlock_lock *lock;
    for (size_t i = 0; i < NODES; i++)
        delay_proxy_set_delay_us(proxy, i, PROXY_BOTH, round_trip_us[i] / 2);
    /* A loop that wakes late finds all replies there and counts them. On a busy machine that happens in most rounds. */
    for (int i = 0; i < LOCKS || (i < 20 * LOCKS && not_waited_for < LOCKS / 2); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s:%d", key, i); /* a new name: the last undo may be in flight */
        real_status(face_acquire(face, name, NULL, &lock, &result), REDLOCK_OK, &result);
        ck_assert_uint_ge(result.elapsed_us, 1000);
        not_waited_for += result.node[4].outcome == REDLOCK_NODE_PENDING;
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    }
    ck_assert_uint_ge(not_waited_for, LOCKS / 2);
    ck_assert(real_nothing_left(face));
    face_close(&face, NULL);
}
END_TEST

/* --- One way --- */

static void hold(size_t count, enum proxy_direction direction)
{
    for (size_t i = 0; i < count; i++)
        delay_proxy_hold(proxy, i, direction);
}

static void let_go(size_t count, enum proxy_direction direction)
{
    for (size_t i = 0; i < count; i++)
        delay_proxy_let_go(proxy, i, direction);
}

START_TEST(what_arrives_late_is_undone_behind_it)
{
    struct face *face = open_face(_i, NODE_TIMEOUT_MS);
    uint64_t sent = delay_proxy_bytes(proxy, 0, PROXY_TO_SERVER);
    hold(QUORUM, PROXY_TO_SERVER);
    refuse(face);
    ck_assert_uint_eq(result.timed_out, QUORUM);
    ck_assert_uint_gt(delay_proxy_bytes(proxy, 0, PROXY_TO_SERVER), sent);
    let_go(QUORUM, PROXY_TO_SERVER);
    settle(face);
    ck_assert(real_nothing_left(face));
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_one_way_partition_outlives_the_client)
{
    struct face *face = open_face(_i, NODE_TIMEOUT_MS);
    hold(QUORUM, PROXY_TO_SERVER);
    refuse(face);
    real_status(face_close(&face, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.pending_undos, QUORUM);
    let_go(QUORUM, PROXY_TO_SERVER); /* the data that was written before the close still arrives */
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* --- Broken connections --- */

static bool granted_by_a_majority(void *unused)
{
    size_t granted = 0;
    (void)unused;
    for (size_t i = 0; i < NODES; i++)
        granted += cluster_integer(cluster, i, "EXISTS", key, NULL) == 1;
    return granted >= QUORUM;
}

static void *break_when_granted(void *reset)
{
    bool granted = wait_until(granted_by_a_majority, NULL, REAL_SOON_MS);
    for (size_t i = 0; i < NODES; i++)
        delay_proxy_drop(proxy, i, *(bool *)reset);
    return granted ? reset : NULL;
}

/* The nodes grant the lock, but their replies are lost with the connections. */
START_TEST(a_grant_whose_answer_is_lost_with_the_link_is_undone)
{
    struct face *face = open_face(_i, 0);
    pthread_t thread;
    void *granted;
    bool reset = _i != 0;
    hold(NODES, PROXY_TO_CLIENT);
    ck_assert_int_eq(pthread_create(&thread, NULL, break_when_granted, &reset), 0);
    refuse(face);
    ck_assert_uint_ge(result.unreachable, QUORUM);
    ck_assert_int_eq(pthread_join(thread, &granted), 0);
    ck_assert_ptr_nonnull(granted);
    let_go(NODES, PROXY_TO_CLIENT);
    ck_assert(real_nothing_left(face));
    settle(face);
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

static Suite *network_suite(void)
{
    Suite *suite = suite_create("real_network");
    TCase *tcase = real_bare_case(suite, "network");
    tcase_add_loop_test(tcase, a_round_takes_as_long_as_its_quorum, 0, FACES);
    tcase_add_loop_test(tcase, what_arrives_late_is_undone_behind_it, 0, FACES);
    tcase_add_loop_test(tcase, a_one_way_partition_outlives_the_client, 0, FACES);
    tcase_add_loop_test(tcase, a_grant_whose_answer_is_lost_with_the_link_is_undone, 0, 2);
    return suite;
}

int main(void)
{
    return real_run(network_suite(), false);
}
