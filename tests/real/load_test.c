/* Load: one client under mixed operations and node faults, whose memory must not grow. It runs for a few seconds;
 * $REDLOCK_CHURN_SECONDS makes it run longer. contention_test.c has 400 threads. */
#include "real/held.h"

#include "support/allocator.h"
#include "support/file.h"

#include "rules/random.h"

#include <pthread.h>
#include <unistd.h>

enum { CHURNERS = 8, CHURN_SECONDS = 4, STRETCHES = 4, CHURN_RESOURCES = 6 };

REAL_LONG_CASE(churn, real_bare_case, NULL);

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
    options.no_renewal = random_below(random, 4) == 0;
    options.fence = random_below(random, 2);
    snprintf(name, sizeof name, CLUSTER_PREFIX "load%u", random_below(random, CHURN_RESOURCES));
    if (random_below(random, 8) == 0)
        redlock_query(client, name, 0, NULL, &state, NULL);
    if (redlock_acquire(client, name, &options, &lock, NULL) != REDLOCK_OK)
        return;
    atomic_fetch_add(&churned, 1);
    if (random_below(random, 8) == 0)
        redlock_wait_lost(lock, random_below(random, 400), NULL); /* some locks expire meanwhile */
    if (random_below(random, 4) == 0)
        redlock_extend(lock, 0, NULL, NULL);
    redlock_release(&lock, NULL, NULL);
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
    unsigned node = random_below(random, (unsigned)cluster_size(cluster));
    switch (random_below(random, 4)) {
    case 0:
        cluster_kill(cluster, node);
        usleep(1000 * random_below(random, 200));
        cluster_start(cluster, node);
        break;
    case 1:
        cluster_stop(cluster, node);
        usleep(1000 * random_below(random, 300));
        cluster_resume(cluster, node);
        break;
    case 2:
        cluster_command(cluster, node, NULL, 0, "CLIENT", "KILL", "TYPE", "normal", NULL);
        break;
    default:
        cluster_command(cluster, node, NULL, 0, "SCRIPT", "FLUSH", NULL);
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
    cluster_repair(cluster);
    redlock_ready(client, 10000, NULL);
    ck_assert(real_nothing_left(NULL));
    return (struct footprint){file_resident_bytes(), test_allocator_live_bytes(allocator), file_open_descriptors()};
}

static bool is_flat(const struct footprint *before, const struct footprint *after)
{
    /* Each node has two connections, which may be opening or closing. */
    return after->descriptors <= before->descriptors + 2 * cluster_size(cluster) &&
           after->live <= before->live + 64 * 1024 && after->resident <= before->resident + 4 * 1024 * 1024;
}

/* What the client keeps for reuse grows with the most that was ever in flight, which no single stretch is sure to
 * reach. A leak grows in every stretch. */
TEST(churn, churn_leaves_memory_and_descriptors_flat)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    uint64_t random = 1;
    unsigned seconds = real_setting("REDLOCK_CHURN_SECONDS", CHURN_SECONDS);
    bool flat = false;
    real_cluster(HELD_NODES, NULL);
    allocator = test_allocator_new();
    options.ttl_ms = 2000;
    options.guard = 0; /* with the guard, restarted nodes would spend most of the time in quarantine */
    options.backoff_max_ms = 100;
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    real_status(redlock_connect(cluster_nodes_string(cluster), &options, &client, &result), REDLOCK_OK, &result);
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
    redlock_close(&client, NULL, NULL);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}

REAL_PROGRAM("load")
