/*
 * Slow nodes with the default timeouts: far away, or behind a burst of the client's own requests; and nodes whose messages
 * never arrive.
 *
 *     REDLOCK_HOLD_SECONDS=600 CK_RUN_CASE=distant test_real_late     # holds for 600 s with each way to call, with the default ttl
 */
#include "real/held.h"

#include <poll.h>
#include <pthread.h>

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

static struct {
    struct face *face;
    unsigned size, answered, good;
    redlock_result failure; /* the last one */
} burst;

static void assert_all_good(void)
{
    ck_assert_msg(burst.good == burst.size, "%u of %u; another one: %s: %s", burst.good, burst.size,
                  redlock_status_name(burst.failure.status), redlock_result_text(&burst.failure));
}

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

/* Keeps the lock in *kept, or releases it at once if kept is NULL. */
static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *answer, void *kept)
{
    if (lock && !kept) {
        ck_assert_int_eq(redlock_release_async(&lock, NULL, count, NULL), REDLOCK_OK);
        return;
    }
    if (kept)
        *(redlock_lock **)kept = lock;
    count(client, answer, NULL);
}

static bool is_answered(void *unused)
{
    (void)unused;
    return burst.answered == burst.size;
}

/* Waits until this many operations, which have been started, have ended. */
static void await_answers(unsigned size)
{
    burst.size = size;
    ck_assert(face_wait(burst.face, is_answered, NULL, PATIENCE_MS));
    burst.answered = 0;
}

static void begin_burst(const redlock_options *options)
{
    real_cluster(HELD_NODES, NULL);
    burst.face = face_open(ASYNCHRONOUS_FACE, cluster_nodes_string(cluster), options);
}

/* Acquires this many locks at once, and keeps or releases them. */
static void acquire_burst(unsigned size, redlock_lock **kept, const redlock_acquire_options *how)
{
    char key[32];
    burst.good = 0;
    for (unsigned i = 0; i < size; i++) {
        snprintf(key, sizeof key, real_key("%s%u"), kept ? "kept" : "burst", i);
        ck_assert_int_eq(redlock_acquire_async(face_client(burst.face), key, how, on_acquired, kept ? &kept[i] : NULL),
                         REDLOCK_OK);
    }
    await_answers(size);
}

static bool all_nodes_have_replied(void *unused)
{
    (void)unused;
    uint32_t pending = 0;
    for (uint32_t i = 0; i < HELD_NODES; i++) {
        redlock_node_status status = held_node_status(burst.face, i);
        pending += status.requests_pending + status.undos_pending;
    }
    return pending == 0;
}

/* Returns whether no key is left. A close would wait only for the node timeout, for a node that is late. */
static bool end_burst(void)
{
    ck_assert(face_wait(burst.face, all_nodes_have_replied, NULL, PATIENCE_MS));
    face_close(&burst.face, NULL);
    return cluster_keys_left(cluster, NULL, deployment_marks) == 0;
}

/* From the first moment: the nodes are not connected yet. If requests timed out while they wait for their turn, most of a
 * burst would fail that takes eight timeouts; if their validity counted meanwhile, one that takes longer than the ttl.
 * Returns whether all acquires were granted; and how long they took. */
static bool survive_burst(uint32_t node_timeout_ms, uint32_t *took_ms)
{
    redlock_options options = usual_options();
    uint64_t begun = test_now_ns();
    options.node_timeout_ms = node_timeout_ms;
    options.connect_timeout_ms = REAL_SOON_MS;
    begin_burst(&options);
    acquire_burst(5000, NULL, NULL);
    *took_ms = (uint32_t)((test_now_ns() - begun) / 1000000);
    uint64_t late_grants = held_statistics(burst.face).late_grants;
    return end_burst() && burst.good == burst.size && late_grants == 0;
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
    ck_assert_msg(survived, "%u of %u locks were granted in %u ms; the last failure: %s", burst.good, burst.size,
                  took_ms, redlock_result_text(&burst.failure));
}

/* The requests are all sent before the first reply is read, and the last ones wait for longer than the timeout. */
TEST(burst, releases_of_thousands_at_once_are_all_confirmed)
{
    enum { LOCKS = 5000 };
    static redlock_lock *kept[LOCKS];
    redlock_options options = usual_options();
    options.silence_limit_ms = REAL_SOON_MS; /* on a busy machine a server may not run for seconds */
    options.ttl_ms = 3 * REAL_SOON_MS;
    begin_burst(&options);
    acquire_burst(LOCKS, kept, REDLOCK_WAIT_MS(REDLOCK_FOREVER));
    assert_all_good();
    burst.good = 0;
    for (unsigned i = 0; i < LOCKS; i++)
        ck_assert_int_eq(redlock_release_async(&kept[i], NULL, count, NULL), REDLOCK_OK);
    await_answers(LOCKS);
    assert_all_good();
    ck_assert(end_burst());
}

