/* Shared locks on real servers: many readers or one writer; each reader with its own end of validity; later readers
 * do not overtake a waiting writer forever, and a waiting writer does not hold off readers forever. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY real_key("book")

enum { TTL_MS = 20000, READERS = 64 };
enum { SHORT_MS = 3000 }; /* a busy machine may delay the test, but not by most of this time */

static redlock_result result;
static struct cluster *cluster;

static struct face *open_face(int i)
{
    cluster = real_cluster(HELD_NODES, NULL);
    return held_open_patient(i, cluster, TTL_MS, 0);
}

static redlock_acquire_options mode(bool shared)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.shared = shared;
    return options;
}

static redlock_lock *enter(struct face *face, bool shared)
{
    redlock_acquire_options options = mode(shared);
    char owner;

    options.owner = shared ? NULL : &owner; /* a unique owner, so that a writer never re-enters a lock */
    return held_acquire(face, KEY, &options);
}

static void refuse(struct face *face, bool shared)
{
    redlock_acquire_options options = mode(shared);
    redlock_lock *lock;

    options.owner = &options; /* a different owner */
    real_status(face_acquire(face, KEY, &options, &lock, &result), REDLOCK_HELD, &result);
    ck_assert_ptr_null(lock);
}

static long long readers_on(size_t node)
{
    return cluster_integer(cluster, node, "ZCARD", KEY, NULL);
}

static bool has_readers(void *count)
{
    for (size_t i = 0; i < HELD_NODES; i++)
        if (readers_on(i) != *(long long *)count)
            return false;
    return true;
}

static void await_readers(struct face *face, long long count)
{
    ck_assert_msg(face_wait(face, has_readers, &count, REAL_SOON_MS), "%lld readers on node 0, not %lld", readers_on(0),
                  count);
}

/* --- Combinations of readers and writers --- */

START_TEST(readers_together_a_writer_alone)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_lock *first = enter(face, true), *second = enter(other, true);

    await_readers(face, 2);
    refuse(other, false);
    held_release(face, &first);
    await_readers(face, 1);
    refuse(face, false);
    held_release(other, &second);
    ck_assert(real_nothing_left(face));
    first = enter(face, false);
    held_everywhere(face, cluster, KEY, first);
    refuse(other, true);
    refuse(other, false);
    held_release(face, &first);
    ck_assert(real_nothing_left(face));
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(sixty_four_enter_in_one_round_trip_each)
{
    struct face *faces[4];
    redlock_lock *locks[READERS];
    redlock_acquire_options options = mode(true);
    char owner[READERS];

    cluster = real_cluster(HELD_NODES, NULL);
    for (int i = 0; i < 4; i++)
        faces[i] = held_open_patient(_i, cluster, TTL_MS, 0);
    for (int i = 0; i < READERS; i++) {
        options.owner = &owner[i];
        real_status(face_acquire(faces[i % 4], KEY, &options, &locks[i], &result), REDLOCK_OK, &result);
        ck_assert_uint_eq(result.attempts, 1);
    }
    await_readers(faces[0], READERS);
    for (int i = 0; i < READERS; i++)
        held_release(faces[i % 4], &locks[i]);
    ck_assert(real_nothing_left(faces[0]));
    for (int i = 0; i < 4; i++)
        held_close(faces[i]);
}
END_TEST

/* A foreign client's SET NX finds the readers' key. */
START_TEST(foreign_clients_are_excluded_and_exclude)
{
    struct face *face = open_face(_i);
    redlock_lock *lock = enter(face, true);
    char reply[64];

    await_readers(face, 1);
    for (size_t i = 0; i < HELD_NODES; i++) {
        ck_assert(cluster_command(cluster, i, reply, sizeof(reply), "SET", KEY, "theirs", "NX", "PX", "60000", NULL));
        ck_assert_ptr_null(strstr(reply, "OK"));
    }
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
    for (size_t i = 0; i < HELD_NODES; i++)
        ck_assert(cluster_command(cluster, i, NULL, 0, "SET", KEY, "theirs", "NX", "PX", "60000", NULL));
    refuse(face, true);
    for (size_t i = 0; i < HELD_NODES; i++)
        cluster_integer(cluster, i, "DEL", KEY, NULL);
    held_close(face);
}
END_TEST

