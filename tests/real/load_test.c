/*
 * Load: 1,000 blocking threads in one process, 500 waiters that start together, and one client under mixed operations
 * and node faults whose memory must not grow. The last test runs for a few seconds; $REDLOCK_CHURN_SECONDS makes it run
 * longer.
 */
#include "real/real.h"

#include "support/allocator.h"
#include "support/clock.h"
#include "support/file.h"

#include "rules/random.h"

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 1000, THREAD_LOCKS = 2, RESOURCES = 100, WAITERS = 500, STAYING = 20 };
enum { PATIENCE_MS = 120000, CHURNERS = 8, CHURN_SECONDS = 8, STRETCHES = 4, CHURN_RESOURCES = 6 };

static redlock_result result;

/* Number of holders of each resource, as the test counts them. Two holders break exclusion. Check's assertions work
 * only in the main thread: other threads count errors, and the main thread reports them. */
static atomic_int holders[RESOURCES];
static atomic_uint wrong_answers, wrong_holders;

static void hold(unsigned resource)
{
    if (atomic_fetch_add(&holders[resource], 1) != 0)
        atomic_fetch_add(&wrong_holders, 1);
    sched_yield();
    atomic_fetch_sub(&holders[resource], 1);
}

static const char *resource_name(unsigned resource, char name[32])
{
    snprintf(name, 32, DEPLOYMENT_PREFIX "load%u", resource);
    return name;
}

/* --- 1,000 threads --- */

struct caller {
    pthread_t thread;
    redlock_client *client;
    unsigned resource;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    char name[32];
    for (unsigned i = 0; i < THREAD_LOCKS; i++) {
        redlock_lock *lock;
        if (redlock_acquire(caller->client, resource_name(caller->resource, name), REDLOCK_WAIT_MS(PATIENCE_MS), &lock,
                            NULL) == REDLOCK_OK)
            hold(caller->resource);
        if (redlock_release(&lock, NULL) != REDLOCK_OK)
            atomic_fetch_add(&wrong_answers, 1);
    }
    return NULL;
}

REAL_CASE_WITH(many, real_own_case, NULL, NULL, 2. * PATIENCE_MS / 1000);
REAL_LONG_CASE(churn, real_own_case, NULL);

TEST(many, a_thousand_threads_share_a_client)
{
    static struct caller callers[THREADS];
    struct face *face = face_open_ready(BLOCKING_FACE, deployment_nodes(real_nodes), NULL);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (unsigned i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.client = face_client(face), .resource = i % RESOURCES};
        ck_assert_int_eq(pthread_create(&callers[i].thread, &small, call, &callers[i]), 0);
    }
    pthread_attr_destroy(&small);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    ck_assert_uint_eq(wrong_holders, 0);
    ck_assert_uint_eq(wrong_answers, 0);
    ck_assert(real_nothing_left(face));
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}

/* --- 500 waiters --- */

static unsigned waiters_left;

static void on_done(redlock_client *client, const redlock_result *given, void *arg)
{
    (void)client;
    (void)arg;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    waiters_left--;
}

static bool leaving; /* clients are closed while they wait */

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    redlock_result copy = *given;
    (void)client;
    if (leaving && copy.status == REDLOCK_CANCELLED)
        return;
    real_status(copy.status, REDLOCK_OK, &copy);
    hold(0); /* the release is already in progress when this callback returns */
    ck_assert_int_eq(redlock_release_async(&lock, on_done, arg), REDLOCK_OK);
}

static uint64_t late_grants(redlock_client *client)
{
    redlock_statistics statistics;
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    return statistics.late_grants;
}

static void turn_until_done(struct ev_loop *loop, unsigned count)
{
    uint64_t deadline = test_deadline_ns(PATIENCE_MS);
    for (waiters_left = count; waiters_left && test_ms_left(deadline) > 0;)
        ev_run(loop, EVRUN_ONCE);
    ck_assert_msg(waiters_left == 0, "%u of %u are not done", waiters_left, count);
}

