/*
 * Slow nodes with the default timeouts: far away, or behind a burst of the client's own requests.
 *
 *     REDLOCK_HOLD_SECONDS=600 CK_RUN_CASE=distant test_real_late     # holds for 600 s with each way to call, with the default ttl
 */
#include "real/held.h"

enum { DISTANT_LOCKS = 8, DISTANT_TTL_MS = 5000, ONE_WAY_US = 60000, PATIENCE_MS = 600000 };

REAL_LONG_CASE(distant, real_bare_case, NULL);
REAL_LONG_CASE(burst, real_bare_case, NULL);

static redlock_options usual_options(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.guard = 0; /* the servers are new: they would be in quarantine */
    return options;
}

static void hold_distant_locks(int i)
{
    real_cluster(HELD_NODES, NULL);
    redlock_options options = usual_options();
    redlock_lock *locks[DISTANT_LOCKS];
    struct delay_proxy *proxy = real_proxy();
    char key[32];
    for (size_t node = 0; node < HELD_NODES; node++)
        delay_proxy_set_delay_us(proxy, node, PROXY_BOTH, ONE_WAY_US);
    if (!getenv("REDLOCK_HOLD_SECONDS"))
        options.ttl_ms = DISTANT_TTL_MS;
    struct face *face = face_open_ready(face_of(i), delay_proxy_nodes_string(proxy), &options);
    for (int n = 0; n < DISTANT_LOCKS; n++) {
        snprintf(key, sizeof key, real_key("distant%d"), n);
        locks[n] = held_acquire(face, key, NULL);
        ck_assert_uint_ge(result.elapsed_us, 2 * ONE_WAY_US); /* the proxy delays */
    }
    if (getenv("REDLOCK_HOLD_SECONDS"))
        face_idle(face, 1000 * real_setting("REDLOCK_HOLD_SECONDS", 0));
    else
        held_await_more(face, HELD_COUNTER(renewed), 2 * DISTANT_LOCKS);
    for (int n = 0; n < DISTANT_LOCKS; n++)
        held_release(face, &locks[n]);
    face_close(&face, NULL);
}

/* The round trip takes 120 ms, and the default timeout is 50 ms. The first attempt knows the round trip from the
 * handshake. */
TEST(distant, locks_on_distant_nodes_are_acquired_renewed_and_held)
{
    int faces = getenv("REDLOCK_HOLD_SECONDS") ? FACES : 1;
    for (int i = 0; i < faces; i++)
        hold_distant_locks(_i + i);
}

/* --- More locks in flight than the nodes answer within the node timeout --- */

enum { BURST = 5000 };

static struct {
    struct face *face;
    unsigned answered, good;
    redlock_result failure; /* the last one */
} burst;

static void count(redlock_client *client, const redlock_result *answer, void *unused)
{
    (void)client;
    (void)unused;
    burst.answered++;
    if (answer->status == REDLOCK_OK)
        burst.good++;
    else
        burst.failure = *answer;
}

static void release_it(redlock_client *client, redlock_lock *lock, const redlock_result *answer, void *unused)
{
    if (lock)
        ck_assert_int_eq(redlock_release_async(&lock, NULL, count, NULL), REDLOCK_OK);
    else
        count(client, answer, unused);
}

static bool all_have_ended(void *unused)
{
    uint32_t pending = BURST - burst.answered;
    (void)unused;
    for (uint32_t i = 0; i < HELD_NODES && pending == 0; i++) {
        redlock_node_status status = held_node_status(burst.face, i);
        pending += status.requests_pending + status.undos_pending;
    }
    return pending == 0;
}

/* From the first moment: the nodes are not connected yet. If requests timed out while they wait for their turn, most of a
 * burst would fail that takes eight timeouts; if their validity counted meanwhile, one that takes longer than the ttl.
 * Returns whether all acquires were granted and left no key; and how long they took. */
static bool survive_burst(uint32_t node_timeout_ms, uint32_t *took_ms)
{
    redlock_options options = usual_options();
    char key[32];
    options.node_timeout_ms = node_timeout_ms;
    options.connect_timeout_ms = REAL_SOON_MS;
    real_cluster(HELD_NODES, NULL);
    uint64_t begun = test_now_ns();
    burst.face = face_open(ASYNCHRONOUS_FACE, cluster_nodes_string(cluster), &options);
    burst.answered = burst.good = 0;
    for (unsigned i = 0; i < BURST; i++) {
        snprintf(key, sizeof key, real_key("burst%u"), i);
        ck_assert_int_eq(redlock_acquire_async(face_client(burst.face), key, NULL, release_it, NULL), REDLOCK_OK);
    }
    ck_assert(face_wait(burst.face, all_have_ended, NULL, PATIENCE_MS));
    *took_ms = (uint32_t)((test_now_ns() - begun) / 1000000);
    uint64_t late_grants = held_statistics(burst.face).late_grants;
    face_close(&burst.face, NULL);
    return cluster_keys_left(cluster, cluster_marks) == 0 && burst.good == BURST && late_grants == 0;
}

TEST(burst, overload_fails_no_lock_and_leaves_no_key)
{
    enum { USUAL_MS = 50 };
    uint32_t node_timeout_ms = USUAL_MS, took_ms;
    bool survived = false;
    for (int run = 0; run < 5 && !survived; run++) { /* a server that stands still for the timeout fails a run */
        survived = survive_burst(node_timeout_ms, &took_ms);
        node_timeout_ms = took_ms / 8 > USUAL_MS ? took_ms / 8 : USUAL_MS;
    }
    ck_assert_msg(survived, "%u of %d locks were granted in %u ms; the last failure: %s", burst.good, BURST, took_ms,
                  redlock_result_text(&burst.failure));
}

REAL_PROGRAM("real_late")
