/* Locks on several resources, on real servers: all of them or none, in one round trip, and otherwise like a lock on
 * one resource. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A real_key("a")
#define B real_key("b")
#define C real_key("c")

enum { TTL_MS = 20000 };

static redlock_result result;
static struct cluster *cluster;

static struct face *open_face(int i)
{
    cluster = real_cluster(HELD_NODES, NULL);
    return held_open_patient(i, cluster, TTL_MS, 0);
}

/* Tries once. `also`: further names. */
static int try(struct face *face, redlock_lock **lock, const char *first, const redlock_name *also, size_t count)
{
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.also = also;
    options.also_count = count;
    return face_acquire(face, first, &options, lock, &result);
}

static const redlock_name c_then_b[] = {{C, 0}, {B, 0}};

static redlock_lock *take_abc(struct face *face)
{
    redlock_lock *lock;

    real_status(try(face, &lock, A, c_then_b, 2), REDLOCK_OK, &result);
    return lock;
}

static void refuse(struct face *face, const char *first, const redlock_name *also, size_t count)
{
    redlock_lock *lock;

    real_status(try(face, &lock, first, also, count), REDLOCK_HELD, &result);
    ck_assert_ptr_null(lock);
}

static bool is_free(const char *key)
{
    for (size_t i = 0; i < HELD_NODES; i++)
        if (cluster_integer(cluster, i, "EXISTS", key, NULL) != 0)
            return false;
    return true;
}

/* --- All or none --- */

START_TEST(it_is_on_all_of_them)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_lock *lock = take_abc(face);
    static const char *const keys[] = {A, B, C};
    size_t size;

    ck_assert_uint_eq(result.attempts, 1);
    for (unsigned i = 0; i < 3; i++) {
        held_everywhere(face, cluster, keys[i], lock);
        ck_assert_str_eq(redlock_lock_resource_at(lock, i, &size), keys[i]);
        ck_assert_uint_eq(size, strlen(keys[i]));
        ck_assert(redlock_held_by_me(face_client(face), keys[i], 0));
        refuse(other, keys[i], NULL, 0);
    }
    ck_assert_uint_eq(redlock_lock_resources(lock), 3);
    ck_assert_str_eq(redlock_lock_resource(lock, NULL), A);
    ck_assert_str_eq(redlock_lock_resource_at(lock, 3, NULL), "");
    refuse(other, real_key("z"), (redlock_name[]){{B, 0}}, 1);
    ck_assert(is_free(real_key("z")));
    held_release(face, &lock);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(!redlock_held_by_me(face_client(face), keys[i], 0));
    ck_assert(real_nothing_left(face));
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(one_that_is_held_keeps_all_away)
{
    struct face *face = open_face(_i), *other = held_open_patient(_i, cluster, TTL_MS, 0);
    redlock_lock *one = held_acquire(other, B, NULL), *lock;

    held_everywhere(other, cluster, B, one);
    refuse(face, A, c_then_b, 2);
    ck_assert(is_free(A) && is_free(C));
    held_release(other, &one);
    lock = take_abc(face);
    held_release(face, &lock);
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(order_does_not_matter_and_doubles_are_folded)
{
    struct face *face = open_face(_i);
    const redlock_name also[] = {{B, 0}, {A, 0}, {B, strlen(B)}, {C, 0}, {A, 0}};
    redlock_lock *lock;

    real_status(try(face, &lock, C, also, 5), REDLOCK_OK, &result);
    ck_assert_uint_eq(redlock_lock_resources(lock), 3);
    ck_assert_str_eq(redlock_lock_resource(lock, NULL), A);
    held_release(face, &lock);
    real_status(try(face, &lock, A, (redlock_name[]){{A, 0}}, 1), REDLOCK_OK, &result);
    ck_assert_uint_eq(redlock_lock_resources(lock), 1);
    held_everywhere(face, cluster, A, lock);
    held_release(face, &lock);
    held_close(face);
}
END_TEST

START_TEST(so_many_and_no_more)
{
    struct face *face = open_face(_i);
    char text[REDLOCK_RESOURCES_MAX][32];
    redlock_name also[REDLOCK_RESOURCES_MAX];
    redlock_lock *lock;

    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), real_key("many-%02u"), i);
        also[i] = (redlock_name){text[i], 0};
    }
    real_status(try(face, &lock, A, also, REDLOCK_RESOURCES_MAX - 1), REDLOCK_OK, &result);
    ck_assert_uint_eq(redlock_lock_resources(lock), REDLOCK_RESOURCES_MAX);
    real_status(face_extend(face, lock, 2 * TTL_MS, &result), REDLOCK_OK, &result);
    for (unsigned i = 0; i < REDLOCK_RESOURCES_MAX - 1; i++)
        ck_assert_int_gt(cluster_integer(cluster, 0, "PTTL", text[i], NULL), TTL_MS);
    held_release(face, &lock);
    ck_assert(real_nothing_left(face));
    real_status(try(face, &lock, A, also, REDLOCK_RESOURCES_MAX), REDLOCK_INVALID, &result);
    ck_assert_ptr_nonnull(strstr(result.text, "also_count is 64"));
    real_status(try(face, &lock, A, NULL, 1), REDLOCK_INVALID, &result);
    ck_assert_ptr_nonnull(strstr(result.text, "also is NULL"));
    real_status(try(face, &lock, A, (redlock_name[]){{"", 0}}, 1), REDLOCK_INVALID, &result);
    real_status(try(face, &lock, A, (redlock_name[]){{B ":redlock:queue", 0}}, 1), REDLOCK_INVALID, &result);
    held_close(face);
}
END_TEST

