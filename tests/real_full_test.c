/* Nodes at their memory limit: what is held there is renewed and released, and nothing new is granted. */
#define _GNU_SOURCE
#include "held.h"

#include "support/clock.h"

#include <stdio.h>
#include <string.h>

enum { NODES = 3, TTL_MS = 3000 };

static redlock_result result;
static struct cluster *cluster;

static void set_limit(const char *maxmemory)
{
    for (size_t i = 0; i < NODES; i++)
        ck_assert(cluster_command(cluster, i, NULL, 0, "CONFIG", "SET", "maxmemory", maxmemory, NULL));
}

static struct face *open_face(int i)
{
    redlock_options options = held_options(TTL_MS, 0);

    cluster = real_cluster(NODES, NULL);
    real_note_descriptors();
    return face_open_ready(face_of(i), cluster_nodes_string(cluster), &options);
}

/* The kinds of locks, which go by different scripts. */
static redlock_acquire_options kind(int i)
{
    static const redlock_name also = {real_key("full-too"), 0};
    redlock_acquire_options options = REDLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = REAL_SOON_MS;
    options.fence = i == 1 || i == 4;
    options.shared = i == 2;
    if (i == 3 || i == 4) {
        options.also = &also;
        options.also_count = 1;
    }
    options.permits = i == 5 ? 3 : 0;
    return options;
}
enum { KINDS = 6 };

static bool is_renewed(void *arg)
{
    redlock_statistics statistics;

    redlock_statistics_get(face_client(arg), &statistics);
    return statistics.renewed >= 2;
}

START_TEST(locks_on_full_nodes_are_renewed_and_released)
{
    struct face *face = open_face(_i);
    redlock_acquire_options options = kind(_i / FACES);
    redlock_statistics statistics;
    redlock_lock *lock, *other;

    real_status(face_acquire(face, real_key("full"), &options, &lock, &result), REDLOCK_OK, &result);
    set_limit("1");
    ck_assert(face_wait(face, is_renewed, face, REAL_SOON_MS));
    redlock_statistics_get(face_client(face), &statistics);
    ck_assert_uint_eq(statistics.renewals_failed, 0);
    options.wait_ms = 0;
    options.also_count = 0;
    real_status(face_acquire(face, real_key("other"), &options, &other, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.refused, NODES / 2 + 1);
    real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_eq(cluster_integer(cluster, i, "EXISTS", real_key("full"), NULL), 0);
    set_limit("0");
    face_close(&face, NULL);
}
END_TEST

static Suite *full_suite(void)
{
    Suite *suite = suite_create("real_full");
    TCase *tcase = real_bare_case(suite, "full");
    tcase_add_loop_test(tcase, locks_on_full_nodes_are_renewed_and_released, 0, KINDS * FACES);
    return suite;
}

int main(void)
{
    return real_run(full_suite(), false);
}
