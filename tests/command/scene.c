#include "scene.h"

#include "support/clock.h"
#include "support/file.h"
#include "support/fixture.h"
#include "support/temp_dir.h"

#include <redlock/redlock.h>

#include <string.h>
#include <sys/stat.h>

struct trusting {
    redlock_client *client;
    redlock_result result;
};

static bool all_trusted(void *arg)
{
    struct trusting *trusting = arg;
    return redlock_trust(trusting->client, NULL, &trusting->result) == REDLOCK_OK &&
           trusting->result.granted == trusting->result.nodes;
}

void scene_trust(const char *nodes)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    struct trusting trusting = {0};
    options.node_timeout_ms = 1000;
    ck_assert_int_eq(redlock_connect(nodes, &options, &trusting.client, &trusting.result), REDLOCK_OK);
    ck_assert_msg(wait_until(all_trusted, &trusting, REAL_SOON_MS), "trust: %s", redlock_result_text(&trusting.result));
    redlock_close(&trusting.client, NULL, NULL);
}

void scene_cluster(size_t nodes, const struct cluster_node_options *each)
{
    real_cluster_of(nodes, each ? *each : (struct cluster_node_options){0});
    program_setting.nodes = cluster_nodes_string(cluster);
    program_setting.config = scene_file(SCENE_PATIENCE);
}

void scene_hold(const char *key)
{
    for (size_t i = 0; i < cluster_size(cluster); i++)
        ck_assert(real_foreign_set(i, key, "another"));
}

void scene_delete(const char *key)
{
    real_command(cluster_size(cluster), "DEL", key, NULL);
}

size_t scene_held_on(const char *key)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        count += cluster_integer(cluster, i, "EXISTS", key, NULL) == 1;
    return count;
}

struct renewals {
    const char *key;
    long long left_ms; /* at the last check */
    unsigned owed;
};

static bool are_seen(void *arg)
{
    struct renewals *renewals = arg;
    long long left_ms = cluster_integer(cluster, 0, "PTTL", renewals->key, NULL);
    if (left_ms > renewals->left_ms)
        renewals->owed--;
    renewals->left_ms = left_ms;
    return renewals->owed == 0;
}

void scene_await_renewals(const char *key, unsigned count)
{
    struct renewals renewals = {key, cluster_integer(cluster, 0, "PTTL", key, NULL), count};
    ck_assert_msg(wait_until(are_seen, &renewals, PROGRAM_SOON_MS), "%s: %u renewals are missing", key, renewals.owed);
}

const char *scene_file(const char *text)
{
    const char *path = program_text("%s/file", temp_dir_path(temp_dir_make()));
    file_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, 0600), 0);
    real_note_descriptors();
    return path;
}

const char *scene_json(struct program *program, const char *filter)
{
    struct program *jq = program_shell("jq -r '%s' <<'JSON'\n%s\nJSON", filter, program_output(program));
    if (program_wait(jq) != 0)
        fixture_fail("jq '%s': %s; the text: %s", filter, program_errors(jq), program_output(program));
    return program_text("%.*s", (int)strcspn(program_output(jq), "\n"), program_output(jq));
}

/* --- Cases --- */

static void prepare_bare(void)
{
    program_setting = (struct program_setting){0};
}

static void prepare(void)
{
    program_setting = (struct program_setting){.nodes = cluster_nodes_string(cluster)};
    scene_trust(program_setting.nodes);
    program_setting.config = scene_file(SCENE_PATIENCE);
}

static TCase *add_programs(TCase *tcase, SFun setup)
{
    tcase_add_checked_fixture(tcase, setup, programs_end);
    return tcase;
}

TCase *scene_no_nodes(Suite *suite, const char *name)
{
    return add_programs(real_bare_case(suite, name), prepare_bare);
}

TCase *scene_shared_nodes(Suite *suite, const char *name)
{
    return add_programs(real_shared_case(suite, name), prepare);
}

TCase *scene_own_nodes(Suite *suite, const char *name)
{
    return add_programs(real_own_case(suite, name), prepare);
}

#define CASE(name)                                                                                                     \
    {                                                                                                                  \
#name, NULL, NULL, 0, scene_##name, real_add_test, NULL                                                        \
    }
struct test_case case_no_nodes = CASE(no_nodes), case_shared_nodes = CASE(shared_nodes),
                 case_own_nodes = CASE(own_nodes);
