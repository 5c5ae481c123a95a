/*
 * Load: 1,000 blocking threads in one process, 200 clients of five nodes, 500 waiters that start together, and one
 * client under mixed operations and node faults whose memory must not grow. The last test runs for a few seconds;
 * $REDLOCK_CHURN_SECONDS makes it run longer.
 */
#define _GNU_SOURCE
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_SAYS_NOTHING 1 /* the sanitizer keeps freed memory in quarantine */
#else
#define RESIDENT_SAYS_NOTHING 0
#endif

enum {
    THREADS = 1000,
    THREAD_LOCKS = 2,
    RESOURCES = 100,
    CLIENTS = 200,
    CLIENT_LOCKS = 3,
    CLIENT_RESOURCES = 20,
    WAITERS = 500
};
enum { PATIENCE_MS = 120000, CHURNERS = 8, CHURN_SECONDS = 8, STRETCHES = 4, CHURN_RESOURCES = 6 };

static redlock_result result;

/* Number of holders of each resource, as the test counts them. Two holders break exclusion. */
static atomic_int holders[RESOURCES];

static void enter(unsigned resource)
{
    ck_assert_int_eq(atomic_fetch_add(&holders[resource], 1), 0);
}

static void leave(unsigned resource)
{
    ck_assert_int_eq(atomic_fetch_sub(&holders[resource], 1), 1);
}

static const char *resource_name(unsigned resource, char name[32])
{
    snprintf(name, 32, DEPLOYMENT_PREFIX "load%u", resource);
    return name;
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

/* ---------------------------------------------------------------------------------------------------- 1,000 threads */

struct caller {
    pthread_t thread;
    redlock_client *client;
    unsigned number;
    atomic_uint *done;
};

/* Check's assertions work only in the main thread: other threads count errors, and the main thread reports them. */
static atomic_uint wrong_answers, wrong_holders;

static void *call(void *arg)
{
    struct caller *caller = arg;
    unsigned resource = caller->number % RESOURCES;
    char name[32];
    for (unsigned i = 0; i < THREAD_LOCKS; i++) {
        redlock_lock *lock;
        if (redlock_acquire(caller->client, resource_name(resource, name), REDLOCK_WAIT_MS(PATIENCE_MS), &lock, NULL) !=
            REDLOCK_OK) {
            atomic_fetch_add(&wrong_answers, 1);
            continue;
        }
        if (atomic_fetch_add(&holders[resource], 1) != 0)
            atomic_fetch_add(&wrong_holders, 1);
        sched_yield();
        atomic_fetch_sub(&holders[resource], 1);
        if (redlock_release(&lock, NULL) != REDLOCK_OK)
            atomic_fetch_add(&wrong_answers, 1);
        atomic_fetch_add(caller->done, 1);
    }
    return NULL;
}

static void start_callers(struct caller *callers, redlock_client *client, atomic_uint *done)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (unsigned i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.client = client, .number = i, .done = done};
        ck_assert_int_eq(pthread_create(&callers[i].thread, &small, call, &callers[i]), 0);
    }
    pthread_attr_destroy(&small);
}

START_TEST(a_thousand_threads_share_a_client)
{
    static struct caller callers[THREADS];
    atomic_uint done = 0;
    struct face *face = face_open_ready(BLOCKING_FACE, deployment_nodes(real_nodes), NULL);
    start_callers(callers, face_client(face), &done);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    ck_assert_uint_eq(wrong_holders, 0);
    ck_assert_uint_eq(wrong_answers, 0);
    ck_assert_uint_eq(done, THREADS * THREAD_LOCKS);
    ck_assert(real_nothing_left(face));
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}
END_TEST

/* ------------------------------------------------------------------------------------------------------ 200 clients */

struct contender {
    redlock_client *client;
    struct ev_loop *loop;
    unsigned resource;
    unsigned left;
    redlock_acquire_options options;
};

static unsigned contenders_left;

static void contend(struct contender *contender);

static void on_released(redlock_client *client, const redlock_result *told, void *arg)
{
    struct contender *contender = arg;
    (void)client;
    ck_assert_int_eq(told->status, REDLOCK_OK);
    if (contender->left)
        contend(contender);
    else
        contenders_left--;
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *told, void *arg)
{
    struct contender *contender = arg;
    redlock_result copy = *told;
    (void)client;
    real_status(copy.status, REDLOCK_OK, &copy);
    enter(contender->resource);
    leave(contender->resource); /* the release is already in progress when this returns */
    contender->left--;
    ck_assert_int_eq(redlock_release_async(&lock, on_released, contender), REDLOCK_OK);
}

static void contend(struct contender *contender)
{
    char name[32];
    ck_assert_int_eq(redlock_acquire_async(contender->client, resource_name(contender->resource, name),
                                           &contender->options, on_acquired, contender),
                     REDLOCK_OK);
}

