/*
 * Semaphores on real servers: never more holders than permits, also while nodes fail.
 *
 * REDLOCK_SEMAPHORE_SECONDS is the length of the contention; with it, nine tenths of the permits must be in use. The
 * default is 3 s, with a lower limit that a busy machine reaches.
 */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY real_key("seats")

enum { TTL_MS = 20000, PERMITS = 3 };

static redlock_result result;
static struct cluster *cluster;

static struct face *open_face(int i)
{
    cluster = real_cluster(HELD_NODES, NULL);
    return held_open_patient(i, cluster, TTL_MS, 0);
}

static redlock_acquire_options permit(void)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.permits = PERMITS;
    return options;
}

static redlock_lock *take(struct face *face)
{
    const redlock_acquire_options options = permit();
    redlock_lock *lock;

    real_status(face_acquire(face, KEY, &options, &lock, &result), REDLOCK_OK, &result);
    ck_assert_str_eq(redlock_lock_resource(lock, NULL), KEY);
    return lock;
}

static void refuse(struct face *face)
{
    const redlock_acquire_options options = permit();
    redlock_lock *lock;

    real_status(face_acquire(face, KEY, &options, &lock, &result), REDLOCK_HELD, &result);
    ck_assert_ptr_null(lock);
}

/* --- Permits --- */

START_TEST(so_many_and_no_more)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_lock *locks[PERMITS];

    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < PERMITS; i++)
            locks[i] = take(i & 1 ? other : face);
        refuse(face);
        refuse(other);
        held_release(turn & 1 ? other : face, &locks[turn & 1]);
        locks[turn & 1] = take(turn & 1 ? other : face);
        refuse(face);
        for (int i = 0; i < PERMITS; i++)
            held_release(i & 1 ? other : face, &locks[i]);
        ck_assert(real_nothing_left(face));
    }
    held_close(other);
    held_close(face);
}
END_TEST

static void show(struct face *face, uint32_t taken, int mine)
{
    redlock_state state;

    real_status(face_query(face, KEY, &state, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(state.permits_taken, taken);
    ck_assert_int_eq(state.held_by_me, mine);
    ck_assert_int_eq(state.locked, 0);
    ck_assert_uint_eq(state.free_nodes, HELD_NODES); /* a semaphore has no key of its plain name */
    ck_assert_int_eq(redlock_held_by_me(face_client(face), KEY, 0), mine);
}

START_TEST(permits_are_shown_to_all_and_known_to_their_client)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_lock *first, *second;

    show(face, 0, 0);
    first = take(face);
    show(face, 1, 1);
    show(other, 1, 0);
    second = take(other);
    show(face, 2, 1);
    show(other, 2, 1);
    ck_assert_int_eq(redlock_held_by_me(face_client(face), KEY ":redlock", 0), 0);
    held_release(face, &first);
    show(face, 1, 0);
    show(other, 1, 1);
    for (size_t i = 0; i < HELD_QUORUM; i++)
        cluster_flush(cluster, i);
    show(face, 0, 0); /* only a minority still has the permit's key */
    real_status(face_release(other, &second, &result), REDLOCK_LOST, &result);
    held_close(other);
    held_close(face);
}
END_TEST

/* Each client takes the slot again that it used last. */
START_TEST(one_round_trip_as_a_rule)
{
    enum { TURNS = 100 };
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    unsigned rounds = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        redlock_lock *one = take(face);
        rounds += result.attempts;
        redlock_lock *two = take(other);
        rounds += result.attempts;
        held_release(face, &one);
        held_release(other, &two);
    }
    ck_assert_msg(rounds <= 2 * TURNS + TURNS / 10, "%u rounds for %d permits", rounds, 2 * TURNS);
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(a_permit_is_renewed_healed_and_lost_like_a_lock)
{
    enum { SHORT_MS = 3000 }; /* a busy machine may delay a renewal, but not by most of this time */
    cluster = real_cluster(HELD_NODES, NULL);
    struct face *face = held_open_patient(_i, cluster, SHORT_MS, 33);
    redlock_lock *lock = take(face);

    cluster_flush(cluster, 0);
    face_idle(face, 3 * SHORT_MS / 2);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    real_status(face_extend(face, lock, 10000, &result), REDLOCK_OK, &result);
    ck_assert_int_gt(redlock_validity_ms(lock), 8000);
    for (size_t i = 0; i < HELD_QUORUM; i++)
        cluster_flush(cluster, i);
    real_status(face_extend(face, lock, 20000, &result), REDLOCK_LOST, &result);
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(face));
    held_close(face);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    struct face *face = open_face(_i);
    redlock_lock *lock;

    for (int i = 0; i < 4; i++) {
        redlock_acquire_options options = permit();
        options.shared = i == 0;
        options.fence = i == 1;
        options.also_count = i == 2;
        options.also = (redlock_name[]){{real_key("b"), 0}};
        options.permits = i == 3 ? REDLOCK_PERMITS_MAX + 1 : PERMITS;
        real_status(face_acquire(face, KEY, &options, &lock, &result), REDLOCK_INVALID, &result);
        ck_assert_ptr_nonnull(strstr(result.text, "permits"));
    }
    held_close(face);
}
END_TEST

