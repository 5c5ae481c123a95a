/*
 * Slow nodes with the default timeouts: far away, or behind a burst of the client's own requests.
 *
 *     REDLOCK_HOLD_SECONDS=600 CK_RUN_CASE=distant test_real_late     # holds for 600 s with each way to call, with the default ttl
 *     REDLOCK_BURST=10000 CK_RUN_CASE=burst test_real_late            # also a burst beside held locks, on an idle machine
 */
#include "real/held.h"

#include "support/clock.h"
#include "support/delay_proxy.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>

enum { DISTANT_LOCKS = 8, DISTANT_TTL_MS = 5000, ONE_WAY_US = 60000 };

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

/* The round trip takes 120 ms, and the default timeout is 50 ms. The first attempt knows the round trip from the
 * handshake. */
START_TEST(locks_on_distant_nodes_are_acquired_renewed_and_held)
{
    held_nodes();
    redlock_options options = usual_options();
    redlock_lock *locks[DISTANT_LOCKS];
    struct delay_proxy *proxy = real_proxy();
    char key[32];

    for (size_t i = 0; i < HELD_NODES; i++)
        delay_proxy_set_delay_us(proxy, i, PROXY_BOTH, ONE_WAY_US);
    if (!getenv("REDLOCK_HOLD_SECONDS"))
        options.ttl_ms = DISTANT_TTL_MS;
    struct face *face = face_open_ready(face_of(_i), delay_proxy_nodes_string(proxy), &options);
    for (int i = 0; i < DISTANT_LOCKS; i++) {
        snprintf(key, sizeof key, real_key("distant%d"), i);
        locks[i] = held_acquire(face, key, NULL);
    }
    face_idle(face, 1000 * number_of("REDLOCK_HOLD_SECONDS", 2 * DISTANT_TTL_MS / 1000));
    for (int i = 0; i < DISTANT_LOCKS; i++)
        held_release(face, &locks[i]);
    face_close(&face, NULL);
}
END_TEST

/* --- More locks in flight than the nodes answer within the node timeout --- */

enum { KEPT = 20 };

static struct {
    struct ev_loop *loop;
    struct cluster *cluster;
    redlock_client *client;
    unsigned size, answered, good;
    redlock_result failure; /* the last one */
} burst;

static void assert_all_good(void)
{
    ck_assert_msg(burst.good == burst.size, "%u of %u; another one: %s: %s", burst.good, burst.size,
                  redlock_status_name(burst.failure.status), redlock_result_text(&burst.failure));
}

static void count(const redlock_result *answer)
{
    if (answer->status == REDLOCK_OK)
        burst.good++;
    else
        burst.failure = *answer;
    if (++burst.answered == burst.size)
        ev_break(burst.loop, EVBREAK_ALL);
}

static void on_released(redlock_client *client, const redlock_result *answer, void *unused)
{
    (void)client;
    (void)unused;
    count(answer);
}

/* Keeps the lock in *kept, or releases it at once if kept is NULL. */
static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *answer, void *kept)
{
    (void)client;
    if (lock && !kept) {
        ck_assert_int_eq(redlock_release_async(&lock, on_released, NULL), REDLOCK_OK);
        return;
    }
    if (kept)
        *(redlock_lock **)kept = lock;
    count(answer);
}

static void on_closed(redlock_client *client, const redlock_result *answer, void *unused)
{
    (void)client;
    (void)answer;
    (void)unused;
    ev_break(burst.loop, EVBREAK_ALL);
}

static void begin_burst(const redlock_options *options)
{
    burst.loop = ev_loop_new(EVFLAG_NOENV);
    burst.cluster = held_nodes();
    ck_assert_int_eq(redlock_attach(burst.loop, cluster_nodes_string(burst.cluster), options, &burst.client, &result),
                     REDLOCK_OK);
}

/* Acquires so many locks at once, and keeps or releases them. */
static void acquire_burst(unsigned size, redlock_lock **kept, const redlock_acquire_options *how)
{
    char key[32];

    burst.size = size;
    burst.answered = burst.good = 0;
    for (unsigned i = 0; i < size; i++) {
        snprintf(key, sizeof key, real_key("%s%u"), kept ? "kept" : "burst", i);
        ck_assert_int_eq(redlock_acquire_async(burst.client, key, how, on_acquired, kept ? &kept[i] : NULL),
                         REDLOCK_OK);
    }
    ev_run(burst.loop, 0);
}

