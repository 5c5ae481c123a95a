/* The end of a lock on real servers. The client reports it once, in time and with its reason, in all states of the
 * nodes, and never while a majority replies. REDLOCK_TRIALS is the number of outages; by default each
 * API has one kind of outage, with one to all nodes. */
#include "real/held.h"

#include "support/lateness.h"
#include "support/process.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/* A renewal of nodes that reply within the node timeout of held_options() succeeds. */
enum { TTL_MS = 2000, LATE_MS = 500, IN_TIME_MS = 10, MILLISECOND = 1000000 };

static const char key[] = real_key("lost");
static struct held_scene scene;

static void begin(int i, uint32_t ttl_ms)
{
    redlock_options options = held_options(ttl_ms, 0);
    held_begin(&scene, i, &options);
}

/* --- Outages --- */

enum outage { STOPPED, KILLED, PARTITIONED, OUTAGES };
enum { KINDS = (int)OUTAGES * (int)FACES };
static const char *const outage_names[] = {"stopped", "killed", "partitioned"};

static struct {
    struct delay_proxy *proxy;
    enum outage outage;
    size_t nodes;    /* number of nodes that are out */
    double slack_ms; /* delay caused by the machine */
} trial;

static void set_outage(bool out)
{
    for (size_t i = 0; i < trial.nodes; i++) {
        if (trial.outage == STOPPED)
            (out ? cluster_stop : cluster_resume)(cluster, i);
        else if (trial.outage == KILLED)
            (out ? cluster_kill : cluster_start)(cluster, i);
        else
            (out ? delay_proxy_hold : delay_proxy_let_go)(trial.proxy, i, PROXY_BOTH);
    }
}

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
    uint64_t until_ns;    /* end of the observation */
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
    if (is_readable(sight->descriptor) && sight->readable_ns == 0)
        sight->readable_ns = test_now_ns();
    return sight->readable_ns != 0 || now >= sight->until_ns;
}

static void assert_in_time(const char *what, uint64_t reported_ns, uint64_t end_ns, double allowed_ms)
{
    double late_ms = ((double)reported_ns - (double)end_ns) / MILLISECOND;
    ck_assert_msg(late_ms >= -2 && late_ms <= allowed_ms + trial.slack_ms,
                  "%zu nodes %s: %s %.1f ms after the end (the machine: %.1f ms)", trial.nodes,
                  outage_names[trial.outage], what, late_ms, trial.slack_ms);
}

static void assert_lost(const struct sight *sight, const struct waiter *waiter)
{
    const struct held_story *story = &scene.story;
    ck_assert_uint_eq(atomic_load(&story->lost), 1);
    ck_assert_int_eq(atomic_load(&story->loss), REDLOCK_LOSS_EXPIRED);
    ck_assert_int_eq(atomic_load(&story->validity_ms), 0);
    ck_assert_ptr_eq(story->lock, scene.lock);
    if (trial.slack_ms <= LATE_MS) /* otherwise the machine delayed the renewals */
        ck_assert_uint_ge(atomic_load(&story->failing), 1);
    ck_assert_int_eq(redlock_validity_ms(scene.lock), 0);
    ck_assert_int_eq(redlock_lock_loss(scene.lock), REDLOCK_LOSS_EXPIRED);
    ck_assert(is_readable(sight->descriptor)); /* it stays readable */
    assert_in_time("called back", (uint64_t)atomic_load(&story->lost_ns), sight->end_ns, IN_TIME_MS);
    assert_in_time("descriptor seen", sight->readable_ns, sight->end_ns, IN_TIME_MS + 2);
    if (!waiter->lock)
        return;
    ck_assert_int_eq(waiter->status, REDLOCK_LOST);
    ck_assert_int_eq(waiter->loss, REDLOCK_LOSS_EXPIRED);
    assert_in_time("wait_lost returned", waiter->returned_ns, sight->end_ns, IN_TIME_MS);
}