/* --- Like any other lock --- */

START_TEST(renewed_and_healed_as_one)
{
    enum { SHORT_MS = 3000 }; /* a busy machine may delay a renewal, but not by most of this time */
    static const char *const keys[] = {A, B, C};
    cluster = real_cluster(HELD_NODES, NULL);
    struct face *face = held_open_patient(_i, cluster, SHORT_MS, 33);
    redlock_lock *lock = take_abc(face);

    held_everywhere(face, cluster, A, lock);
    cluster_integer(cluster, 0, "DEL", B, NULL); /* one of the resources */
    cluster_flush(cluster, 1);                   /* all of them */
    face_idle(face, 3 * SHORT_MS / 2);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    for (unsigned i = 0; i < 3; i++)
        held_everywhere(face, cluster, keys[i], lock);
    held_release(face, &lock);
    held_close(face);
}
END_TEST

/* A node cannot be healed, because another client has one of the resources there. It still has the others. */
START_TEST(released_where_another_has_a_part)
{
    enum { SHORT_MS = 3000 };
    char reply[64];
    cluster = real_cluster(HELD_NODES, NULL);
    struct face *face = held_open_patient(_i, cluster, SHORT_MS, 33);
    redlock_lock *lock = take_abc(face);

    held_everywhere(face, cluster, A, lock);
    ck_assert(cluster_command(cluster, 0, reply, sizeof reply, "SET", A, "another", NULL));
    face_idle(face, SHORT_MS / 2); /* renewed, and healed in vain */
    held_release(face, &lock);
    held_close(face);
    ck_assert_int_eq(cluster_integer(cluster, 0, "EXISTS", B, C, NULL), 0);
    ck_assert_int_eq(cluster_integer(cluster, 0, "DEL", A, NULL), 1);
}
END_TEST

/* If one resource is lost on a majority, the whole lock is lost and undone. */
START_TEST(lost_as_one)
{
    struct held_story story;
    redlock_acquire_options options = held_acquire_options(&story);
    cluster = real_cluster(HELD_NODES, NULL);
    struct face *face = held_open_patient(_i, cluster, 3000, 33);

    options.also = c_then_b;
    options.also_count = 2;
    redlock_lock *lock = held_acquire(face, A, &options);
    held_everywhere(face, cluster, C, lock);
    for (size_t i = 0; i < HELD_QUORUM; i++)
        cluster_integer(cluster, i, "DEL", C, NULL);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_LOST, &result);
    ck_assert(real_nothing_left(face));
    ck_assert_int_eq(redlock_lock_loss(lock), REDLOCK_LOSS_GONE);
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    held_close(face);
}
END_TEST

START_TEST(its_owner_may_take_a_part_of_it_again)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_lock *lock, *part;

    options.owner = &options;
    options.also = c_then_b;
    options.also_count = 2;
    lock = held_acquire(face, A, &options);
    options.also_count = 0;
    part = held_acquire(face, C, &options);
    ck_assert_str_eq(redlock_lock_token(part), redlock_lock_token(lock));
    ck_assert_uint_eq(redlock_hold_count(lock), 2);
    held_release(face, &part);
    held_release(face, &lock);
    held_close(face);
}
END_TEST

