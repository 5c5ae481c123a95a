/* Contention for one lock on real servers: threads that share a client, or have one each, also while nodes hang. A
 * witness outside Redis detects two holders at a time. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { NODES = 5, CONTENDERS = 8, TURNS = 15 };

static const char key[] = real_key("contended");

/* The protected data. Reading and writing the count are separate steps, so two holders at a time would lose
 * increments. */
static atomic_int inside, count, violations;

static void enter_and_leave(void)
{
    if (atomic_fetch_add(&inside, 1) != 0)
        atomic_fetch_add(&violations, 1);
    int before = atomic_load(&count);
    sched_yield();
    atomic_store(&count, before + 1);
    atomic_fetch_sub(&inside, 1);
}

static const struct contest {
    const char *name;
    bool one_client;
    bool nodes_hang; /* a majority may confirm the release too late */
} contests[] = {
    {"threads with one client", true, false},
    {"threads with a client each", false, false},
    {"threads with a client each, while nodes hang and resume", false, true},
};

struct contender {
    const struct contest *contest;
    pthread_t thread;
    redlock_client *client; /* NULL: the thread opens a separate client */
    int wrong;
    bool unconfirmed;
};

/* Short timeouts for nodes that hang: a round with two of three votes may have to wait for them, also while they are being
 * connected, and those of a node that hung then grow up to the silence limit. */
static redlock_client *connect_client(const struct contest *contest)
{
    redlock_options options = face_options();
    redlock_client *client;
    options.node_timeout_ms = 200;
    if (contest->nodes_hang)
        options.connect_timeout_ms = options.silence_limit_ms = 1000;
    return redlock_connect(deployment_nodes(real_nodes), &options, &client, NULL) == REDLOCK_OK ? client : NULL;
}

/* Returns whether all went well. */
static bool take_turn(const struct contest *contest, redlock_client *client)
{
    redlock_lock *lock;
    if (redlock_acquire(client, key, REDLOCK_WAIT_MS(REDLOCK_FOREVER), &lock, NULL) != REDLOCK_OK)
        return false;
    bool valid = redlock_validity_ms(lock) > 0;
    enter_and_leave();
    int status = redlock_release(&lock, NULL);
    return valid && (status == REDLOCK_OK || (status == REDLOCK_NO_QUORUM && contest->nodes_hang));
}

static void *contend(void *arg)
{
    struct contender *contender = arg;
    redlock_client *own = contender->client == NULL ? connect_client(contender->contest) : NULL;
    for (int i = 0; i < TURNS; i++)
        contender->wrong += !take_turn(contender->contest, own != NULL ? own : contender->client);
    if (own && redlock_close(&own, NULL) != REDLOCK_OK)
        contender->unconfirmed = true;
    return NULL;
}

static bool has_progressed(void *before)
{
    int now = atomic_load(&count);
    return now > *(int *)before || now == CONTENDERS * TURNS;
}

/* Waits until the lock has changed hands, while two nodes are stopped or after they have resumed. */
static void await_progress(void)
{
    int before = atomic_load(&count);
    ck_assert(wait_until(has_progressed, &before, REAL_SOON_MS));
}

static void stop_and_resume_nodes(void)
{
    for (size_t node = 0; atomic_load(&count) < CONTENDERS * TURNS; node = (node + 1) % NODES) {
        deployment_stop(real_nodes, node);
        deployment_stop(real_nodes, (node + 1) % NODES);
        await_progress();
        deployment_repair(real_nodes);
        await_progress();
    }
}

REAL_CASE(contention, real_shared_case, NULL);

TEST_ROWS(contention, holders_exclude_each_other, ROWS(contests))
{
    const struct contest *contest = &contests[_i];
    if (contest->nodes_hang && !deployment_has_control())
        return;
    redlock_client *shared = contest->one_client ? connect_client(contest) : NULL;
    struct contender contenders[CONTENDERS];
    bool unconfirmed = false;
    inside = count = violations = 0;
    for (int i = 0; i < CONTENDERS; i++) {
        contenders[i] = (struct contender){.contest = contest, .client = shared};
        ck_assert_int_eq(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
    }
    if (contest->nodes_hang)
        stop_and_resume_nodes();
    for (int i = 0; i < CONTENDERS; i++) {
        ck_assert_int_eq(pthread_join(contenders[i].thread, NULL), 0);
        ck_assert_msg(contenders[i].wrong == 0, "%s: %d wrong turns", contest->name, contenders[i].wrong);
        unconfirmed = unconfirmed || contenders[i].unconfirmed;
    }
    ck_assert_msg(violations == 0 && inside == 0 && count == CONTENDERS * TURNS, "%s: %d violations, %d of %d turns",
                  contest->name, violations, count, CONTENDERS * TURNS);
    if (contest->one_client)
        ck_assert_int_eq(redlock_close(&shared, NULL), REDLOCK_OK);
    ck_assert(!unconfirmed || contest->nodes_hang);
    /* A close does not wait for a node that hangs longer than its timeout, and says so: the key stays there for its ttl. */
    for (size_t node = 0; unconfirmed && node < NODES; node++)
        real_delete(node, key);
}

REAL_PROGRAM("real_contention")
