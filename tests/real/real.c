#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77, TEST_TIMEOUT_S = 120 };

struct deployment *real_nodes;

static struct cluster *own_cluster;
static size_t descriptors_before;

/* --- Before and after a test --- */

static void make_nodes(void)
{
    real_nodes = deployment_create();
}

static void destroy_nodes(void)
{
    deployment_destroy(real_nodes);
    real_nodes = NULL;
}

static void note_state(void)
{
    own_cluster = NULL;
    if (real_nodes) {
        deployment_repair(real_nodes); /* after a test that failed in its child process */
        deployment_remove_keys(real_nodes);
    }
    descriptors_before = file_open_descriptors();
}

static const char *names_left(void)
{
    if (own_cluster)
        return cluster_key_names(own_cluster, NULL, deployment_marks);
    return real_nodes ? deployment_key_names(real_nodes) : "";
}

static bool keys_gone(void *arg)
{
    (void)arg;
    if (own_cluster)
        return cluster_keys_left(own_cluster, NULL, deployment_marks) == 0;
    return !real_nodes || deployment_keys_left(real_nodes) == 0;
}

bool real_nothing_left(struct face *face)
{
    if (face)
        return face_wait(face, keys_gone, NULL, REAL_SOON_MS);
    return wait_until(keys_gone, NULL, REAL_SOON_MS);
}

/* A killed server leaves the test program with one descriptor less. */
static bool descriptors_closed(void *arg)
{
    (void)arg;
    return file_open_descriptors() <= descriptors_before;
}

static void look(void)
{
    if (real_nodes)
        deployment_repair(real_nodes);
    if (own_cluster)
        cluster_resume_all(own_cluster);
    ck_assert_msg(real_nothing_left(NULL), "left on the nodes: %s", names_left());
    ck_assert_msg(wait_until(descriptors_closed, NULL, REAL_SOON_MS), "%zu descriptors were open before, %zu now",
                  descriptors_before, file_open_descriptors());
}

struct cluster *real_cluster(size_t nodes, const struct cluster_options *options)
{
    own_cluster = cluster_create(nodes, options);
    real_note_descriptors();
    return own_cluster;
}

void real_note_descriptors(void)
{
    descriptors_before = file_open_descriptors();
}

struct face *real_open(int i)
{
    return face_open_ready(face_of(i), deployment_nodes(real_nodes), NULL);
}

/* --- Cases --- */

/* Check runs the last fixture's teardown first. */
static TCase *new_case(Suite *suite, const char *name, void (*add_nodes)(TCase *, SFun, SFun))
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, TEST_TIMEOUT_S);
    tcase_add_checked_fixture(tcase, fixtures_begin, fixtures_end);
    if (add_nodes)
        add_nodes(tcase, make_nodes, destroy_nodes);
    tcase_add_checked_fixture(tcase, note_state, look);
    suite_add_tcase(suite, tcase);
    return tcase;
}

TCase *real_shared_case(Suite *suite, const char *name)
{
    return new_case(suite, name, tcase_add_unchecked_fixture);
}

TCase *real_own_case(Suite *suite, const char *name)
{
    return new_case(suite, name, tcase_add_checked_fixture);
}

TCase *real_bare_case(Suite *suite, const char *name)
{
    return new_case(suite, name, NULL);
}

static bool share_a_process(void)
{
    const char *fork = getenv("CK_FORK");
    return fork && strcmp(fork, "no") == 0;
}

void real_add_test(TCase *tcase, const TTest *test)
{
    static int tests;
    int face = (tests++ + share_a_process()) % FACES;
    tcase_add_loop_test(tcase, test, face, face + 1);
}

void real_add_long_test(TCase *tcase, const TTest *test, int count)
{
    tcase_add_loop_test(tcase, test, 0, share_a_process() ? 1 : count);
}

int real_run(Suite *suite, bool needs_control)
{
    SRunner *runner = srunner_create(suite);
    int failed = 0;
    bool runs = deployment_available();
    if (runs && needs_control && !deployment_has_control()) {
        fputs("skipped: without REDLOCK_NODE_CONTROL the nodes in REDLOCK_TEST_NODES cannot be made to fail\n", stderr);
        runs = false;
    }
    if (runs) {
        srunner_run_all(runner, CK_ENV);
        failed = srunner_ntests_failed(runner);
    }
    srunner_free(runner);
    if (!runs)
        return EXIT_SKIPPED;
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- Keys --- */

bool real_shows_everywhere(const char *key, const char *value)
{
    char reply[256];
    for (size_t i = 0; i < deployment_size(real_nodes); i++)
        if (!deployment_command(real_nodes, i, reply, sizeof reply, "GET", key, NULL) || strcmp(reply, value) != 0)
            return false;
    return true;
}

struct expected {
    const char *key;
    const char *value;
};

static bool shows(void *arg)
{
    const struct expected *expected = arg;
    return real_shows_everywhere(expected->key, expected->value);
}

bool real_soon_everywhere(const char *key, const char *value)
{
    struct expected expected = {key, value};
    return wait_until(shows, &expected, REAL_SOON_MS);
}

bool real_foreign_set(size_t node, const char *key, const char *value)
{
    char reply[256];
    deployment_command(real_nodes, node, reply, sizeof reply, "SET", key, value, "NX", "PX", "60000", NULL);
    return strcmp(reply, "OK") == 0;
}

void real_delete(size_t node, const char *key)
{
    deployment_integer(real_nodes, node, "DEL", key, NULL);
}