/* --- A waiter whose subscriptions are half open --- */

enum { TAKERS = 4, DEAF = 0, SPAN_MS = 1000, LEAST_PERCENT = 80 };

struct taker {
    pthread_t thread;
    redlock_client *client;
    int status;
    atomic_uint turns;
};

static atomic_bool takers_end;

static void *take_turns(void *arg)
{
    struct taker *taker = arg;
    redlock_lock *lock;
    while (taker->status == REDLOCK_OK && !atomic_load(&takers_end)) {
        taker->status =
            redlock_acquire(taker->client, real_key("turns"), REDLOCK_WAIT_MS(REDLOCK_FOREVER), &lock, NULL);
        if (taker->status == REDLOCK_OK)
            taker->status = redlock_release(&lock, NULL, NULL);
        atomic_fetch_add(&taker->turns, 1);
    }
    return NULL;
}

/* The turns of the clients that hear, within a span. */
static unsigned count_turns(struct taker *takers)
{
    unsigned turns = 0;
    for (unsigned i = 0; i < TAKERS; i++)
        turns -= i != DEAF ? atomic_load(&takers[i].turns) : 0;
    poll(NULL, 0, SPAN_MS);
    for (unsigned i = 0; i < TAKERS; i++)
        turns += i != DEAF ? atomic_load(&takers[i].turns) : 0;
    return turns;
}

static void await_turns(struct taker *taker, unsigned more)
{
    unsigned before = atomic_load(&taker->turns);
    real_until(NULL, atomic_load(&taker->turns) >= before + more);
}

/* Returns the others' rate beside the deaf waiter, in percent of the one before. */
static unsigned rate_beside_deaf_waiter(void)
{
    real_cluster(HELD_NODES, NULL);
    redlock_options options = usual_options();
    struct taker takers[TAKERS] = {0};
    struct delay_proxy *proxy = real_proxy();
    options.node_timeout_ms = 1000; /* of a busy machine */
    atomic_store(&takers_end, false);
    for (unsigned i = 0; i < TAKERS; i++) {
        const char *nodes = i == DEAF ? delay_proxy_nodes_string(proxy) : cluster_nodes_string(cluster);
        takers[i].client = face_client(held_open(BLOCKING_FACE, nodes, &options));
        ck_assert_int_eq(pthread_create(&takers[i].thread, NULL, take_turns, &takers[i]), 0);
    }
    for (unsigned i = 0; i < TAKERS; i++)
        await_turns(&takers[i], 20); /* each has waited, and is subscribed */
    unsigned before = count_turns(takers);
    for (size_t node = 0; node < HELD_NODES; node++)
        delay_proxy_hold_messages(proxy, node, true);
    await_turns(&takers[DEAF], 2); /* the first hand-over is lost */
    unsigned deaf = atomic_load(&takers[DEAF].turns);
    unsigned after = count_turns(takers);
    deaf = atomic_load(&takers[DEAF].turns) - deaf;
    for (size_t node = 0; node < HELD_NODES; node++)
        delay_proxy_hold_messages(proxy, node, false);
    atomic_store(&takers_end, true);
    for (unsigned i = 0; i < TAKERS; i++) {
        pthread_join(takers[i].thread, NULL);
        ck_assert_msg(takers[i].status == REDLOCK_OK, "%s", redlock_status_name(takers[i].status));
    }
    held_close_all();
    printf("the clients that hear had %u turns before, and %u beside the deaf one, which had %u\n", before, after,
           deaf);
    fflush(stdout);
    return before && deaf ? 100 * after / before : 0;
}

REAL_CASE(deaf, real_bare_case, NULL);

/* A release passes over it, and when it is its turn, it polls soon. Otherwise each of its turns would stop all others until
 * its next poll. */
TEST(deaf, waiter_that_hears_nothing_slows_no_other_client_down)
{
    enum { RUNS = 5 };
    unsigned rate = 0;
    for (int run = 0; run < RUNS && rate < LEAST_PERCENT; run++)
        rate = rate_beside_deaf_waiter();
    ck_assert_msg(rate >= LEAST_PERCENT, "%u %% of the rate before", rate);
}

REAL_PROGRAM("real_late")
