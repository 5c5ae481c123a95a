/* An owner re-enters its lock, on real servers: any number of times, without a request to the nodes unless the lock has
 * to be extended. Each handle is released once. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TTL_MS = 20000 };

static const char key[] = real_key("again");
static const char owner[] = "somebody", other_owner[] = "somebody else";
static redlock_result result;

struct scene {
    struct cluster *cluster;
    struct face *face;
    redlock_acquire_options acquire;
};

static struct scene open_scene(int i, uint32_t ttl_ms)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(ttl_ms, 0);
    struct scene scene = {.cluster = cluster, .acquire = REDLOCK_ACQUIRE_OPTIONS_INIT};

    options.renewal_percent = 0;
    options.max_ttl_ms = 60000;
    scene.face = held_open_trusted(face_of(i), cluster_nodes_string(cluster), &options);
    scene.acquire.owner = owner;
    return scene;
}

static redlock_lock *take(struct scene *scene)
{
    return held_acquire(scene->face, key, &scene->acquire);
}

static long long calls(struct cluster *cluster)
{
    char reply[16384];
    long long total = 0;

    for (size_t i = 0; i < HELD_NODES; i++) {
        ck_assert(cluster_command(cluster, i, reply, sizeof(reply), "INFO", "commandstats", NULL));
        static const char *const commands[] = {"cmdstat_set:calls=", "cmdstat_evalsha:calls=", "cmdstat_eval:calls="};
        for (size_t c = 0; c < 3; c++) {
            const char *at = strstr(reply, commands[c]);
            total += at == NULL ? 0 : strtoll(at + strlen(commands[c]), NULL, 10);
        }
    }
    return total;
}

static void refuse(struct scene *scene, const void *by, int status)
{
    redlock_acquire_options acquire = scene->acquire;
    redlock_lock *lock;

    acquire.owner = by;
    real_status(face_acquire(scene->face, key, &acquire, &lock, &result), status, &result);
    ck_assert_ptr_null(lock);
}

START_TEST(its_owner_takes_it_again_without_asking_a_node)
{
    enum { TIMES = 10 };
    struct scene scene = open_scene(_i, TTL_MS);
    redlock_lock *locks[TIMES];

    locks[0] = take(&scene);
    held_everywhere(scene.face, scene.cluster, key, locks[0]);
    long long before = calls(scene.cluster);
    for (uint32_t i = 1; i < TIMES; i++) {
        locks[i] = take(&scene);
        ck_assert_ptr_ne(locks[i], locks[i - 1]);
        ck_assert_uint_eq(redlock_hold_count(locks[0]), i + 1);
        ck_assert_str_eq(redlock_lock_token(locks[i]), redlock_lock_token(locks[0]));
    }
    for (uint32_t i = 0; i + 1 < TIMES; i++) { /* the first handle is like the others */
        held_release(scene.face, &locks[i]);
        ck_assert_uint_eq(redlock_hold_count(locks[TIMES - 1]), TIMES - 1 - i);
        ck_assert_int_eq(redlock_held_by_me(face_client(scene.face), key, 0), 1);
    }
    ck_assert_int_eq(calls(scene.cluster), before);
    held_everywhere(scene.face, scene.cluster, key, locks[TIMES - 1]);
    held_release(scene.face, &locks[TIMES - 1]);
    ck_assert_int_eq(redlock_held_by_me(face_client(scene.face), key, 0), 0);
    ck_assert(real_nothing_left(scene.face));
    ck_assert_int_gt(calls(scene.cluster), before);
    held_close(scene.face);
}
END_TEST

START_TEST(another_owner_is_refused)
{
    struct scene scene = open_scene(_i, TTL_MS);
    redlock_lock *lock = take(&scene);

    held_everywhere(scene.face, scene.cluster, key, lock);
    refuse(&scene, other_owner, REDLOCK_HELD);
    ck_assert_uint_eq(redlock_hold_count(lock), 1);
    held_everywhere(scene.face, scene.cluster, key, lock);
    held_release(scene.face, &lock);
    held_close(scene.face);
}
END_TEST