/* --- Waiting --- */

struct taker {
    pthread_t thread;
    redlock_client *client;
    redlock_acquire_options options;
    redlock_lock *lock;
    uint64_t got_ns;
    int status;
};

static void *wait_for_one(void *arg)
{
    struct taker *taker = arg;

    taker->status = redlock_acquire(taker->client, KEY, &taker->options, &taker->lock, NULL);
    taker->got_ns = test_now_ns();
    return NULL;
}

static bool waits_on_all(void *count)
{
    for (size_t i = 0; i < HELD_NODES; i++)
        if (cluster_integer(cluster, i, "ZCARD", KEY ":redlock:queue", NULL) < *(int *)count)
            return false;
    return true;
}

/* Releasing any slot notifies a waiter, and releasing two slots at once notifies two waiters. */
START_TEST(waiters_are_called)
{
    struct face *face = open_face(BLOCKING_FACE), *faces[2];
    struct taker takers[2];
    redlock_lock *locks[PERMITS];
    int two = 2, slow = 0;

    for (int i = 0; i < 2; i++)
        faces[i] = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < PERMITS; i++)
            locks[i] = take(face);
        for (int i = 0; i < 2; i++) {
            takers[i] = (struct taker){.client = face_client(faces[i]), .options = permit()};
            takers[i].options.wait_ms = REAL_SOON_MS;
            ck_assert_int_eq(pthread_create(&takers[i].thread, NULL, wait_for_one, &takers[i]), 0);
        }
        ck_assert(face_wait(face, waits_on_all, &two, REAL_SOON_MS));
        uint64_t freed = test_now_ns();
        held_release(face, &locks[turn % PERMITS]);
        held_release(face, &locks[(turn + 1) % PERMITS]);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(pthread_join(takers[i].thread, NULL), 0);
            ck_assert_int_eq(takers[i].status, REDLOCK_OK);
            slow += takers[i].got_ns - freed > 900000000; /* not notified: the next look comes after 1 s */
        }
        refuse(face);
        for (int i = 0; i < 2; i++)
            real_status(redlock_release(&takers[i].lock, &result), REDLOCK_OK, &result);
        held_release(face, &locks[(turn + 2) % PERMITS]);
        ck_assert(real_nothing_left(face));
    }
    ck_assert_int_le(slow, 2);
    for (int i = 0; i < 2; i++)
        held_close(faces[i]);
    held_close(face);
}
END_TEST

/* --- Sixteen contenders --- */

enum { CONTENDERS = 16, HOLD_US = 20000 };