static void on_closed(redlock_client *client, const redlock_result *told, void *arg)
{
    (void)client;
    (void)told;
    (void)arg;
    contenders_left--;
}

static void turn_until_all_are_done(struct ev_loop *loop, unsigned count)
{
    uint64_t deadline = test_deadline_ns(PATIENCE_MS);
    for (contenders_left = count; contenders_left && test_ms_left(deadline) > 0;)
        ev_run(loop, EVRUN_ONCE);
    ck_assert_uint_eq(contenders_left, 0);
}

/* --- 500 waiters --- */

/* Whether each waiter has its queue entry on the first node. */
static bool are_queued(void)
{
    return deployment_integer(real_nodes, 0, "ZCARD", DEPLOYMENT_PREFIX "load0:redlock:queue", NULL) == WAITERS;
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    if (are_queued())
        ev_timer_stop(loop, timer);
}

static void turn_until_queued(struct ev_loop *loop)
{
    uint64_t deadline = test_deadline_ns(PATIENCE_MS);
    ev_timer tick;
    ev_timer_init(&tick, on_tick, 0.05, 0.05);
    ev_timer_start(loop, &tick);
    while (ev_is_active(&tick) && test_ms_left(deadline) > 0)
        ev_run(loop, EVRUN_ONCE);
    ck_assert(!ev_is_active(&tick));
}

static uint64_t late_grants(redlock_client *client)
{
    redlock_statistics statistics;
    ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
    return statistics.late_grants;
}

/* One client per waiter; all of them connect at the same time. The holder keeps its lock meanwhile. */
START_TEST(five_hundred_waiters_start_at_once)
{
    static struct contender waiters[WAITERS];
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    const redlock_options options = face_options();
    redlock_client *holder;
    redlock_lock *lock;
    uint64_t late = 0;
    raise_limit();
    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &holder, &result), REDLOCK_OK, &result);
    real_status(redlock_acquire(holder, DEPLOYMENT_PREFIX "load0", NULL, &lock, &result), REDLOCK_OK, &result);
    for (unsigned i = 0; i < WAITERS; i++) {
        waiters[i] = (struct contender){.loop = loop, .left = 1, .options = REDLOCK_ACQUIRE_OPTIONS_INIT};
        waiters[i].options.wait_ms = PATIENCE_MS;
        real_status(redlock_attach(loop, deployment_nodes(real_nodes), &options, &waiters[i].client, &result),
                    REDLOCK_OK, &result);
        contend(&waiters[i]);
    }
    turn_until_queued(loop);
    ck_assert_int_eq(redlock_lock_loss(lock), 0);
    real_status(redlock_release(&lock, &result), REDLOCK_OK, &result);
    turn_until_all_are_done(loop, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++) {
        late += late_grants(waiters[i].client);
        redlock_close_async(&waiters[i].client, on_closed, NULL);
    }
    turn_until_all_are_done(loop, WAITERS);
    /* A few are late when two waiters collide; timeouts in the burst would delay hundreds. */
    ck_assert_uint_lt(late, WAITERS / 10);
    ev_loop_destroy(loop);
    redlock_close(&holder, NULL);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

