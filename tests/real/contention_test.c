/* Contention on real servers: threads that share a client, or have one each, for one lock or for overlapping ones, of
 * each kind, also while nodes hang. A witness outside Redis detects more holders at a time than the kind of lock allows. */
#include "real/held.h"

#include <pthread.h>
#include <unistd.h>

enum { NODES = 5, CONTENDERS = 8, CROWD = 400, TURNS = 15, CROWD_TURNS = 2, PERMITS = 3, HOLD_US = 1000 };

static const char *const keys[] = {real_key("a"), real_key("b"), real_key("c"), real_key("d"), real_key("e")};
enum { RESOURCES = sizeof keys / sizeof keys[0], WRITER = 1000 };

static const struct contest {
    const char *name;
    redlock_acquire_options options; /* of each acquire */
    bool one_client;
    bool nodes_hang; /* a majority may confirm the release too late */
    bool overlap;    /* each acquires one of the resources, or two neighbouring ones; otherwise all acquire the first */
    bool readers;    /* three of four acquires are shared */
    bool several;    /* each acquire takes any number of the permits */
    bool crowd;      /* hundreds of threads, each of which acquires one of the resources twice */
} contests[] = {
    {"hundreds of threads with one client", .one_client = true, .crowd = true},
    {"threads with a client each, while nodes hang and resume", .nodes_hang = true},
    {"several permits at once, while nodes hang and resume", {.permits = PERMITS}, .several = true, .nodes_hang = true},
    {"readers and writers of pairs", .overlap = true, .readers = true, .one_client = true},
};

/* --- The witness --- */

static atomic_int holders[RESOURCES]; /* of each resource: 1 for a reader or a permit, WRITER for any other lock */
static atomic_uint turns, violations;

static void enter_and_leave(const unsigned *taken, size_t count, const redlock_acquire_options *options)
{
    const int mine = options->permits_wanted ? (int)options->permits_wanted : options->shared ? 1 : WRITER;
    const int limit = options->permits ? (int)options->permits - mine + 1 : options->shared ? WRITER : 1;
    for (size_t i = 0; i < count; i++)
        if (atomic_fetch_add(&holders[taken[i]], mine) >= limit)
            atomic_fetch_add(&violations, 1);
    usleep(HOLD_US); /* the work under the lock, in which another holder would enter */
    atomic_fetch_add(&turns, 1);
    for (size_t i = 0; i < count; i++)
        atomic_fetch_sub(&holders[taken[i]], mine);
}

/* --- The contenders --- */

static unsigned all_turns;

static struct contender {
    const struct contest *contest;
    pthread_t thread;
    redlock_client *client; /* NULL: the thread opens a separate client */
    unsigned seed;
    int wrong;
    bool unconfirmed;
} contenders[CROWD];

/* Short timeouts for nodes that hang: a round with two of three votes may have to wait for them, also while they are being
 * connected, and those of a node that hung then grow up to the silence limit. */
static redlock_client *connect_client(const struct contest *contest)
{
    redlock_options options = face_options();
    redlock_client *client;
    if (contest->nodes_hang) {
        options.node_timeout_ms = 200;
        options.connect_timeout_ms = options.silence_limit_ms = 1000;
    }
    return redlock_connect(cluster_nodes_string(cluster), &options, &client, NULL) == REDLOCK_OK ? client : NULL;
}

/* Returns whether all went well. */
static bool take_turn(struct contender *contender, redlock_client *client)
{
    const struct contest *contest = contender->contest;
    const unsigned first = contest->overlap || contest->crowd ? (unsigned)rand_r(&contender->seed) % RESOURCES : 0;
    const unsigned taken[] = {first, (first + 1) % RESOURCES};
    const redlock_name also = {keys[taken[1]], 0};
    redlock_acquire_options options = contest->options;
    redlock_lock *lock;
    options.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options);
    options.wait_ms = REDLOCK_FOREVER;
    options.shared = contest->readers && rand_r(&contender->seed) % 4 != 0;
    if (options.permits)
        options.permits_wanted = contest->several ? 1 + (unsigned)rand_r(&contender->seed) % PERMITS : 1;
    options.also = &also;
    options.also_count = contest->overlap && rand_r(&contender->seed) % 4 != 0;
    if (redlock_acquire(client, keys[first], &options, &lock, NULL) != REDLOCK_OK)
        return false;
    bool valid = redlock_validity_ms(lock) > 0;
    enter_and_leave(taken, 1 + options.also_count, &options);
    int status = redlock_release(&lock, NULL, NULL);
    return valid && (status == REDLOCK_OK || (status == REDLOCK_NO_QUORUM && contest->nodes_hang));
}

static void *contend(void *arg)
{
    struct contender *contender = arg;
    redlock_client *own = contender->client ? NULL : connect_client(contender->contest);
    for (int i = 0; i < (contender->contest->crowd ? CROWD_TURNS : TURNS); i++)
        contender->wrong += !take_turn(contender, own ? own : contender->client);
    if (own && redlock_close(&own, NULL, NULL) != REDLOCK_OK)
        contender->unconfirmed = true;
    return NULL;
}

/* --- Nodes that hang --- */

/* Waits until the lock has changed hands, while two nodes are stopped or after they have resumed. */
static void await_progress(void)
{
    unsigned before = atomic_load(&turns);
    real_until(NULL, atomic_load(&turns) > before || atomic_load(&turns) == all_turns);
}

static void stop_and_resume_nodes(void)
{
    for (size_t node = 0; atomic_load(&turns) < all_turns; node = (node + 1) % NODES) {
        cluster_stop(cluster, node);
        cluster_stop(cluster, (node + 1) % NODES);
        await_progress();
        cluster_repair(cluster);
        await_progress();
    }
}

REAL_CASE(contention, real_shared_case, NULL);

TEST_ROWS(contention, holders_exclude_each_other_and_none_starves, ROWS(contests))
{
    const struct contest *contest = &contests[_i];
    if (contest->nodes_hang && !real_can_fail_nodes())
        return;
    redlock_client *shared = contest->one_client ? connect_client(contest) : NULL;
    const unsigned count = contest->crowd ? CROWD : CONTENDERS;
    bool unconfirmed = false;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    all_turns = contest->crowd ? CROWD * CROWD_TURNS : CONTENDERS * TURNS;
    memset(holders, 0, sizeof holders);
    turns = violations = 0;
    for (unsigned i = 0; i < count; i++) {
        contenders[i] = (struct contender){.contest = contest, .client = shared, .seed = i};
        ck_assert_int_eq(pthread_create(&contenders[i].thread, &small, contend, &contenders[i]), 0);
    }
    if (contest->nodes_hang)
        stop_and_resume_nodes();
    pthread_attr_destroy(&small);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(pthread_join(contenders[i].thread, NULL), 0);
        ck_assert_msg(contenders[i].wrong == 0, "%s: %d wrong turns", contest->name, contenders[i].wrong);
        unconfirmed = unconfirmed || contenders[i].unconfirmed;
    }
    ck_assert_msg(violations == 0 && turns == all_turns, "%s: %u violations, %u of %u turns", contest->name, violations,
                  turns, all_turns);
    if (contest->one_client)
        ck_assert_int_eq(redlock_close(&shared, NULL, NULL), REDLOCK_OK);
    ck_assert(!unconfirmed || contest->nodes_hang);
    /* A close does not wait for a node that hangs longer than its timeout, and says so: its keys stay for their ttl. */
    if (unconfirmed)
        cluster_remove_keys(cluster);
}

REAL_PROGRAM("real_contention")