/* In the asynchronous API an acquire that names no owner does not re-enter a lock. */
START_TEST(nobody_is_no_owner)
{
    struct scene scene = open_scene(ASYNCHRONOUS_FACE, TTL_MS);

    scene.acquire.owner = NULL;
    redlock_lock *lock = take(&scene);
    held_everywhere(scene.face, scene.cluster, key, lock);
    refuse(&scene, NULL, REDLOCK_HELD);
    held_release(scene.face, &lock);
    held_close(scene.face);
}
END_TEST

static void *try_from_thread(void *arg)
{
    struct scene *scene = arg;

    refuse(scene, NULL, REDLOCK_HELD);
    return NULL;
}

START_TEST(a_thread_owns_what_it_takes)
{
    struct scene scene = open_scene(BLOCKING_FACE, TTL_MS);
    pthread_t thread;

    scene.acquire.owner = NULL;
    redlock_lock *first = take(&scene);
    redlock_lock *second = take(&scene);
    ck_assert_uint_eq(redlock_hold_count(first), 2);
    held_everywhere(scene.face, scene.cluster, key, first);
    ck_assert_int_eq(pthread_create(&thread, NULL, try_from_thread, &scene), 0);
    pthread_join(thread, NULL);
    held_release(scene.face, &first);
    held_release(scene.face, &second);
    held_close(scene.face);
}
END_TEST

START_TEST(a_longer_ttl_extends_it)
{
    struct scene scene = open_scene(_i, TTL_MS);
    redlock_lock *first = take(&scene);

    held_everywhere(scene.face, scene.cluster, key, first);
    long long before = calls(scene.cluster);
    scene.acquire.ttl_ms = 2 * TTL_MS;
    redlock_lock *second = take(&scene);
    ck_assert_int_gt(calls(scene.cluster), before);
    ck_assert_int_gt(redlock_validity_ms(first), 3 * TTL_MS / 2);
    scene.acquire.ttl_ms = TTL_MS / 2; /* an acquire never shortens the validity */
    redlock_lock *third = take(&scene);
    ck_assert_int_gt(redlock_validity_ms(third), 3 * TTL_MS / 2);
    held_release(scene.face, &first);
    held_release(scene.face, &second);
    held_release(scene.face, &third);
    held_close(scene.face);
}
END_TEST

static bool is_half_over(void *lock)
{
    return redlock_validity_ms(lock) < 1500;
}

START_TEST(too_little_that_is_left_is_extended_first)
{
    struct scene scene = open_scene(_i, 3000);
    redlock_lock *first = take(&scene);

    held_everywhere(scene.face, scene.cluster, key, first);
    ck_assert(face_wait(scene.face, is_half_over, first, REAL_SOON_MS));
    scene.acquire.minimum_validity_ms = 2000;
    redlock_lock *second = take(&scene);
    ck_assert_int_gt(redlock_validity_ms(first), 2000);
    ck_assert_uint_eq(redlock_hold_count(first), 2);
    held_release(scene.face, &first);
    held_release(scene.face, &second);
    held_close(scene.face);
}
END_TEST

/* Not judged by redlock_validity_ms(): in whole milliseconds it is 0 slightly before the loss. */
static bool is_over(void *lock)
{
    return redlock_lock_loss(lock) != REDLOCK_NOT_LOST;
}

static bool is_told(void *story)
{
    return atomic_load(&((struct held_story *)story)->lost) > 0;
}

/* The outer section has lost its protection. No inner section may begin until the outer one has ended, too. */
START_TEST(a_lost_lock_is_not_taken_again_before_all_is_released)
{
    struct scene scene = open_scene(_i, 300);
    redlock_lock *first = take(&scene);
    redlock_lock *second = take(&scene);

    ck_assert(face_wait(scene.face, is_over, first, REAL_SOON_MS));
    ck_assert(face_wait(scene.face, is_over, second, REAL_SOON_MS));
    refuse(&scene, owner, REDLOCK_LOST);
    real_status(face_release(scene.face, &first, &result), REDLOCK_LOST, &result);
    refuse(&scene, owner, REDLOCK_LOST);
    ck_assert_uint_eq(redlock_hold_count(second), 1);
    real_status(face_release(scene.face, &second, &result), REDLOCK_LOST, &result);
    scene.acquire.ttl_ms = 20000;
    scene.acquire.wait_ms = REAL_SOON_MS; /* the nodes' keys outlive the lock by the drift */
    redlock_lock *third = take(&scene);
    ck_assert_uint_eq(redlock_hold_count(third), 1);
    held_release(scene.face, &third);
    held_close(scene.face);
}
END_TEST