START_TEST(each_reader_ends_by_itself)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = mode(true);
    char owners[2];
    redlock_lock *shorter, *longer;

    options.ttl_ms = SHORT_MS;
    options.owner = &owners[0];
    shorter = held_acquire(face, KEY, &options);
    options.ttl_ms = 4 * SHORT_MS;
    options.owner = &owners[1];
    longer = held_acquire(face, KEY, &options);
    await_readers(face, 2);
    ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", KEY, NULL), SHORT_MS);
    held_release(face, &longer);
    await_readers(face, 1);
    ck_assert_int_le(cluster_integer(cluster, 0, "PTTL", KEY, NULL), SHORT_MS); /* as long as the last reader */
    ck_assert(real_nothing_left(face));
    real_status(face_release(face, &shorter, &result), REDLOCK_LOST, &result);
    redlock_lock *writer = enter(face, false);
    held_release(face, &writer);
    held_close(face);
}
END_TEST

/* --- Like any other lock --- */

START_TEST(renewed_healed_and_extended)
{
    cluster = real_cluster(HELD_NODES, NULL);
    struct face *face = held_open_patient(_i, cluster, SHORT_MS, 33),
                *other = held_open_patient(_i, cluster, SHORT_MS, 33);
    redlock_lock *first = enter(face, true), *second = enter(other, true);

    await_readers(face, 2);
    cluster_flush(cluster, 0);
    face_idle(face, 3 * SHORT_MS / 2);
    ck_assert_int_gt(redlock_validity_ms(first), 0);
    if (face_of(_i) == BLOCKING_FACE) { /* an asynchronous `other` has not run its loop meanwhile */
        await_readers(face, 2);
        ck_assert_int_gt(redlock_validity_ms(second), 0);
    }
    real_status(face_extend(face, first, 10000, &result), REDLOCK_OK, &result);
    ck_assert_int_gt(redlock_validity_ms(first), 8000);
    ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", KEY, NULL), 8000);
    face_release(other, &second, &result);
    held_release(face, &first);
    ck_assert(real_nothing_left(face));
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(several_are_shared_at_once)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    const redlock_name also[] = {{real_key("index"), 0}};
    redlock_acquire_options options = mode(true);
    redlock_lock *lock, *reader = enter(other, true);

    options.also = also;
    options.also_count = 1;
    lock = held_acquire(face, KEY, &options);
    await_readers(face, 2);
    real_status(face_acquire(other, also[0].bytes, NULL, &(redlock_lock *){NULL}, &result), REDLOCK_HELD, &result);
    held_release(face, &lock);
    held_release(other, &reader);
    ck_assert(real_nothing_left(face));
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(no_way_leads_from_reading_to_writing)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = mode(true);
    redlock_lock *lock, *again;
    char owner;

    options.owner = &owner;
    lock = held_acquire(face, KEY, &options);
    again = held_acquire(face, KEY, &options);
    ck_assert_str_eq(redlock_lock_token(lock), redlock_lock_token(again));
    held_release(face, &again);
    options.shared = 0;
    real_status(face_acquire(face, KEY, &options, &again, &result), REDLOCK_INVALID, &result);
    ck_assert_ptr_nonnull(strstr(result.text, "shared"));
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    held_release(face, &lock);
    lock = held_acquire(face, KEY, &options);
    options.shared = 1; /* a writer may re-enter as a reader */
    again = held_acquire(face, KEY, &options);
    held_release(face, &again);
    held_release(face, &lock);
    options.shared = 2;
    real_status(face_acquire(face, KEY, &options, &again, &result), REDLOCK_INVALID, &result);
    held_close(face);
}
END_TEST

START_TEST(readers_see_the_last_writers_token)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = mode(false);

    redlock_lock *lock = enter(face, true);
    ck_assert_uint_eq(redlock_lock_fence(lock), 0);
    held_release(face, &lock);
    options.fence = 1;
    lock = held_acquire(face, KEY, &options);
    uint64_t token = redlock_lock_fence(lock);
    held_release(face, &lock);
    for (int i = 0; i < 5; i++) {
        options = mode(true);
        options.fence = (uint32_t)(i & 1); /* `fence` makes no difference for readers */
        lock = held_acquire(face, KEY, &options);
        ck_assert_uint_eq(redlock_lock_fence(lock), token);
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        ck_assert_uint_eq(redlock_lock_fence(lock), token);
        held_release(face, &lock);
    }
    held_close(face);
}
END_TEST

START_TEST(a_query_says_that_it_is_shared)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_state state;
    redlock_lock *lock = enter(face, true);

    await_readers(face, 1);
    real_status(face_query(face, KEY, &state, &result), REDLOCK_OK, &result);
    ck_assert(state.locked && state.held_by_me);
    ck_assert_str_eq(state.token, "(shared)");
    ck_assert_int_gt(state.remaining_ms, TTL_MS / 2);
    real_status(face_query(other, KEY, &state, &result), REDLOCK_OK, &result);
    ck_assert(state.locked && !state.held_by_me);
    held_release(face, &lock);
    held_close(other);
    held_close(face);
}
END_TEST