/* Closes the clients from `first` to before `end`. Returns the number of their late grants. */
static uint64_t close_from(struct ev_loop *loop, redlock_client **clients, unsigned first, unsigned end)
{
    uint64_t late = 0;
    for (unsigned i = first; i < end; i++) {
        late += late_grants(clients[i]);
        redlock_close_async(&clients[i], on_done, NULL);
    }
    turn_until_done(loop, end - first);
    return late;
}

/* Whether each waiter has its queue entry on the first node. */
static bool are_queued(void)
{
    return deployment_integer(real_nodes, 0, "ZCARD", DEPLOYMENT_PREFIX "load0:redlock:queue", NULL) == WAITERS;
}

static void turn_until_queued(struct ev_loop *loop)
{
    uint64_t deadline = test_deadline_ns(PATIENCE_MS), next_look = 0;
    bool queued = false;
    while (!queued && test_ms_left(deadline) > 0) {
        ev_run(loop, EVRUN_ONCE);
        if (test_now_ns() < next_look)
            continue;
        queued = are_queued();
        next_look = test_deadline_ns(50);
    }
    ck_assert(queued);
}

/* Raises the descriptor limit to the hard limit. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* One client per waiter; all of them connect at the same time. The holder keeps its lock meanwhile. Most of them leave
 * then: on a busy machine, the 500 polls per second delay the hand-overs by minutes. */
TEST(many, five_hundred_waiters_start_at_once)
{
    static redlock_client *clients[WAITERS];
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    const redlock_options options = face_options();
    char name[32];
    redlock_client *holder;
    redlock_lock *lock;
    uint64_t late;
    raise_limit();
    resource_name(0, name);
    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &holder, &result), REDLOCK_OK, &result);
    real_status(redlock_acquire(holder, name, NULL, &lock, &result), REDLOCK_OK, &result);
    for (unsigned i = 0; i < WAITERS; i++) {
        real_status(redlock_attach(loop, deployment_nodes(real_nodes), &options, &clients[i], &result), REDLOCK_OK,
                    &result);
        ck_assert_int_eq(redlock_acquire_async(clients[i], name, REDLOCK_WAIT_MS(PATIENCE_MS), on_acquired, NULL),
                         REDLOCK_OK);
    }
    turn_until_queued(loop);
    ck_assert_int_eq(redlock_lock_loss(lock), 0);
    leaving = true;
    late = close_from(loop, clients, STAYING, WAITERS);
    leaving = false;
    real_status(redlock_release(&lock, &result), REDLOCK_OK, &result);
    turn_until_done(loop, STAYING);
    ck_assert_uint_eq(wrong_holders, 0);
    late += close_from(loop, clients, 0, STAYING);
    /* A few are late when two waiters collide; timeouts in the burst would delay hundreds. */
    ck_assert_uint_lt(late, WAITERS / 10);
    ev_loop_destroy(loop);
    redlock_close(&holder, NULL);
    ck_assert(real_nothing_left(NULL));
}

/* --- Churn --- */

static redlock_client *client;
static struct test_allocator *allocator;
static struct {
    pthread_t thread;
    uint64_t random;
} churners[CHURNERS];
static atomic_bool churning;
static atomic_uint churned;

/* Tries to acquire a lock with random options, and uses it if that succeeds. */
static void churn_once(uint64_t *random)
{
    char name[32];
    redlock_lock *lock;
    redlock_state state;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = random_below(random, 2) ? random_below(random, 300) : 0;
    options.ttl_ms = 200 + random_below(random, 2000);
    options.fair = random_below(random, 4) == 0;
    options.no_renewal = random_below(random, 4) == 0;
    options.fence = random_below(random, 2);
    resource_name(random_below(random, CHURN_RESOURCES), name);
    if (random_below(random, 8) == 0)
        redlock_query(client, name, 0, &state, NULL);
    if (redlock_acquire(client, name, &options, &lock, NULL) != REDLOCK_OK)
        return;
    atomic_fetch_add(&churned, 1);
    if (random_below(random, 8) == 0)
        redlock_wait_lost(lock, random_below(random, 400), NULL); /* some locks expire meanwhile */
    if (random_below(random, 4) == 0)
        redlock_extend(lock, 0, NULL);
    redlock_release(&lock, NULL);
}