START_TEST(two_hundred_clients_share_five_nodes)
{
    static struct contender contenders[CLIENTS];
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    const redlock_options options = face_options();
    raise_limit();
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct contender *contender = &contenders[i];
        *contender = (struct contender){.loop = loop,
                                        .resource = i % CLIENT_RESOURCES,
                                        .left = CLIENT_LOCKS,
                                        .options = REDLOCK_ACQUIRE_OPTIONS_INIT};
        contender->options.wait_ms = PATIENCE_MS;
        real_status(redlock_attach(loop, deployment_nodes(real_nodes), &options, &contender->client, &result),
                    REDLOCK_OK, &result);
        contend(contender);
    }
    turn_until_all_are_done(loop, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        redlock_close_async(&contenders[i].client, on_closed, NULL);
    turn_until_all_are_done(loop, CLIENTS);
    ev_loop_destroy(loop);
    ck_assert(real_nothing_left(NULL));
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------ churn */

struct churner {
    pthread_t thread;
    redlock_client *client;
    uint64_t random;
    unsigned number;
};

static atomic_bool churning;
static atomic_uint churned;

/* Tries to acquire a lock with random options, and uses it if that succeeds. */
static void churn_once(struct churner *churner)
{
    char name[32];
    redlock_lock *lock;
    redlock_state state;
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = random_below(&churner->random, 2) ? random_below(&churner->random, 300) : 0;
    options.ttl_ms = 200 + random_below(&churner->random, 2000);
    options.fair = random_below(&churner->random, 4) == 0;
    options.no_renewal = random_below(&churner->random, 4) == 0;
    options.fence = random_below(&churner->random, 2);
    resource_name(random_below(&churner->random, CHURN_RESOURCES), name);
    if (random_below(&churner->random, 8) == 0)
        redlock_query(churner->client, name, 0, &state, NULL);
    if (redlock_acquire(churner->client, name, &options, &lock, NULL) != REDLOCK_OK)
        return;
    atomic_fetch_add(&churned, 1);
    if (random_below(&churner->random, 8) == 0)
        redlock_wait_lost(lock, random_below(&churner->random, 400), NULL); /* some locks expire meanwhile */
    if (random_below(&churner->random, 4) == 0)
        redlock_extend(lock, 0, NULL);
    redlock_release(&lock, NULL);
}

static void *churn(void *arg)
{
    while (atomic_load(&churning))
        churn_once(arg);
    return NULL;
}

static size_t resident(void)
{
    unsigned long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu %lu", &total, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
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

static void disturb_for(uint64_t seconds, uint64_t *random)
{
    uint64_t deadline = test_now_ns() + seconds * UINT64_C(1000000000);
    while (test_now_ns() < deadline)
        disturb(random);
}

struct footprint {
    size_t resident;
    size_t live;
    size_t descriptors;
};

/* Measures while no operation is in progress, so only the client's reserves count. */
static struct footprint footprint(struct churner *churners, struct test_allocator *allocator, redlock_client *client)
{
    atomic_store(&churning, false);
    for (unsigned i = 0; i < CHURNERS; i++)
        pthread_join(churners[i].thread, NULL);
    deployment_repair(real_nodes);
    redlock_ready(client, 10000, NULL);
    ck_assert(real_nothing_left(NULL));
    return (struct footprint){resident(), test_allocator_live_bytes(allocator), file_open_descriptors()};
}

static void start_churning(struct churner *churners, redlock_client *client)
{
    atomic_store(&churning, true);
    for (unsigned i = 0; i < CHURNERS; i++) {
        churners[i] = (struct churner){.client = client, .random = i + churned, .number = i};
        ck_assert_int_eq(pthread_create(&churners[i].thread, NULL, churn, &churners[i]), 0);
    }
}

static unsigned churn_seconds(void)
{
    const char *asked = getenv("REDLOCK_CHURN_SECONDS");
    return asked ? (unsigned)strtoul(asked, NULL, 10) : CHURN_SECONDS;
}

static redlock_options churn_options(struct test_allocator *allocator)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    options.ttl_ms = 2000;
    options.guard = 0; /* with the guard, restarted nodes would spend most of the time in quarantine */
    options.backoff_max_ms = 100;
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    return options;
}

static bool is_flat(const struct footprint *before, const struct footprint *after)
{
    /* Each node has two connections, which may be opening or closing. */
    return after->descriptors <= before->descriptors + 2 * deployment_size(real_nodes) &&
           after->live <= before->live + 64 * 1024 &&
           (RESIDENT_SAYS_NOTHING || after->resident <= before->resident + 4 * 1024 * 1024);
}

/* What the client keeps for reuse grows with the most that was ever in flight, which no single stretch is sure to
 * reach. A leak grows in every stretch. */
START_TEST(churn_leaves_memory_and_descriptors_flat)
{
    static struct churner churners[CHURNERS];
    struct test_allocator *allocator = test_allocator_new();
    const redlock_options options = churn_options(allocator);
    uint64_t random = 1;
    unsigned seconds = churn_seconds();
    bool flat = false;
    redlock_client *client;
    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &client, &result), REDLOCK_OK, &result);
    start_churning(churners, client);
    disturb_for(seconds / 4 + 1, &random);
    struct footprint before = footprint(churners, allocator, client);
    for (int stretch = 0; stretch < STRETCHES && !flat; stretch++) {
        start_churning(churners, client);
        disturb_for(seconds - seconds / 4, &random);
        struct footprint after = footprint(churners, allocator, client);
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
END_TEST

int main(void)
{
    Suite *suite = suite_create("load");
    TCase *tcase = real_own_case(suite, "many");
    tcase_set_timeout(tcase, 2. * PATIENCE_MS / 1000);
    tcase_add_test(tcase, a_thousand_threads_share_a_client);
    tcase_add_test(tcase, two_hundred_clients_share_five_nodes);
    tcase_add_test(tcase, five_hundred_waiters_start_at_once);
    TCase *churning_case = real_own_case(suite, "churn");
    tcase_set_timeout(churning_case, 60. + 2. * STRETCHES * churn_seconds());
    tcase_add_test(churning_case, churn_leaves_memory_and_descriptors_flat);
    return real_run(suite, true);
}
