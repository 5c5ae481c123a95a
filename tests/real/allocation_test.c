/*
 * Fails each allocation once, while a lock is held until it has been renewed, and while a waiter is in the queue on the
 * nodes. memory_failure_test.c does not cover these, because it uses fake nodes. The library must not crash or leak,
 * every call must return, and no key may be left.
 */
#include "real/held.h"

#include "support/allocator.h"

#include <poll.h>
#include <pthread.h>

#define WAITED real_key("waited")

enum { TTL_MS = 150, LOOK_MS = 10, LOOKS_MAX = 200, LIVES_MAX = 600 };

static struct test_allocator *allocator;
static struct face *other; /* the holder for which the client under test waits */

static void assert_fine(int status, size_t k)
{
    ck_assert_msg(status == REDLOCK_OK || (status == REDLOCK_NO_MEMORY && test_allocator_failures(allocator) > 0),
                  "%s, when allocation %zu failed", redlock_status_name(status), k);
}

static void hold_until_renewed(redlock_client *client, redlock_lock *lock)
{
    redlock_statistics statistics;
    for (unsigned i = 0; i < LOOKS_MAX && redlock_wait_lost(lock, LOOK_MS, NULL) == REDLOCK_TIMED_OUT; i++) {
        ck_assert_int_eq(redlock_statistics_get(client, &statistics), REDLOCK_OK);
        if (statistics.renewed > 0)
            return;
    }
}

/* The renewal may fail for lack of memory. Then the client retries it, or loses the lock and reports the loss. */
static void hold_and_renew(redlock_client *client, size_t k)
{
    redlock_lock *lock;
    const redlock_acquire_options *how = REAL_WITH(.wait_ms = REAL_SOON_MS, .ttl_ms = TTL_MS);
    int status = redlock_acquire(client, real_key("renewed"), how, &lock, NULL);
    assert_fine(status, k);
    if (status != REDLOCK_OK)
        return;
    hold_until_renewed(client, lock);
    status = redlock_release(&lock, NULL, NULL);
    if (status != REDLOCK_LOST)
        assert_fine(status, k);
    ck_assert_ptr_null(lock);
}

static long long queued_before; /* the waiters of earlier runs that could not leave the queue */

static long long count_queued(void)
{
    return cluster_integer(cluster, 0, "ZCARD", WAITED ":redlock:queue", NULL);
}

/* When the waiter is queued, which a failed allocation may prevent. */
static void *release_soon(void *lock)
{
    redlock_lock *held = lock;
    for (int i = 0; i < LOOKS_MAX && count_queued() <= queued_before; i++)
        poll(NULL, 0, 1);
    redlock_release(&held, NULL, NULL);
    return NULL;
}

static void wait_in_the_queue(redlock_client *client, size_t k)
{
    redlock_lock *theirs = held_acquire(other, WAITED, REDLOCK_WAIT_MS(REAL_SOON_MS)), *ours;
    pthread_t releasing;
    const redlock_acquire_options *how = REAL_WITH(.wait_ms = REAL_SOON_MS);
    queued_before = count_queued();
    ck_assert_int_eq(pthread_create(&releasing, NULL, release_soon, theirs), 0);
    int status = redlock_acquire(client, WAITED, how, &ours, NULL);
    pthread_join(releasing, NULL);
    assert_fine(status, k);
    if (status == REDLOCK_OK)
        assert_fine(redlock_release(&ours, NULL, NULL), k);
}

/* true: no allocation failed in this run, so k has passed the last one. */
static bool live(size_t k)
{
    redlock_client *client = NULL;
    redlock_options options = face_options();
    allocator = test_allocator_new();
    options.allocator = (redlock_allocator){test_allocate, test_reallocate, test_release, allocator};
    options.renewal_percent = 33;
    test_allocator_fail_at(allocator, k);
    int status = redlock_connect(cluster_nodes_string(cluster), &options, &client, NULL);
    assert_fine(status, k);
    if (status == REDLOCK_OK) {
        hold_and_renew(client, k);
        wait_in_the_queue(client, k);
        test_allocator_fail_at(allocator, 0);
        real_status(redlock_close(&client, NULL, &result), REDLOCK_OK, &result);
    }
    bool flawless = test_allocator_failures(allocator) == 0;
    if (test_allocator_live(allocator) > 0)
        test_allocator_list(allocator, stderr);
    ck_assert_msg(test_allocator_live(allocator) == 0, "allocation %zu failed, and memory leaked", k);
    test_allocator_free(allocator);
    return flawless;
}

REAL_CASE(every_allocation, real_own_case, NULL);

TEST(every_allocation, every_allocation_of_a_renewed_lock_and_of_a_waiter)
{
    size_t k = 1;
    other = real_open(BLOCKING_FACE);
    while (k < LIVES_MAX && !live(k))
        k++;
    ck_assert_uint_gt(k, 20); /* so allocations did fail */
    ck_assert_uint_lt(k, LIVES_MAX);
}

REAL_PROGRAM("allocations on real servers")