/* Returns false if the machine was so late that the trial is invalid. */
static bool try_outage(size_t nodes)
{
    bool fatal = nodes >= HELD_QUORUM;
    struct waiter waiter = {0};
    struct sight sight = {0};
    trial.nodes = nodes;
    scene.acquire = held_acquire_options(&scene.story);
    held_take_everywhere(&scene, key); /* a node without the lock gets it with the first renewal */
    ck_assert_int_eq(redlock_lost_descriptor(scene.lock, &sight.descriptor), REDLOCK_OK);
    if (fatal && redlock_wait_lost(scene.lock, 0, NULL) == REDLOCK_TIMED_OUT) /* only in the blocking API */
        start_waiter(&waiter);
    set_outage(true);
    bool valid = redlock_validity_ms(scene.lock) > TTL_MS / 2;
    double own_ms = lateness_waited_ms(getpid()), all_ms = held_waited_ms(nodes);
    lateness_begin();
    sight.until_ns = test_deadline_ns(fatal ? REAL_SOON_MS : 3 * TTL_MS / 2);
    face_wait(scene.face, has_ended, &sight, REAL_SOON_MS);
    held_settle(scene.face); /* a second notification would arrive now */
    double woken_ms = lateness_end_ms();
    trial.slack_ms = woken_ms + lateness_waited_ms(getpid()) - own_ms;
    if (waiter.lock)
        pthread_join(waiter.thread, NULL);
    if (valid && fatal)
        assert_lost(&sight, &waiter);
    set_outage(false);
    ck_assert(face_wait_all_ready(scene.face));
    all_ms = woken_ms + held_waited_ms(nodes) - all_ms;
    unsigned lost = atomic_load(&scene.story.lost);
    int status = face_release(scene.face, &scene.lock, &result);
    ck_assert(real_nothing_left(scene.face));           /* the next lock finds every node free */
    if (!valid || (!fatal && lost && all_ms > LATE_MS)) /* the machine kept the client from renewing */
        return false;
    ck_assert_msg(lost == fatal && (fatal || sight.readable_ns == 0),
                  "%zu nodes %s: lost %u times (the machine: %.1f ms)", nodes, outage_names[trial.outage], lost,
                  all_ms);
    real_status(status, fatal ? REDLOCK_LOST : REDLOCK_OK, &result);
    return true;
}

REAL_LONG_CASE(outages, real_bare_case, NULL);
REAL_CASE(reasons, real_bare_case, NULL);

TEST_LONG_ROWS(outages, loss_is_reported_in_time_in_every_outage, KINDS)
{
    unsigned trials = real_setting("REDLOCK_TRIALS", FACES * HELD_NODES), shown = 0, tried = 0;
    unsigned kinds = getenv("REDLOCK_TRIALS") ? KINDS : FACES, count = (trials + kinds - 1) / kinds;
    if ((unsigned)_i >= kinds)
        return;
    redlock_options options = held_options(TTL_MS, 0);
    real_cluster(HELD_NODES, NULL);
    trial.proxy = real_proxy();
    trial.outage = (enum outage)((_i + _i / FACES) % OUTAGES);
    scene.face = held_open_trusted(_i, delay_proxy_nodes_string(trial.proxy), &options);
    while (shown < count && tried++ < 6 * count + 20) /* on a busy machine some of the trials are invalid */
        shown += try_outage(shown % HELD_NODES + 1);
    ck_assert_uint_eq(shown, count);
}

/* --- Reasons --- */

TEST(reasons, wait_for_the_loss_ends_with_the_release)
{
    struct waiter waiter = {0};
    int descriptor;
    begin(BLOCKING_FACE, 10 * TTL_MS);
    held_take(&scene, key);
    ck_assert_int_eq(redlock_wait_lost(scene.lock, 0, NULL), REDLOCK_TIMED_OUT);
    ck_assert_int_eq(redlock_wait_lost(scene.lock, -2, NULL), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_wait_lost(NULL, 0, NULL), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_lost_descriptor(NULL, &descriptor), REDLOCK_INVALID);
    ck_assert_int_eq(redlock_lost_descriptor(scene.lock, &descriptor), REDLOCK_OK);
    ck_assert(!is_readable(descriptor));
    start_waiter(&waiter);
    real_until(NULL, process_state(atomic_load(&waiter.id)) == 'S'); /* it only sleeps in the wait */
    held_release(scene.face, &scene.lock);
    pthread_join(waiter.thread, NULL);
    ck_assert_int_eq(waiter.status, REDLOCK_CANCELLED);
}

REAL_FAULTS_PROGRAM("held_loss")
