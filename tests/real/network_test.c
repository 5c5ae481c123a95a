/* Network faults between the client and real servers, with each way to call: slow, one-way, and broken connections. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/delay_proxy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5, QUORUM = 3, NODE_TIMEOUT_MS = 300, SLOW_US = 400000 };

static const char key[] = real_key("network");
static struct cluster *cluster;
static struct delay_proxy *proxy;
static redlock_result result;

static void setup(void)
{
    uint16_t ports[NODES];

    cluster = real_cluster(NODES, NULL);
    for (size_t i = 0; i < NODES; i++)
        ports[i] = cluster_port(cluster, i);
    proxy = delay_proxy_start(ports, NODES);
    real_note_descriptors();
}

static struct face *open_face(int kind)
{
    redlock_options options = face_options();

    setup();
    options.node_timeout_ms = NODE_TIMEOUT_MS;
    return face_open_ready((enum face_kind)kind, delay_proxy_nodes_string(proxy), &options);
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

static void set_delay(size_t first, size_t count, uint32_t delay_us)
{
    for (size_t i = first; i < first + count; i++)
        delay_proxy_set_delay_us(proxy, i, PROXY_BOTH, delay_us);
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

START_TEST(a_node_slower_than_its_timeout_does_no_harm)
{
    struct face *face = open_face(_i);
    redlock_state state;

    set_delay(0, 1, SLOW_US);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_TIMED_OUT);
    for (int i = 0; i < 20; i++)
        lock_and_release(face);
    ck_assert(real_nothing_left(face)); /* its late grants are undone */
    set_delay(0, 1, 0);
    settle(face);
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

/* Round trips of 1, 1, 1, 5 and 20 ms: the third reply decides the round, without waiting for the slow nodes. */
START_TEST(a_round_takes_as_long_as_its_quorum)
{
    enum { LOCKS = 40 };
    static const uint32_t round_trip_us[NODES] = {1000, 1000, 1000, 5000, 20000};
    struct face *face = open_face(_i);
    unsigned not_waited_for = 0;
    redlock_lock *lock;

    for (size_t i = 0; i < NODES; i++)
        set_delay(i, 1, round_trip_us[i] / 2);
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

static void hold(enum proxy_direction direction)
{
    for (size_t i = 0; i < QUORUM; i++)
        delay_proxy_hold(proxy, i, direction);
}

static void let_go(enum proxy_direction direction)
{
    for (size_t i = 0; i < QUORUM; i++)
        delay_proxy_let_go(proxy, i, direction);
}

START_TEST(what_arrives_late_is_undone_behind_it)
{
    struct face *face = open_face(_i);
    uint64_t sent = delay_proxy_bytes(proxy, 0, PROXY_TO_SERVER);

    hold(PROXY_TO_SERVER);
    refuse(face);
    ck_assert_uint_eq(result.timed_out, QUORUM);
    ck_assert_uint_gt(delay_proxy_bytes(proxy, 0, PROXY_TO_SERVER), sent);
    let_go(PROXY_TO_SERVER);
    settle(face);
    ck_assert(real_nothing_left(face));
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_one_way_partition_outlives_the_client)
{
    struct face *face = open_face(_i);

    hold(PROXY_TO_SERVER);
    refuse(face);
    real_status(face_close(&face, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.pending_undos, QUORUM);
    let_go(PROXY_TO_SERVER); /* the data that was written before the close still arrives */
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
    redlock_options options = face_options();
    pthread_t thread;
    void *granted;
    bool reset = _i != 0;

    setup();
    struct face *face = face_open_ready(face_of(_i), delay_proxy_nodes_string(proxy), &options);
    for (size_t i = 0; i < NODES; i++)
        delay_proxy_hold(proxy, i, PROXY_TO_CLIENT);
    ck_assert_int_eq(pthread_create(&thread, NULL, break_when_granted, &reset), 0);
    refuse(face);
    ck_assert_uint_ge(result.unreachable, QUORUM);
    ck_assert_int_eq(pthread_join(thread, &granted), 0);
    ck_assert_ptr_nonnull(granted);
    for (size_t i = 0; i < NODES; i++)
        delay_proxy_let_go(proxy, i, PROXY_TO_CLIENT);
    ck_assert(real_nothing_left(face));
    settle(face);
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

static atomic_bool breaking;

static void *break_links(void *unused)
{
    unsigned seed = 1;

    (void)unused;
    for (size_t i = 0; atomic_load(&breaking); i++) {
        struct timespec pause = {.tv_nsec = rand_r(&seed) % 3000000};
        delay_proxy_drop(proxy, i % NODES, i % 2 == 0);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Connections break at any moment while the client acquires one lock after the other. No key is left. */
START_TEST(links_that_break_at_any_moment_leave_nothing)
{
    enum { LOCKS = 100 };
    struct face *face = open_face(_i);
    unsigned acquired = 0;
    pthread_t thread;
    redlock_lock *lock;

    atomic_store(&breaking, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, break_links, NULL), 0);
    for (int i = 0; i < LOCKS; i++) {
        int status = face_acquire(face, key, REDLOCK_WAIT_MS(NODE_TIMEOUT_MS), &lock, &result);
        ck_assert_msg(status == REDLOCK_OK || status == REDLOCK_TIMED_OUT, "%s", redlock_result_text(&result));
        ck_assert((status == REDLOCK_OK) == (lock != NULL));
        acquired += status == REDLOCK_OK;
        if (lock != NULL)
            face_release(face, &lock, &result);
    }
    atomic_store(&breaking, false);
    pthread_join(thread, NULL);
    ck_assert_uint_gt(acquired, 0);
    settle(face);
    ck_assert(real_nothing_left(face));
    lock_and_release(face);
    face_close(&face, NULL);
}
END_TEST

START_TEST(a_refusing_node_is_used_when_it_accepts_again)
{
    struct face *face = open_face(_i);
    redlock_state state;

    delay_proxy_refuse(proxy, 0, true);
    delay_proxy_drop(proxy, 0, true);
    lock_and_release(face);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(result.node[0].outcome, REDLOCK_NODE_UNREACHABLE);
    delay_proxy_refuse(proxy, 0, false);
    settle(face);
    face_close(&face, NULL);
}
END_TEST

static Suite *network_suite(void)
{
    Suite *suite = suite_create("real_network");
    TCase *tcase = real_bare_case(suite, "network");

    tcase_add_loop_test(tcase, a_node_slower_than_its_timeout_does_no_harm, 0, FACES);
    tcase_add_loop_test(tcase, a_round_takes_as_long_as_its_quorum, 0, FACES);
    tcase_add_loop_test(tcase, what_arrives_late_is_undone_behind_it, 0, FACES);
    tcase_add_loop_test(tcase, a_one_way_partition_outlives_the_client, 0, FACES);
    tcase_add_loop_test(tcase, a_grant_whose_answer_is_lost_with_the_link_is_undone, 0, 2);
    tcase_add_loop_test(tcase, links_that_break_at_any_moment_leave_nothing, 0, FACES);
    tcase_add_loop_test(tcase, a_refusing_node_is_used_when_it_accepts_again, 0, FACES);
    return suite;
}

int main(void)
{
    return real_run(network_suite(), false);
}