/* --- Requests that can never be granted to the same owner --- */

static const char self[] = "the owner", another[] = "another owner";

struct wish {
    const char *names; /* one letter per resource */
    bool shared;
    uint32_t permits;
    const void *owner;
};

static int acquire_wish(struct face *face, const struct wish *wish, int64_t wait_ms, redlock_lock **lock)
{
    static const char *const keys[] = {A, B, C};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    redlock_name also[2];

    for (size_t i = 1; i < strlen(wish->names); i++)
        also[i - 1] = (redlock_name){keys[wish->names[i] - 'a'], 0};
    options.also = also;
    options.also_count = strlen(wish->names) - 1;
    options.shared = wish->shared;
    options.permits = wish->permits;
    options.owner = wish->owner;
    options.wait_ms = wait_ms;
    return face_acquire(face, keys[*wish->names - 'a'], &options, lock, &result);
}

#define WISH(letters, ...)                                                                                             \
    {                                                                                                                  \
        .names = letters, __VA_ARGS__                                                                                  \
    }
#define OWN_LOCK "can never be granted: this owner holds '" A "'"
static const struct {
    struct wish held, wanted;
    int status;
    const char *words;
} overlaps[] = {
    {WISH("a", .owner = self), WISH("ab", .owner = self), REDLOCK_INVALID, OWN_LOCK},
    {WISH("a", .owner = self), WISH("ba", .owner = self), REDLOCK_INVALID, OWN_LOCK},
    {WISH("ab", .owner = self), WISH("ca", .owner = self), REDLOCK_INVALID, OWN_LOCK},
    {WISH("a", .owner = self), WISH("ab", .owner = self, .shared = true), REDLOCK_INVALID, OWN_LOCK},
    {WISH("a", .owner = self, .shared = true), WISH("ab", .owner = self), REDLOCK_INVALID, OWN_LOCK " shared"},
    {WISH("a", .owner = self, .shared = true), WISH("a", .owner = self), REDLOCK_INVALID, "holds it shared"},
    {WISH("a", .owner = self, .permits = 1), WISH("a", .owner = self, .permits = 1), REDLOCK_INVALID, "all 1 permits"},
    {WISH("a", .owner = self, .permits = 2), WISH("a", .owner = self, .permits = 2), REDLOCK_OK, ""},
    {WISH("a", .permits = 1), WISH("a", .permits = 1), REDLOCK_HELD, ""}, /* another thread may release the permit */
    {WISH("a", .owner = self, .permits = 1), WISH("a", .owner = self), REDLOCK_OK, ""},
    {WISH("a", .owner = self, .shared = true), WISH("ab", .owner = self, .shared = true), REDLOCK_OK, ""},
    {WISH("a", .owner = self), WISH("b", .owner = self), REDLOCK_OK, ""},
    {WISH("a", .owner = self), WISH("ab", .owner = another), REDLOCK_HELD, ""},
};

START_TEST(owner_does_not_wait_for_itself)
{
    cluster = real_cluster(1, NULL);
    struct face *face = held_open_patient(_i % FACES, cluster, TTL_MS, 0);
    redlock_lock *held, *wanted;
    bool is_refused = overlaps[_i].status == REDLOCK_INVALID;

    real_status(acquire_wish(face, &overlaps[_i].held, 0, &held), REDLOCK_OK, &result);
    int status = acquire_wish(face, &overlaps[_i].wanted, is_refused ? REDLOCK_FOREVER : 0, &wanted);
    real_status(status, overlaps[_i].status, &result);
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), overlaps[_i].words));
    held_release(face, &held);
    if (is_refused) /* the remedy in the error text works */
        real_status(acquire_wish(face, &overlaps[_i].wanted, REAL_SOON_MS, &wanted), REDLOCK_OK, &result);
    if (wanted != NULL)
        held_release(face, &wanted);
    held_close(face);
}
END_TEST

static bool is_lost(void *lock)
{
    return redlock_lock_loss(lock) != REDLOCK_NOT_LOST;
}