static atomic_int inside, most_inside;
static atomic_llong used_ns;
static atomic_bool over;

static void *contend(void *arg)
{
    struct taker *taker = arg;

    while (!atomic_load(&over)) {
        taker->status = redlock_acquire(taker->client, KEY, &taker->options, &taker->lock, NULL);
        if (taker->status == REDLOCK_NO_QUORUM || taker->status == REDLOCK_TIMED_OUT)
            continue;
        if (taker->status)
            return NULL;
        uint64_t begun = test_now_ns();
        int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
        while (most < now && !atomic_compare_exchange_weak(&most_inside, &most, now))
            ;
        usleep(HOLD_US); /* simulates work under the permit */
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&used_ns, (long long)(test_now_ns() - begun));
        redlock_release(&taker->lock, NULL);
    }
    taker->status = REDLOCK_OK;
    return NULL;
}

static void trouble(unsigned seconds)
{
    uint64_t deadline = test_deadline_ns(seconds * 1000);

    for (size_t node = 0; test_now_ns() < deadline;
         node = (node + 1) % 2) { /* each node is in quarantine for a while: a majority must be left */
        usleep(700000);           /* the time between failures: the load itself */
        cluster_kill(cluster, node);
        usleep(300000);
        cluster_start(cluster, node);
    }
}

START_TEST(sixteen_contend_while_nodes_die)
{
    const char *given = getenv("REDLOCK_SEMAPHORE_SECONDS");
    unsigned seconds = given ? (unsigned)atoi(given) : 3;
    struct taker takers[CONTENDERS];
    struct face *faces[CONTENDERS];
    redlock_options options = held_options(2000, 1); /* nodes restart empty: the guard prevents second grants */

    cluster = real_cluster(HELD_NODES, NULL);
    for (int i = 0; i < CONTENDERS; i++) {
        faces[i] = held_open_trusted(BLOCKING_FACE, cluster_nodes_string(cluster), &options);
        takers[i] = (struct taker){.client = face_client(faces[i]), .options = permit()};
        takers[i].options.wait_ms = REAL_SOON_MS;
    }
    uint64_t begun = test_now_ns();
    for (int i = 0; i < CONTENDERS; i++)
        ck_assert_int_eq(pthread_create(&takers[i].thread, NULL, contend, &takers[i]), 0);
    trouble(seconds);
    atomic_store(&over, true);
    double span = (double)(test_now_ns() - begun);
    for (int i = 0; i < CONTENDERS; i++) {
        ck_assert_int_eq(pthread_join(takers[i].thread, NULL), 0);
        ck_assert_msg(takers[i].status == REDLOCK_OK, "%s", redlock_status_name(takers[i].status));
    }
    double occupied = (double)atomic_load(&used_ns) / span / PERMITS;
    printf("at most %d of %d at once, %.1f %% of the permits in use\n", atomic_load(&most_inside), PERMITS,
           100 * occupied);
    fflush(stdout);
    ck_assert_int_le(atomic_load(&most_inside), PERMITS);
    ck_assert_msg(occupied >= (given ? 0.9 : 0.05), "%.1f %% of the permits in use", 100 * occupied);
    for (int i = 0; i < CONTENDERS; i++) {
        face_close(&faces[i], NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("semaphore");
    TCase *permits = real_bare_case(suite, "permits");
    TCase *waiting = real_bare_case(suite, "waiting");

    real_add_test(permits, so_many_and_no_more);
    real_add_test(permits, permits_are_shown_to_all_and_known_to_their_client);
    real_add_test(permits, one_round_trip_as_a_rule);
    real_add_test(permits, a_permit_is_renewed_healed_and_lost_like_a_lock);
    real_add_test(permits, what_makes_no_sense_is_refused);
    tcase_add_test(waiting, waiters_are_called);
    tcase_add_test(waiting, sixteen_contend_while_nodes_die);
    return real_run(suite, true);
}