START_TEST(nothing_is_released_twice)
{
    struct scene scene = open_scene(_i, TTL_MS);
    redlock_lock *lock = take(&scene);

    held_release(scene.face, &lock);
    ck_assert_ptr_null(lock);
    if (face_of(_i) == BLOCKING_FACE) {
        real_status(redlock_release(&lock, &result), REDLOCK_INVALID, &result);
        real_status(redlock_release(NULL, &result), REDLOCK_INVALID, &result);
        real_status(redlock_extend(NULL, 0, &result), REDLOCK_INVALID, &result);
    } else {
        ck_assert_int_eq(redlock_release_async(&lock, NULL, NULL), REDLOCK_INVALID);
        ck_assert_int_eq(redlock_release_async(NULL, NULL, NULL), REDLOCK_INVALID);
        ck_assert_int_eq(redlock_extend_async(NULL, 0, NULL, NULL), REDLOCK_INVALID);
    }
    ck_assert_uint_eq(redlock_hold_count(NULL), 0);
    held_close(scene.face);
}
END_TEST

/* Each handle has its own callback, which reports the loss once. */
START_TEST(every_handle_is_told_of_the_loss)
{
    struct scene scene = open_scene(_i, 400);
    struct held_story first_story, second_story;
    redlock_acquire_options first_options = held_acquire_options(&first_story);
    redlock_acquire_options second_options = held_acquire_options(&second_story);

    first_options.owner = second_options.owner = owner;
    redlock_lock *first = held_acquire(scene.face, key, &first_options);
    redlock_lock *second = held_acquire(scene.face, key, &second_options);
    ck_assert(face_wait(scene.face, is_told, &first_story, REAL_SOON_MS));
    ck_assert(face_wait(scene.face, is_told, &second_story, REAL_SOON_MS));
    face_idle(scene.face, 20); /* a second notification would arrive now */
    ck_assert_uint_eq(atomic_load(&first_story.lost), 1);
    ck_assert_uint_eq(atomic_load(&second_story.lost), 1);
    ck_assert_ptr_eq(first_story.lock, first);
    ck_assert_ptr_eq(second_story.lock, second);
    real_status(face_release(scene.face, &first, &result), REDLOCK_LOST, &result);
    real_status(face_release(scene.face, &second, &result), REDLOCK_LOST, &result);
    held_close(scene.face);
}
END_TEST

static Suite *reentry_suite(void)
{
    Suite *suite = suite_create("held_reentry");
    TCase *tcase = real_bare_case(suite, "reentry");

    tcase_add_loop_test(tcase, its_owner_takes_it_again_without_asking_a_node, 0, FACES);
    tcase_add_loop_test(tcase, another_owner_is_refused, 0, FACES);
    tcase_add_test(tcase, nobody_is_no_owner);
    tcase_add_test(tcase, a_thread_owns_what_it_takes);
    tcase_add_loop_test(tcase, a_longer_ttl_extends_it, 0, FACES);
    tcase_add_loop_test(tcase, too_little_that_is_left_is_extended_first, 0, FACES);
    tcase_add_loop_test(tcase, a_lost_lock_is_not_taken_again_before_all_is_released, 0, FACES);
    tcase_add_loop_test(tcase, nothing_is_released_twice, 0, FACES);
    tcase_add_loop_test(tcase, every_handle_is_told_of_the_loss, 0, FACES);
    return suite;
}

int main(void)
{
    return real_run(reentry_suite(), false);
}
