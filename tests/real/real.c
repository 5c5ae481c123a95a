#include "real/held.h"

#include "support/file.h"
#include "support/fixture.h"

#include <poll.h>

enum { EXIT_SKIPPED = 77, TEST_TIMEOUT_S = 120, NODES_MOST = 8, OWN_NODES = 5 };

struct cluster *cluster;
redlock_result result;

static struct cluster *common; /* of a case */
static size_t descriptors_before;

/* --- Before and after a test --- */

static bool takes_nodes(void)
{
    const char *nodes = getenv("REDLOCK_TEST_NODES");
    return nodes && *nodes;
}

bool real_can_fail_nodes(void)
{
    return !takes_nodes() || getenv("REDLOCK_NODE_CONTROL");
}

static void make_own_nodes(void)
{
    common = cluster_create(OWN_NODES, NULL);
}

static void make_nodes(void)
{
    if (takes_nodes())
        common = cluster_adopt(getenv("REDLOCK_TEST_NODES"));
    else
        make_own_nodes();
}

static void destroy_nodes(void)
{
    if (takes_nodes())
        cluster_repair(common);
    cluster_destroy(common);
    common = NULL;
}

static void note_state(void)
{
    cluster = common;
    if (cluster) {
        cluster_repair(cluster); /* after a test that failed in its child process */
        cluster_remove_keys(cluster);
    }
    descriptors_before = file_open_descriptors();
}

void real_turn(struct face *face)
{
    if (face)
        face_idle(face, 1);
    else
        poll(NULL, 0, 1);
}

bool real_nothing_left(struct face *face)
{
    uint64_t deadline = test_deadline_ns(REAL_SOON_MS);
    while (cluster && cluster_keys_left(cluster, cluster_marks) > 0) {
        if (test_ms_left(deadline) == 0)
            return false;
        real_turn(face);
    }
    return true;
}

/* A killed server leaves the test program with one descriptor less. */
static bool descriptors_closed(void *arg)
{
    (void)arg;
    return file_open_descriptors() <= descriptors_before;
}

static void look(void)
{
    if (common)
        cluster_repair(cluster);
    else if (cluster)
        cluster_resume_all(cluster);
    held_close_all();
    ck_assert_msg(real_nothing_left(NULL), "left on the nodes: %s", cluster_key_names(cluster, cluster_marks));
    ck_assert_msg(wait_until(descriptors_closed, NULL, REAL_SOON_MS), "%zu descriptors were open before, %zu now",
                  descriptors_before, file_open_descriptors());
}

struct cluster *real_cluster(size_t nodes, const struct cluster_options *options)
{
    cluster = cluster_create(nodes, options);
    real_note_descriptors();
    return cluster;
}

void real_cluster_of(size_t nodes, struct cluster_node_options each)
{
    struct cluster_node_options alike[NODES_MOST];
    ck_assert_uint_le(nodes, NODES_MOST);
    for (size_t i = 0; i < nodes; i++)
        alike[i] = each;
    real_cluster(nodes, &(struct cluster_options){.nodes = alike});
}

void real_note_descriptors(void)
{
    descriptors_before = file_open_descriptors();
}

struct face *real_open(int i)
{
    return face_open_ready(face_of(i), cluster_nodes_string(cluster), NULL);
}

/* --- Cases --- */

/* Check runs the last fixture's teardown first. */
static TCase *new_case(Suite *suite, const char *name, void (*add_nodes)(TCase *, SFun, SFun), SFun make)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, TEST_TIMEOUT_S);
    tcase_add_checked_fixture(tcase, fixtures_begin, fixtures_end);
    if (add_nodes)
        add_nodes(tcase, make, destroy_nodes);
    tcase_add_checked_fixture(tcase, note_state, look);
    suite_add_tcase(suite, tcase);
    return tcase;
}

TCase *real_shared_case(Suite *suite, const char *name)
{
    return new_case(suite, name, tcase_add_unchecked_fixture, make_nodes);
}

TCase *real_common_case(Suite *suite, const char *name)
{
    return new_case(suite, name, tcase_add_unchecked_fixture, make_own_nodes);
}

TCase *real_own_case(Suite *suite, const char *name)
{
    return new_case(suite, name, tcase_add_checked_fixture, make_nodes);
}

TCase *real_bare_case(Suite *suite, const char *name)
{
    return new_case(suite, name, NULL, NULL);
}

void real_add_test(TCase *tcase, const TTest *test)
{
    static int tests;
    int face = (tests++ + tests_share_a_process()) % FACES;
    tcase_add_loop_test(tcase, test, face, face + 1);
}

int real_run(Suite *suite, bool needs_control)
{
    SRunner *runner = srunner_create(suite);
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a run that takes hours shows how far it is */
    bool runs = takes_nodes() || server_program_available();
    if (!runs)
        fprintf(stderr, "skipped: %s; or set REDLOCK_TEST_NODES\n", server_program_missing());
    if (runs && needs_control && !real_can_fail_nodes()) {
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

unsigned real_setting(const char *variable, unsigned usual)
{
    const char *text = getenv(variable);
    return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

/* --- Keys --- */

bool real_shows_everywhere(const char *key, const char *value)
{
    char reply[256];
    for (size_t i = 0; i < cluster_size(cluster); i++)
        if (!cluster_command(cluster, i, reply, sizeof reply, "GET", key, NULL) || strcmp(reply, value) != 0)
            return false;
    return true;
}

bool real_foreign_set(size_t node, const char *key, const char *value)
{
    char reply[256];
    cluster_command(cluster, node, reply, sizeof reply, "SET", key, value, "NX", "PX", "60000", NULL);
    return strcmp(reply, "OK") == 0;
}

void real_command(size_t nodes, ...)
{
    for (size_t i = 0; i < nodes; i++) {
        va_list words;
        va_start(words, nodes);
        ck_assert(cluster_vcommand(cluster, i, NULL, 0, words));
        va_end(words);
    }
}

bool real_all_reply(void *number)
{
    const struct real_number *expected = number;
    const char *const *words = expected->words;
    for (size_t i = 0; i < cluster_size(cluster); i++) {
        long long reply = cluster_integer(cluster, i, words[0], words[1], words[2], words[3], words[4], NULL);
        if (reply < expected->least || reply > expected->most)
            return false;
    }
    return true;
}

long long real_calls(size_t node, const char *command)
{
    char reply[16384], field[64];
    ck_assert(cluster_command(cluster, node, reply, sizeof reply, "INFO", "commandstats", NULL));
    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *at = strstr(reply, field);
    return at ? strtoll(at + strlen(field), NULL, 10) : 0;
}