/* --- Waiting --- */

struct waiter {
    pthread_t thread;
    redlock_client *client;
    redlock_acquire_options options;
    redlock_lock *lock;
    atomic_bool has_it;
    uint64_t when_ns;
    int status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = redlock_acquire(waiter->client, KEY, &waiter->options, &waiter->lock, NULL);
    waiter->when_ns = test_now_ns();
    atomic_store(&waiter->has_it, true);
    return NULL;
}

static void start(struct waiter *waiter, struct face *face, bool shared)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->client = face_client(face);
    waiter->options = mode(shared);
    waiter->options.wait_ms = REAL_SOON_MS;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

static void finish(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
    ck_assert_msg(waiter->status == REDLOCK_OK, "%s", redlock_status_name(waiter->status));
}

static bool waits_on_all(void *count)
{
    for (size_t i = 0; i < HELD_NODES; i++)
        if (cluster_integer(cluster, i, "ZCARD", KEY ":redlock:queue", NULL) < *(int *)count)
            return false;
    return true;
}

static bool nobody_waits(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < HELD_NODES; i++)
        if (cluster_integer(cluster, i, "EXISTS", KEY ":redlock:queue", NULL) != 0)
            return false;
    return true;
}

static void await_waiters(struct face *face, int count)
{
    ck_assert(face_wait(face, waits_on_all, &count, REAL_SOON_MS));
}

/* The writer acquires the lock when the earlier readers have left it, and the later reader acquires it after the
 * writer. */
START_TEST(a_waiting_writer_holds_off_new_readers)
{
    struct face *face = open_face(BLOCKING_FACE), *writers = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0),
                *late = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    redlock_lock *reader = enter(face, true), *other = enter(face, true);
    struct waiter writer, newcomer;

    start(&writer, writers, false);
    await_waiters(face, 1);
    refuse(late, true);
    start(&newcomer, late, true);
    await_waiters(face, 2);
    held_release(face, &reader);
    face_idle(face, 50);
    ck_assert(!atomic_load(&writer.has_it) && !atomic_load(&newcomer.has_it));
    held_release(face, &other);
    finish(&writer);
    ck_assert(!atomic_load(&newcomer.has_it));
    ck_assert_int_eq(redlock_release(&writer.lock, NULL), REDLOCK_OK);
    finish(&newcomer);
    ck_assert_int_eq(redlock_release(&newcomer.lock, NULL), REDLOCK_OK);
    ck_assert(real_nothing_left(face));
    held_close(late);
    held_close(writers);
    held_close(face);
}
END_TEST

/* The key is a reader's, and has another type than a writer's. */
START_TEST(a_writer_that_waits_in_vain_signs_out)
{
    struct face *face = open_face(BLOCKING_FACE), *writers = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    redlock_lock *reader = enter(face, true), *none = NULL;
    redlock_acquire_options impatient = REDLOCK_ACQUIRE_OPTIONS_INIT;

    impatient.wait_ms = 300;
    ck_assert_int_eq(face_acquire(writers, KEY, &impatient, &none, &result), REDLOCK_TIMED_OUT);
    /* Without the dequeue, the entry would last for 12 s. */
    ck_assert(face_wait(face, nobody_waits, NULL, REAL_SOON_MS / 2));
    held_release(face, &reader);
    ck_assert(real_nothing_left(face));
    held_close(writers);
    held_close(face);
}
END_TEST

/* Threads of several clients wait behind one writer, and acquire the lock together. */
START_TEST(readers_behind_a_writer_enter_together)
{
    enum { CLIENTS = 3, EACH = 5 };
    struct face *face = open_face(BLOCKING_FACE), *faces[CLIENTS];
    struct waiter readers[CLIENTS * EACH];

    for (int i = 0; i < CLIENTS; i++)
        faces[i] = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    redlock_lock *writer = enter(face, false);
    for (int i = 0; i < CLIENTS * EACH; i++)
        start(&readers[i], faces[i % CLIENTS], true);
    await_waiters(face, CLIENTS);
    face_idle(face, 100);
    held_release(face, &writer);
    for (int i = 0; i < CLIENTS * EACH; i++)
        finish(&readers[i]);
    for (int i = 0; i < CLIENTS * EACH; i++) /* no reader waited until another one left */
        ck_assert_int_gt(redlock_validity_ms(readers[i].lock), 0);
    for (int i = 0; i < CLIENTS * EACH; i++)
        ck_assert_int_eq(redlock_release(&readers[i].lock, NULL), REDLOCK_OK);
    ck_assert(real_nothing_left(face));
    for (int i = 0; i < CLIENTS; i++)
        held_close(faces[i]);
    held_close(face);
}
END_TEST

