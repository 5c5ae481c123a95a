/* The end of a lock on real servers: the client reports it once, in time and with its reason, whatever has happened to the
 * nodes. Locks on nodes that are far away are held. */
#include "real/held.h"

#include "support/clock.h"
#include "support/process.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/* A renewal of nodes that reply within the node timeout of held_options() succeeds. */
enum { TTL_MS = 2000, LATE_MS = 500, IN_TIME_MS = 10, MILLISECOND = 1000000, MOST_RUNS = 20 };

static const char key[] = real_key("lost");
static struct held_scene scene;

/* --- Outages --- */

/* A majority is out, or all are. */
static const struct outage {
    size_t nodes; /* the first ones */
    void (*begin)(struct cluster *nodes, size_t node);
    void (*end)(struct cluster *nodes, size_t node);
} outages[] = {
    {HELD_QUORUM, cluster_stop, cluster_resume},
    {HELD_NODES, cluster_kill, cluster_start},
    {HELD_QUORUM, cluster_kill, cluster_start},
};

/* A thread that waits for the loss in the blocking API. */
struct waiter {
    pthread_t thread;
    atomic_int id; /* the thread's ID, set just before it waits */
    redlock_lock *lock;
    int status;
    int loss;
    uint64_t returned_ns;
};

static void *wait_for_loss(void *arg)
{
    struct waiter *waiter = arg;
    atomic_store(&waiter->id, gettid());
    waiter->status = redlock_wait_lost(waiter->lock, REAL_SOON_MS, &waiter->loss);
    waiter->returned_ns = test_now_ns();
    return NULL;
}

static void start_waiter(struct waiter *waiter)
{
    waiter->lock = scene.lock;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_loss, waiter), 0);
}

/* The end of the lock as its holder can observe it. */
struct sight {
    int descriptor;
    uint64_t end_ns;      /* end of validity by the last query; exact to a millisecond */
    uint64_t readable_ns; /* when the descriptor was first readable */
    double slack_ms;      /* delay caused by the machine */
};

static bool is_readable(int descriptor)
{
    struct pollfd asked = {.fd = descriptor, .events = POLLIN};
    return poll(&asked, 1, 0) == 1 && (asked.revents & POLLIN);
}

/* Must be called every millisecond. */
static bool has_ended(void *arg)
{
    struct sight *sight = arg;
    uint64_t now = test_now_ns();
    int64_t validity = redlock_validity_ms(scene.lock);
    if (validity > 0)
        sight->end_ns = now + (uint64_t)(validity + 1) * MILLISECOND;
    if (is_readable(sight->descriptor))
        sight->readable_ns = test_now_ns();
    return sight->readable_ns != 0;
}

static void assert_in_time(const struct sight *sight, const char *what, uint64_t reported_ns, double allowed_ms)
{
    double late_ms = ((double)reported_ns - (double)sight->end_ns) / MILLISECOND;
    ck_assert_msg(late_ms >= -2 && late_ms <= allowed_ms + sight->slack_ms,
                  "%s %.1f ms after the end (the machine: %.1f ms)", what, late_ms, sight->slack_ms);
}

static void assert_lost(const struct sight *sight, const struct waiter *waiter)
{
    const struct held_story *story = &scene.story;
    ck_assert_uint_eq(atomic_load(&story->lost), 1);
    ck_assert_int_eq(atomic_load(&story->loss), REDLOCK_LOSS_EXPIRED);
    ck_assert_int_eq(atomic_load(&story->validity_ms), 0);
    ck_assert_ptr_eq(story->lock, scene.lock);
    if (sight->slack_ms <= LATE_MS) /* otherwise the machine delayed the renewals */
        ck_assert_uint_ge(atomic_load(&story->failing), 1);
    ck_assert_int_eq(redlock_validity_ms(scene.lock), 0);
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_LOSS_EXPIRED);
    ck_assert(is_readable(sight->descriptor)); /* it stays readable */
    assert_in_time(sight, "called back", (uint64_t)atomic_load(&story->lost_ns), IN_TIME_MS);
    assert_in_time(sight, "descriptor seen", sight->readable_ns, IN_TIME_MS + 2);
    if (!waiter->lock)
        return;
    ck_assert_int_eq(waiter->status, REDLOCK_LOST);
    ck_assert_int_eq(waiter->loss, REDLOCK_LOSS_EXPIRED);
    assert_in_time(sight, "wait_lost returned", waiter->returned_ns, IN_TIME_MS);
}