START_TEST(lost_part_of_a_wider_lock_is_lost)
{
    cluster = real_cluster(1, NULL);
    struct face *face = held_open_patient(_i, cluster, 300, 0);
    const struct wish held = {.names = "a", .owner = self}, wanted = {.names = "ab", .owner = self};
    redlock_lock *lock, *wider;

    real_status(acquire_wish(face, &held, 0, &lock), REDLOCK_OK, &result);
    ck_assert(face_wait(face, is_lost, lock, REAL_SOON_MS));
    real_status(acquire_wish(face, &wanted, REDLOCK_FOREVER, &wider), REDLOCK_LOST, &result);
    ck_assert_ptr_nonnull(strstr(redlock_result_text(&result), "lost its lock on '" A "'"));
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    real_status(acquire_wish(face, &wanted, REAL_SOON_MS, &wider), REDLOCK_OK, &result);
    face_release(face, &wider, &result);
    held_close(face);
}
END_TEST

START_TEST(one_fencing_token_for_all)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;
    char number[24];

    options.fence = 1;
    redlock_lock *lock = held_acquire(face, B, &options);
    uint64_t before = redlock_lock_fence(lock) + UINT64_C(1000000000);
    held_release(face, &lock);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)before);
    for (size_t i = 0; i < HELD_NODES; i++)
        ck_assert(cluster_command(cluster, i, NULL, 0, "SET", B ":redlock:fence", number, NULL));
    options.also = c_then_b;
    options.also_count = 2;
    lock = held_acquire(face, A, &options);
    ck_assert_uint_gt(redlock_lock_fence(lock), before);
    before = redlock_lock_fence(lock);
    held_release(face, &lock);
    options.also_count = 0;
    lock = held_acquire(face, C, &options);
    ck_assert_uint_gt(redlock_lock_fence(lock), before);
    held_release(face, &lock);
    held_close(face);
}
END_TEST

/* --- Waiting --- */

struct waiter {
    pthread_t thread;
    redlock_client *client;
    redlock_acquire_options options;
    const char *resource;
    redlock_lock *lock;
    atomic_bool has_it;
    int status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = redlock_acquire(waiter->client, waiter->resource, &waiter->options, &waiter->lock, NULL);
    atomic_store(&waiter->has_it, true);
    return NULL;
}

static void start(struct waiter *waiter, struct face *face, const char *resource, const redlock_name *also,
                  size_t count, uint32_t fair)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->client = face_client(face);
    waiter->options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
    waiter->options.wait_ms = REAL_SOON_MS;
    waiter->options.fair = fair;
    waiter->options.also = also;
    waiter->options.also_count = count;
    waiter->resource = resource;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

static void finish(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
    ck_assert_int_eq(waiter->status, REDLOCK_OK);
    real_status(redlock_release(&waiter->lock, &result), REDLOCK_OK, &result);
}

static bool waits_for_a_and_b(void *arg)
{
    for (size_t i = 0; i < HELD_NODES; i++)
        if (cluster_integer(cluster, i, "ZCARD", A ":redlock:queue", NULL) < *(int *)arg ||
            cluster_integer(cluster, i, "ZCARD", B ":redlock:queue", NULL) < *(int *)arg)
            return false;
    return true;
}

START_TEST(woken_by_the_last_of_them)
{
    struct face *face = open_face(BLOCKING_FACE), *other = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    const redlock_name b[] = {{B, 0}};
    struct waiter waiter;
    int one = 1, slow = 0;

    for (int i = 0; i < 6; i++) {
        redlock_lock *first = held_acquire(face, A, NULL), *second = held_acquire(face, B, NULL);
        start(&waiter, other, A, b, 1, (uint32_t)(i & 1));
        ck_assert(face_wait(face, waits_for_a_and_b, &one, REAL_SOON_MS));
        held_release(face, i % 3 ? &first : &second);
        face_idle(face, 50);
        ck_assert(!atomic_load(&waiter.has_it));
        uint64_t freed = test_now_ns();
        held_release(face, i % 3 ? &second : &first);
        finish(&waiter);
        slow += test_now_ns() - freed > 900000000; /* without a notification the next look comes a second later */
    }
    ck_assert_int_le(slow, 2); /* a busy machine delays a few */
    held_close(other);
    held_close(face);
}
END_TEST