/* A reader never releases. The writer waits, but holds off new readers only for a limited time. */
START_TEST(a_writer_that_waits_for_ever_does_not_hold_off_readers_for_ever)
{
    struct face *face = open_face(BLOCKING_FACE), *writers = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0),
                *late = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    redlock_lock *reader = enter(face, true);
    struct waiter writer, newcomer;

    start(&writer, writers, false);
    await_waiters(face, 1);
    uint64_t begun = test_now_ns();
    start(&newcomer, late, true);
    finish(&newcomer);
    ck_assert_uint_gt(newcomer.when_ns - begun, UINT64_C(8000000000));
    ck_assert_uint_lt(newcomer.when_ns - begun, UINT64_C(15000000000));
    ck_assert(!atomic_load(&writer.has_it));
    ck_assert_int_eq(redlock_release(&newcomer.lock, NULL), REDLOCK_OK);
    held_release(face, &reader);
    finish(&writer);
    ck_assert_int_eq(redlock_release(&writer.lock, NULL), REDLOCK_OK);
    held_close(late);
    held_close(writers);
    held_close(face);
}
END_TEST

/* Many readers and writers for a while: a writer never holds the lock together with another client. */
enum { TAKERS = 8, TURNS = 30 };

static atomic_int inside; /* 1 for each reader, 1000 for a writer */

static void *come_and_go(void *arg)
{
    struct waiter *taker = arg;
    unsigned seed = (unsigned)(uintptr_t)arg;

    for (int turn = 0; turn < TURNS && taker->status == 0; turn++) {
        bool writes = rand_r(&seed) % 4 == 0;
        taker->options.shared = !writes;
        taker->status = redlock_acquire(taker->client, KEY, &taker->options, &taker->lock, NULL);
        if (taker->status)
            break;
        int before = atomic_fetch_add(&inside, writes ? 1000 : 1);
        if (writes ? before != 0 : before >= 1000)
            taker->status = 1;
        atomic_fetch_sub(&inside, writes ? 1000 : 1);
        if (redlock_release(&taker->lock, NULL) != REDLOCK_OK)
            taker->status = 2;
    }
    return NULL;
}

START_TEST(a_writer_is_always_alone)
{
    struct waiter takers[TAKERS] = {0};
    struct face *faces[TAKERS / 2];

    cluster = real_cluster(HELD_NODES, NULL);
    atomic_store(&inside, 0);
    for (int i = 0; i < TAKERS / 2; i++)
        faces[i] = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    for (int i = 0; i < TAKERS; i++) {
        takers[i].client = face_client(faces[i / 2]);
        takers[i].options = mode(true);
        takers[i].options.wait_ms = 4 * REAL_SOON_MS;
        takers[i].options.fair = (uint32_t)(_i & 1);
        ck_assert_int_eq(pthread_create(&takers[i].thread, NULL, come_and_go, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        ck_assert_int_eq(pthread_join(takers[i].thread, NULL), 0);
        ck_assert_msg(takers[i].status == 0, "taker %d: %d", i, takers[i].status);
    }
    for (int i = 0; i < TAKERS / 2; i++)
        held_close(faces[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared");
    TCase *together = real_bare_case(suite, "together");
    TCase *alike = real_bare_case(suite, "alike");
    TCase *waiting = real_bare_case(suite, "waiting");

    real_add_test(together, readers_together_a_writer_alone);
    real_add_test(together, sixty_four_enter_in_one_round_trip_each);
    real_add_test(together, foreign_clients_are_excluded_and_exclude);
    real_add_test(together, each_reader_ends_by_itself);
    real_add_test(alike, renewed_healed_and_extended);
    real_add_test(alike, several_are_shared_at_once);
    real_add_test(alike, no_way_leads_from_reading_to_writing);
    real_add_test(alike, readers_see_the_last_writers_token);
    real_add_test(alike, a_query_says_that_it_is_shared);
    tcase_add_test(waiting, a_waiting_writer_holds_off_new_readers);
    tcase_add_test(waiting, a_writer_that_waits_in_vain_signs_out);
    tcase_add_test(waiting, readers_behind_a_writer_enter_together);
    tcase_add_test(waiting, a_writer_that_waits_for_ever_does_not_hold_off_readers_for_ever);
    tcase_add_loop_test(waiting, a_writer_is_always_alone, 0, 2);
    return real_run(suite, true);
}