/* Returns whether no key is left. */
static bool end_burst(void)
{
    redlock_close_async(&burst.client, on_closed, NULL);
    ev_run(burst.loop, 0);
    ev_loop_destroy(burst.loop);
    return cluster_keys_left(burst.cluster, NULL, deployment_marks) == 0;
}

/* From the first moment: the nodes are not connected yet. If requests timed out while they wait for their turn, most of a
 * burst would fail that takes eight timeouts; if their validity counted meanwhile, one that takes longer than the ttl.
 * Returns whether all acquires were granted; and how long they took. */
static bool survive_burst(uint32_t node_timeout_ms, uint32_t *took_ms)
{
    redlock_options options = usual_options();
    redlock_statistics statistics;
    uint64_t begun = test_now_ns();

    options.node_timeout_ms = node_timeout_ms;
    options.connect_timeout_ms = REAL_SOON_MS;
    begin_burst(&options);
    acquire_burst(10000, NULL, NULL);
    *took_ms = (uint32_t)((test_now_ns() - begun) / 1000000);
    ck_assert_int_eq(redlock_statistics_get(burst.client, &statistics), REDLOCK_OK);
    return end_burst() && burst.good == burst.size && statistics.late_grants == 0;
}

START_TEST(overload_fails_no_lock_and_leaves_no_key)
{
    enum { USUAL_MS = 50 };
    uint32_t node_timeout_ms = USUAL_MS, took_ms;
    bool survived = false;

    for (int run = 0; run < 5 && !survived; run++) { /* a server that stands still for the timeout fails a run */
        survived = survive_burst(node_timeout_ms, &took_ms);
        node_timeout_ms = took_ms / 8 > USUAL_MS ? took_ms / 8 : USUAL_MS;
    }
    ck_assert_msg(survived, "%u of %u locks were granted in %u ms; the last failure: %s", burst.good, burst.size,
                  took_ms, redlock_result_text(&burst.failure));
}
END_TEST

/* The requests are all sent before the first reply is read, and the last ones wait for longer than the timeout. */
START_TEST(releases_of_thousands_at_once_are_all_confirmed)
{
    enum { LOCKS = 10000 };
    static redlock_lock *kept[LOCKS];
    redlock_options options = usual_options();

    options.silence_limit_ms = REAL_SOON_MS; /* on a busy machine a server may not run for seconds */
    options.ttl_ms = 3 * REAL_SOON_MS;
    begin_burst(&options);
    acquire_burst(LOCKS, kept, REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    assert_all_good();
    burst.answered = burst.good = 0;
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_int_eq(redlock_release_async(&kept[i], on_released, NULL), REDLOCK_OK);
    ev_run(burst.loop, 0);
    assert_all_good();
    ck_assert(end_burst());
}
END_TEST

/* A burst of locks that keeps the nodes busy for longer than the ttl. */
START_TEST(burst_loses_no_held_lock)
{
    redlock_options options = usual_options();
    redlock_acquire_options how = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *kept[KEPT];

    options.ttl_ms = 1500;
    how.wait_ms = REAL_SOON_MS;
    begin_burst(&options);
    acquire_burst(KEPT, kept, &how);
    assert_all_good();
    how.fence = 1;
    acquire_burst(number_of("REDLOCK_BURST", 0), NULL, &how);
    assert_all_good();
    for (unsigned i = 0; i < KEPT; i++)
        ck_assert_int_gt(redlock_validity_ms(kept[i]), 0);
    ck_assert(end_burst());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_late");
    TCase *distant = real_bare_case(suite, "distant");
    TCase *busy = real_bare_case(suite, "burst");

    tcase_set_timeout(distant, 900);
    if (getenv("REDLOCK_HOLD_SECONDS") != NULL)
        real_add_long_test(distant, locks_on_distant_nodes_are_acquired_renewed_and_held, FACES);
    else
        real_add_test(distant, locks_on_distant_nodes_are_acquired_renewed_and_held);
    tcase_add_test(busy, overload_fails_no_lock_and_leaves_no_key);
    tcase_add_test(busy, releases_of_thousands_at_once_are_all_confirmed);
    if (getenv("REDLOCK_BURST") != NULL) /* beside other programs, a ttl of 1.5 s may pass */
        tcase_add_test(busy, burst_loses_no_held_lock);
    return real_run(suite, false);
}
