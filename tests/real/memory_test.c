/* Memory stays bounded while a real server hangs: the requests and undos that the client keeps for it are limited. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/allocator.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_SAYS_NOTHING 1 /* the sanitizer keeps freed memory in quarantine */
#else
#define RESIDENT_SAYS_NOTHING 0
#endif

enum {
    WARM_UP = 2000,
    LOCKS = 20000,
    FEW_LOCKS = 3000, /* for the blocking API, which makes one lock at a time */
    RUNNERS = 16,
    BOUND = 256, /* requests and undos kept for one node */
    NODES = 5
};

/* The most that the client may keep for all nodes: a round and a lease for each request. */
static const size_t most_bytes = (size_t)NODES * BOUND * 3072;
static const size_t most_resident = (size_t)4 * 1024 * 1024;

static redlock_result result;

static size_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, pages;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu %lu", &total, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static redlock_options bounded_options(struct test_allocator *allocator)
{
    redlock_options options = face_options();

    options.pending_max = BOUND;
    options.undos_max = BOUND;
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    return options;
}

static void assert_flat(struct test_allocator *allocator, size_t resident_before)
{
    ck_assert_uint_le(test_allocator_peak_bytes(allocator), most_bytes);
    if (!RESIDENT_SAYS_NOTHING)
        ck_assert_uint_le(resident(), resident_before + most_resident);
}

/* --- The blocking API --- */

static void take_locks(struct face *face, int count)
{
    redlock_lock *lock;

    for (int i = 0; i < count; i++) {
        real_status(face_acquire(face, real_key("memory"), REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK,
                    &result);
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    }
}

START_TEST(one_after_the_other)
{
    struct test_allocator *allocator = test_allocator_new();
    redlock_options options = bounded_options(allocator);
    struct face *face = face_open_ready(BLOCKING_FACE, deployment_nodes(real_nodes), &options);

    deployment_stop(real_nodes, 0);
    take_locks(face, WARM_UP);
    size_t before = resident();
    take_locks(face, FEW_LOCKS);
    assert_flat(allocator, before);
    deployment_resume(real_nodes, 0);
    ck_assert(face_wait_all_ready(face));
    face_close(&face, NULL);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}
END_TEST

/* --- The asynchronous API --- */

struct crowd {
    struct ev_loop *loop;
    redlock_client *client;
    int started;
    int most;
    int running;
};

struct runner {
    struct crowd *crowd;
    char key[32];
    redlock_lock *lock;
};

static void run(struct runner *runner);

static void on_released(redlock_client *client, const redlock_result *given, void *arg)
{
    struct runner *runner = arg;
    struct crowd *crowd = runner->crowd;

    (void)client;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    if (crowd->started < crowd->most)
        run(runner);
    else if (--crowd->running == 0)
        ev_break(crowd->loop, EVBREAK_ALL);
}

static void on_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *given, void *arg)
{
    struct runner *runner = arg;

    (void)client;
    ck_assert_int_eq(given->status, REDLOCK_OK);
    runner->lock = lock;
    ck_assert_int_eq(redlock_release_async(&runner->lock, on_released, runner), REDLOCK_OK);
}

static void run(struct runner *runner)
{
    runner->crowd->started++;
    ck_assert_int_eq(
        redlock_acquire_async(runner->crowd->client, runner->key, REDLOCK_WAIT_MS(REAL_SOON_MS), on_acquired, runner),
        REDLOCK_OK);
}

static void run_all(struct crowd *crowd, int locks)
{
    struct runner runners[RUNNERS];

    crowd->most = crowd->started + locks;
    crowd->running = RUNNERS;
    for (int i = 0; i < RUNNERS; i++) {
        runners[i].crowd = crowd;
        snprintf(runners[i].key, sizeof(runners[i].key), real_key("memory:%d"), i);
        run(&runners[i]);
    }
    ev_run(crowd->loop, 0);
}

static void on_told(redlock_client *client, const redlock_result *given, void *arg)
{
    struct crowd *crowd = arg;

    (void)client;
    result = *given;
    ev_break(crowd->loop, EVBREAK_ALL);
}

/* Every node is usable, without pending requests or undos. */
static bool is_settled(redlock_client *client)
{
    redlock_node_status status;

    for (unsigned i = 0; i < NODES; i++) {
        ck_assert_int_eq(redlock_node_status_get(client, i, &status), REDLOCK_OK);
        if (!status.usable || status.undos_pending > 0 || status.requests_pending > 0)
            return false;
    }
    return true;
}

static void settle(struct crowd *crowd)
{
    while (!is_settled(crowd->client))
        ev_run(crowd->loop, EVRUN_ONCE);
}

static void open_crowd(struct crowd *crowd, struct test_allocator *allocator, uint32_t silence_limit_ms)
{
    redlock_options options = bounded_options(allocator);

    options.silence_limit_ms = silence_limit_ms;
    options.connect_timeout_ms = silence_limit_ms;

    memset(crowd, 0, sizeof(*crowd));
    crowd->loop = ev_loop_new(EVFLAG_NOENV);
    real_status(redlock_attach(crowd->loop, deployment_nodes(real_nodes), &options, &crowd->client, &result),
                REDLOCK_OK, &result);
    settle(crowd);
}

static void close_crowd(struct crowd *crowd)
{
    ck_assert_int_eq(redlock_close_async(&crowd->client, on_told, crowd), REDLOCK_OK);
    ev_run(crowd->loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
    ev_loop_destroy(crowd->loop);
}

/* With a short silence limit the client soon closes the connection, and keeps only the undos for the node. */
static const uint32_t silence_limits_ms[] = {30000, 200};

START_TEST(many_at_the_same_time)
{
    struct test_allocator *allocator = test_allocator_new();
    struct crowd crowd;

    open_crowd(&crowd, allocator, silence_limits_ms[_i]);
    deployment_stop(real_nodes, 0);
    run_all(&crowd, WARM_UP);
    size_t before = resident();
    run_all(&crowd, LOCKS);
    ck_assert_int_eq(crowd.started, WARM_UP + LOCKS);
    assert_flat(allocator, before);
    deployment_resume(real_nodes, 0);
    settle(&crowd); /* the client reconnects to the node and sends the undos, however long that takes */
    close_crowd(&crowd);
    ck_assert_uint_eq(test_allocator_live(allocator), 0);
}
END_TEST

static Suite *memory_suite(void)
{
    Suite *suite = suite_create("real_memory");
    TCase *tcase = real_shared_case(suite, "memory");

    tcase_add_test(tcase, one_after_the_other);
    tcase_add_loop_test(tcase, many_at_the_same_time, 0, 2);
    return suite;
}

int main(void)
{
    return real_run(memory_suite(), true);
}