/* Returns false if the machine was so late that the lock may have ended before the outage. */
static bool lose(const struct outage *outage)
{
    struct waiter waiter = {0};
    struct sight sight = {0};
    scene.acquire = held_acquire_options(&scene.story);
    held_take_everywhere(&scene, key);
    ck_assert_int_eq(redlock_lost_descriptor(scene.lock, &sight.descriptor), REDLOCK_OK);
    if (redlock_wait_lost(scene.lock, 0, NULL) == REDLOCK_TIMED_OUT) /* only in the blocking API */
        start_waiter(&waiter);
    for (size_t i = 0; i < outage->nodes; i++)
        outage->begin(cluster, i);
    bool valid = redlock_validity_ms(scene.lock) > TTL_MS / 2;
    double own_ms = lateness_waited_ms(getpid());
    lateness_begin();
    face_wait(scene.face, has_ended, &sight, REAL_SOON_MS);
    held_settle(scene.face); /* a second notification would arrive now */
    sight.slack_ms = lateness_end_ms() + lateness_waited_ms(getpid()) - own_ms;
    if (waiter.lock)
        pthread_join(waiter.thread, NULL);
    if (valid)
        assert_lost(&sight, &waiter);
    for (size_t i = 0; i < outage->nodes; i++)
        outage->end(cluster, i);
    ck_assert(face_wait_all_ready(scene.face));
    real_status(face_release(scene.face, &scene.lock, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(scene.face)); /* the next lock finds every node free */
    return valid;
}

REAL_CASE(outages, real_bare_case, NULL);
REAL_CASE(ends, real_bare_case, NULL);

TEST_LONG_ROWS(outages, loss_is_reported_in_time, ROWS(outages))
{
    redlock_options options = held_options(TTL_MS, 0);
    bool shown = false;
    scene.face = held_open_trusted(_i, NULL, &options);
    for (int run = 0; run < MOST_RUNS && !shown; run++)
        shown = lose(&outages[_i]);
    ck_assert_msg(shown, "in each of %d runs the machine was late", MOST_RUNS);
}

TEST(ends, wait_for_the_loss_ends_with_the_release)
{
    struct waiter waiter = {0};
    redlock_options options = held_options(10 * TTL_MS, 0);
    int descriptor;
    held_begin(&scene, BLOCKING_FACE, &options);
    held_take(&scene, key);
    ck_assert_int_eq(redlock_wait_lost(scene.lock, 0, NULL), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(redlock_wait_lost(scene.lock, -2, NULL), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_lost_descriptor(scene.lock, &descriptor), REDLOCK_OK);
    ck_assert(!is_readable(descriptor));
    start_waiter(&waiter);
    real_until(NULL, process_state(atomic_load(&waiter.id)) == 'S'); /* it only sleeps in the wait */
    held_release(scene.face, &scene.lock);
    pthread_join(waiter.thread, NULL);
    ck_assert_int_eq(waiter.status, REDLOCK_CANCELLED);
}

/* --- Nodes that are far away --- */

enum { ONE_WAY_US = 60000, DISTANT_TTL_MS = 5000 };

/* The round trip takes 120 ms, and the default timeout is 50 ms. The first attempt knows the round trip from the
 * handshake. */
TEST(ends, lock_on_distant_nodes_is_acquired_renewed_and_held)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.guard = 0; /* the servers are new: they would be in quarantine */
    options.ttl_ms = DISTANT_TTL_MS;
    uint16_t ports[HELD_NODES];
    real_cluster(HELD_NODES, NULL);
    for (size_t node = 0; node < HELD_NODES; node++)
        ports[node] = cluster_port(cluster, node);
    struct delay_proxy *proxy = delay_proxy_start(NULL, ports, HELD_NODES);
    real_note_descriptors();
    for (size_t node = 0; node < HELD_NODES; node++)
        delay_proxy_set_delay_us(proxy, node, PROXY_BOTH, ONE_WAY_US);
    struct face *face = face_open_ready(face_of(_i), delay_proxy_nodes_string(proxy), &options);
    redlock_lock *lock = held_acquire(face, key, NULL);
    ck_assert_uint_ge(result.elapsed_us, 2 * ONE_WAY_US); /* the proxy delays */
    held_await_more(face, HELD_COUNTER(renewed), 2);
    held_release(face, &lock);
}

REAL_PROGRAM("held_loss")
