/*
 * Slow nodes with the default timeouts: far away, or behind a burst of the client's own requests.
 *
 *     REDLOCK_HOLD_SECONDS=600 CK_RUN_CASE=distant test_real_late     # holds for 600 s with each way to call, with the default ttl
 *     REDLOCK_BURST=10000 CK_RUN_CASE=burst test_real_late            # locks in the burst; also beside held locks, on an idle machine
 */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"
#include "support/delay_proxy.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 5, DISTANT_LOCKS = 8, DISTANT_TTL_MS = 5000, ONE_WAY_US = 60000, BURST_MOST = 20000 };

static redlock_result result;

static unsigned number_of(const char *variable, unsigned usual)
{
    const char *text = getenv(variable);
    return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static redlock_options usual_options(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.guard = 0; /* the servers are new: they would be in quarantine */
    return options;
}

static struct delay_proxy *start_distant_nodes(void)
{
    struct cluster *cluster = real_cluster(NODES, NULL);
    struct delay_proxy *proxy;
    uint16_t ports[NODES];

    for (size_t i = 0; i < NODES; i++)
        ports[i] = cluster_port(cluster, i);
    proxy = delay_proxy_start(ports, NODES);
    for (size_t i = 0; i < NODES; i++)
        delay_proxy_set_delay_us(proxy, i, PROXY_BOTH, ONE_WAY_US);
    real_note_descriptors();
    return proxy;
}

/* The round trip takes 120 ms, and the default timeout is 50 ms. The first attempt knows the round trip from the
 * handshake. */
START_TEST(locks_on_distant_nodes_are_acquired_renewed_and_held)
{
    struct delay_proxy *proxy = start_distant_nodes();
    redlock_options options = usual_options();
    redlock_lock *locks[DISTANT_LOCKS];
    char key[32];

    if (!getenv("REDLOCK_HOLD_SECONDS"))
        options.ttl_ms = DISTANT_TTL_MS;
    struct face *face = face_open_ready(face_of(_i), delay_proxy_nodes_string(proxy), &options);
    for (int i = 0; i < DISTANT_LOCKS; i++) {
        snprintf(key, sizeof key, real_key("distant%d"), i);
        real_status(face_acquire(face, key, NULL, &locks[i], &result), REDLOCK_OK, &result);
    }
    face_idle(face, 1000 * number_of("REDLOCK_HOLD_SECONDS", 2 * DISTANT_TTL_MS / 1000));
    for (int i = 0; i < DISTANT_LOCKS; i++)
        real_status(face_release(face, &locks[i], &result), REDLOCK_OK, &result);
    face_close(&face, NULL);
}
END_TEST

/* --- Many releases at once --- */

struct burst {
    struct ev_loop *loop;
    redlock_lock *lock[BURST_MOST];
    unsigned answered, good;
};

static void count(struct burst *burst, const redlock_result *answer, unsigned size)
{
    burst->good += answer->status == REDLOCK_OK;
    if (++burst->answered == size)
        ev_break(burst->loop, EVBREAK_ALL);
}

static unsigned size_of_burst;

static void acquired(redlock_client *client, redlock_lock *lock, const redlock_result *answer, void *arg)
{
    struct burst *burst = arg;
    (void)client;
    if (lock)
        burst->lock[burst->good] = lock;
    count(burst, answer, size_of_burst);
}

static void released(redlock_client *client, const redlock_result *answer, void *arg)
{
    (void)client;
    count(arg, answer, size_of_burst);
}

static void closed(redlock_client *client, const redlock_result *answer, void *arg)
{
    (void)client;
    (void)answer;
    ev_break(arg, EVBREAK_ALL);
}

static void run(struct burst *burst)
{
    burst->answered = burst->good = 0;
    ev_run(burst->loop, 0);
}

/* Acquires size_of_burst locks, of this number of resources each, at once. */
static void acquire_burst(redlock_client *client, struct burst *burst, redlock_acquire_options *how, unsigned resources,
                          redlock_acquire_callback callback)
{
    enum { MOST = 16 };
    char key[MOST][32];
    redlock_name also[MOST];

    ck_assert_uint_le(resources, MOST);
    how->also = also;
    how->also_count = resources - 1;
    for (unsigned i = 0; i < size_of_burst; i++) {
        for (unsigned k = 0; k < resources; k++) {
            int length = snprintf(key[k], sizeof key[k], real_key("burst%u.%u.%u"), resources, i, k);
            also[k] = (redlock_name){key[k], (size_t)length};
        }
        ck_assert_int_eq(redlock_acquire_async(client, key[resources - 1], how, callback, burst), REDLOCK_OK);
    }
    run(burst);
    ck_assert_uint_eq(burst->good, size_of_burst);
}

static void end_burst(redlock_client *client, struct burst *burst)
{
    redlock_close_async(&client, closed, burst->loop);
    ev_run(burst->loop, 0);
    ev_loop_destroy(burst->loop);
}

START_TEST(releases_at_once_are_all_confirmed)
{
    static struct burst burst;
    struct cluster *cluster = real_cluster(NODES, NULL);
    redlock_acquire_options how = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_options options = usual_options();
    redlock_client *client;

    size_of_burst = number_of("REDLOCK_BURST", 3000);
    ck_assert_uint_le(size_of_burst, BURST_MOST);
    options.pending_max = BURST_MOST;
    how.wait_ms = REAL_SOON_MS;
    how.ttl_ms = 30000;
    how.no_renewal = 1;
    burst.loop = ev_loop_new(EVFLAG_NOENV);
    ck_assert_int_eq(redlock_attach(burst.loop, cluster_nodes_string(cluster), &options, &client, &result), REDLOCK_OK);
    acquire_burst(client, &burst, &how, 1, acquired);
    for (unsigned i = 0; i < size_of_burst; i++)
        ck_assert_int_eq(redlock_release_async(&burst.lock[i], released, &burst), REDLOCK_OK);
    run(&burst);
    ck_assert_uint_eq(burst.good, size_of_burst);
    end_burst(client, &burst);
}
END_TEST

/* --- More locks in flight than the nodes answer within the node timeout --- */

static void taken(redlock_client *client, redlock_lock *lock, const redlock_result *answer, void *arg)
{
    (void)client;
    if (lock)
        ck_assert_int_eq(redlock_release_async(&lock, released, arg), REDLOCK_OK);
    else
        count(arg, answer, size_of_burst);
}

static const unsigned in_flight[] = {1000, 5000, 10000};

/* With default options, from the first moment: the nodes are not connected yet. */
START_TEST(overload_fails_no_lock_and_leaves_no_key)
{
    static struct burst burst;
    struct cluster *cluster = real_cluster(NODES, NULL);
    redlock_options options = usual_options();
    redlock_acquire_options how = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_statistics statistics;
    redlock_client *client;

    size_of_burst = in_flight[_i];
    burst.loop = ev_loop_new(EVFLAG_NOENV);
    ck_assert_int_eq(redlock_attach(burst.loop, cluster_nodes_string(cluster), &options, &client, &result), REDLOCK_OK);
    acquire_burst(client, &burst, &how, 1, taken);
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    ck_assert_uint_eq(statistics.late_grants, 0);
    end_burst(client, &burst);
    ck_assert_uint_eq(cluster_keys_left(cluster, NULL, NULL), 0);
}
END_TEST

/* A burst of locks that keeps the nodes busy for longer than the ttl. */
START_TEST(burst_loses_no_held_lock)
{
    enum { HELD = 20, RESOURCES = 16, TTL_MS = 1500 };
    static struct burst held, burst;
    struct cluster *cluster = real_cluster(NODES, NULL);
    redlock_options options = usual_options();
    redlock_acquire_options how = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_client *client;

    options.ttl_ms = TTL_MS;
    how.wait_ms = REAL_SOON_MS;
    held.loop = burst.loop = ev_loop_new(EVFLAG_NOENV);
    ck_assert_int_eq(redlock_attach(burst.loop, cluster_nodes_string(cluster), &options, &client, &result), REDLOCK_OK);
    size_of_burst = HELD;
    acquire_burst(client, &held, &how, 1, acquired);
    how.fence = 1;
    size_of_burst = number_of("REDLOCK_BURST", BURST_MOST);
    acquire_burst(client, &burst, &how, RESOURCES, taken);
    for (unsigned i = 0; i < HELD; i++)
        ck_assert_int_gt(redlock_validity_ms(held.lock[i]), 0);
    end_burst(client, &burst);
}
END_TEST

static Suite *late_suite(void)
{
    Suite *suite = suite_create("real_late");
    TCase *distant = real_bare_case(suite, "distant");
    tcase_set_timeout(distant, 900);
    if (getenv("REDLOCK_HOLD_SECONDS") != NULL)
        real_add_long_test(distant, locks_on_distant_nodes_are_acquired_renewed_and_held, FACES);
    else
        real_add_test(distant, locks_on_distant_nodes_are_acquired_renewed_and_held);
    TCase *burst = real_bare_case(suite, "burst");
    tcase_add_test(burst, releases_at_once_are_all_confirmed);
    if (getenv("REDLOCK_BURST") != NULL) /* beside other programs, a ttl of 1.5 s may pass */
        tcase_add_test(burst, burst_loses_no_held_lock);
    tcase_add_loop_test(burst, overload_fails_no_lock_and_leaves_no_key, 0, sizeof in_flight / sizeof *in_flight);
    return suite;
}

int main(void)
{
    return real_run(late_suite(), false);
}