static void *churn(void *arg)
{
    while (atomic_load(&churning))
        churn_once(arg);
    return NULL;
}

static void start_churning(void)
{
    atomic_store(&churning, true);
    for (unsigned i = 0; i < CHURNERS; i++) {
        churners[i].random = i + churned;
        ck_assert_int_eq(pthread_create(&churners[i].thread, NULL, churn, &churners[i].random), 0);
    }
}

/* Causes one temporary fault. The pauses are the length of a fault and the interval between faults: they are the
 * load itself. */
static void disturb(uint64_t *random)
{
    unsigned node = random_below(random, (unsigned)deployment_size(real_nodes));
    switch (random_below(random, 4)) {
    case 0:
        deployment_kill(real_nodes, node);
        usleep(1000 * random_below(random, 200));
        deployment_start(real_nodes, node);
        break;
    case 1:
        deployment_stop(real_nodes, node);
        usleep(1000 * random_below(random, 300));
        deployment_resume(real_nodes, node);
        break;
    case 2:
        deployment_command(real_nodes, node, NULL, 0, "CLIENT", "KILL", "TYPE", "normal", NULL);
        break;
    default:
        deployment_command(real_nodes, node, NULL, 0, "SCRIPT", "FLUSH", NULL);
        break;
    }
    usleep(1000 * random_below(random, 100));
}

static void churn_for(uint64_t seconds, uint64_t *random)
{
    uint64_t deadline = test_now_ns() + seconds * UINT64_C(1000000000);
    start_churning();
    while (test_now_ns() < deadline)
        disturb(random);
}

struct footprint {
    size_t resident;
    size_t live;
    size_t descriptors;
};

/* Measures while no operation is in progress, so only the client's reserves count. */
static struct footprint footprint(void)
{
    atomic_store(&churning, false);
    for (unsigned i = 0; i < CHURNERS; i++)
        pthread_join(churners[i].thread, NULL);
    deployment_repair(real_nodes);
    redlock_ready(client, 10000, NULL);
    ck_assert(real_nothing_left(NULL));
    return (struct footprint){file_resident_bytes(), test_allocator_live_bytes(allocator), file_open_descriptors()};
}

static unsigned churn_seconds(void)
{
    const char *asked = getenv("REDLOCK_CHURN_SECONDS");
    return asked ? (unsigned)strtoul(asked, NULL, 10) : CHURN_SECONDS;
}

static bool is_flat(const struct footprint *before, const struct footprint *after)
{
    /* Each node has two connections, which may be opening or closing. */
    return after->descriptors <= before->descriptors + 2 * deployment_size(real_nodes) &&
           after->live <= before->live + 64 * 1024 && after->resident <= before->resident + 4 * 1024 * 1024;
}

/* What the client keeps for reuse grows with the most that was ever in flight, which no single stretch is sure to
 * reach. A leak grows in every stretch. */
TEST(churn, churn_leaves_memory_and_descriptors_flat)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    uint64_t random = 1;
    unsigned seconds = churn_seconds();
    bool flat = false;
    allocator = test_allocator_new();
    options.ttl_ms = 2000;
    options.guard = 0; /* with the guard, restarted nodes would spend most of the time in quarantine */
    options.backoff_max_ms = 100;
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &client, &result), REDLOCK_OK, &result);
    churn_for(seconds / 4 + 1, &random);
    struct footprint before = footprint();
    for (int stretch = 0; stretch < STRETCHES && !flat; stretch++) {
        churn_for(seconds - seconds / 4, &random);
        struct footprint after = footprint();
        printf("churn: %u locks; %zu KiB of the client's before and %zu after, %zu and %zu descriptors, %zu and %zu "
               "KiB resident\n",
               churned, before.live / 1024, after.live / 1024, before.descriptors, after.descriptors,
               before.resident / 1024, after.resident / 1024);
        flat = is_flat(&before, &after);
        before = after;
    }
    ck_assert_uint_gt(churned, 20);
    ck_assert_msg(flat, "grew in each of %d stretches (see above)", STRETCHES);
    redlock_close(&client, NULL);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}

REAL_FAULTS_PROGRAM("load")