START_TEST(whoever_waits_for_one_of_them_is_woken_too)
{
    struct face *face = open_face(BLOCKING_FACE), *other = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    const redlock_name b[] = {{B, 0}};
    struct waiter for_a, for_b, for_both;
    redlock_lock *lock;
    int two = 2;

    real_status(try(face, &lock, B, (redlock_name[]){{A, 0}}, 1), REDLOCK_OK, &result);
    start(&for_a, other, A, NULL, 0, 0);
    start(&for_b, other, B, NULL, 0, 0);
    start(&for_both, other, A, b, 1, 0);
    ck_assert(face_wait(face, waits_for_a_and_b, &two, REAL_SOON_MS));
    held_release(face, &lock);
    /* Any order: a waiter gets its lock once the others have released theirs. */
    for (unsigned done = 0; done != 7;) {
        struct waiter *waiters[] = {&for_a, &for_b, &for_both};
        for (unsigned i = 0; i < 3; i++) {
            if (done & 1u << i || !atomic_load(&waiters[i]->has_it))
                continue;
            finish(waiters[i]);
            done |= 1u << i;
        }
        face_idle(face, 5);
    }
    ck_assert(real_nothing_left(face));
    held_close(other);
    held_close(face);
}
END_TEST

/* Many threads acquire and release overlapping pairs: each one gets its pair in the end, and no resource has two
 * holders. */
enum { TAKERS = 6, TURNS = 25, FORKS = 5 };

static atomic_int on_the_table[FORKS];

static void *eat(void *arg)
{
    struct waiter *taker = arg;
    unsigned seed = (unsigned)(uintptr_t)arg;
    static const char *const forks[FORKS] = {real_key("f0"), real_key("f1"), real_key("f2"), real_key("f3"),
                                             real_key("f4")};

    for (int turn = 0; turn < TURNS && taker->status == 0; turn++) {
        unsigned first = (unsigned)rand_r(&seed) % FORKS, second = (first + 1) % FORKS;
        redlock_name also = {forks[second], 0};
        taker->options.also = &also;
        taker->options.also_count = 1;
        taker->status = redlock_acquire(taker->client, forks[first], &taker->options, &taker->lock, NULL);
        if (taker->status)
            break;
        if (atomic_fetch_add(&on_the_table[first], 1) || atomic_fetch_add(&on_the_table[second], 1))
            taker->status = 1;
        atomic_fetch_sub(&on_the_table[first], 1);
        atomic_fetch_sub(&on_the_table[second], 1);
        if (redlock_release(&taker->lock, NULL) != REDLOCK_OK)
            taker->status = 2;
    }
    return NULL;
}

START_TEST(philosophers_do_not_starve)
{
    struct waiter takers[TAKERS] = {0};
    struct face *faces[TAKERS];

    cluster = real_cluster(HELD_NODES, NULL);
    for (int i = 0; i < TAKERS; i++)
        faces[i] = held_open_patient(BLOCKING_FACE, cluster, TTL_MS, 0);
    for (int i = 0; i < TAKERS; i++) {
        takers[i].client = face_client(faces[i / 2]); /* two threads share each client */
        takers[i].options = (redlock_acquire_options)REDLOCK_ACQUIRE_OPTIONS_INIT;
        takers[i].options.wait_ms = 4 * REAL_SOON_MS;
        ck_assert_int_eq(pthread_create(&takers[i].thread, NULL, eat, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        ck_assert_int_eq(pthread_join(takers[i].thread, NULL), 0);
        ck_assert_int_eq(takers[i].status, 0);
    }
    for (int i = 0; i < TAKERS; i++)
        held_close(faces[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("several");
    TCase *all = real_bare_case(suite, "all");
    TCase *alike = real_bare_case(suite, "alike");
    TCase *own = real_bare_case(suite, "own");
    TCase *waiting = real_bare_case(suite, "waiting");

    real_add_test(all, it_is_on_all_of_them);
    real_add_test(all, one_that_is_held_keeps_all_away);
    real_add_test(all, order_does_not_matter_and_doubles_are_folded);
    real_add_test(all, so_many_and_no_more);
    real_add_test(alike, renewed_and_healed_as_one);
    real_add_test(alike, released_where_another_has_a_part);
    real_add_test(alike, lost_as_one);
    real_add_test(alike, its_owner_may_take_a_part_of_it_again);
    tcase_add_loop_test(own, owner_does_not_wait_for_itself, 0, (int)(sizeof overlaps / sizeof *overlaps));
    tcase_add_loop_test(own, lost_part_of_a_wider_lock_is_lost, 0, FACES);
    real_add_test(alike, one_fencing_token_for_all);
    tcase_add_test(waiting, woken_by_the_last_of_them);
    tcase_add_test(waiting, whoever_waits_for_one_of_them_is_woken_too);
    tcase_add_test(waiting, philosophers_do_not_starve);
    return real_run(suite, true);
}
