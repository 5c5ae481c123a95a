#define _GNU_SOURCE
#include "scene.h"

#include "support/clock.h"

#include <redlock/redlock.h>

struct program_options scene_on_nodes;

struct trusting {
    redlock_client *client;
    redlock_result result;
};

static bool all_trusted(void *arg)
{
    struct trusting *trusting = arg;

    return redlock_trust(trusting->client, &trusting->result) == REDLOCK_OK &&
           trusting->result.granted == trusting->result.nodes;
}

void scene_trust(const char *nodes)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    struct trusting trusting = {0};

    options.node_timeout_ms = 1000;
    ck_assert_int_eq(redlock_connect(nodes, &options, &trusting.client, &trusting.result), REDLOCK_OK);
    ck_assert_msg(wait_until(all_trusted, &trusting, REAL_SOON_MS), "trust: %s", redlock_result_text(&trusting.result));
    redlock_close(&trusting.client, NULL);
}

static void prepare(void)
{
    scene_on_nodes = (struct program_options){.nodes = deployment_nodes(real_nodes)};
    scene_trust(deployment_nodes(real_nodes));
    real_note_descriptors();
}

TCase *scene_shared_case(Suite *suite, const char *name)
{
    TCase *tcase = real_shared_case(suite, name);

    tcase_add_checked_fixture(tcase, prepare, programs_end);
    return tcase;
}

TCase *scene_own_case(Suite *suite, const char *name)
{
    TCase *tcase = real_own_case(suite, name);

    tcase_add_checked_fixture(tcase, prepare, programs_end);
    return tcase;
}

TCase *scene_bare_case(Suite *suite, const char *name)
{
    TCase *tcase = real_bare_case(suite, name);

    tcase_add_checked_fixture(tcase, NULL, programs_end);
    return tcase;
}
