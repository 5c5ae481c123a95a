#define _GNU_SOURCE
#include "deployment.h"

#include "fixture.h"
#include "server_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { OWN_NODES = 5 };

struct deployment {
    struct cluster *cluster;
    const char *pattern; /* of the keys that count; NULL: all */
};

/* Keys that the library keeps on a node permanently; they do not count as keys left by a lock. */
const char *const deployment_marks[] = {"redlock:*", "{redlock}*", "*:marker", "*:redlock:fence", NULL};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

static bool is_foreign(void)
{
    return variable("REDLOCK_TEST_NODES");
}

bool deployment_available(void)
{
    bool available = is_foreign() || server_program_available();
    if (!available)
        fprintf(stderr, "skipped: %s; or set REDLOCK_TEST_NODES\n", server_program_missing());
    return available;
}

bool deployment_has_control(void)
{
    return !is_foreign() || variable("REDLOCK_NODE_CONTROL");
}

static void destroy_object(void *deployment)
{
    deployment_destroy(deployment);
}

struct deployment *deployment_create(bool is_own)
{
    const char *foreign = is_own ? NULL : variable("REDLOCK_TEST_NODES");
    struct deployment *deployment = fixture_allocate(sizeof *deployment);
    deployment->cluster = foreign ? cluster_adopt(foreign) : cluster_create(OWN_NODES, NULL);
    deployment->pattern = foreign ? DEPLOYMENT_PREFIX "*" : NULL;
    fixture_register(deployment, destroy_object);
    return deployment;
}

void deployment_destroy(struct deployment *deployment)
{
    if (!deployment)
        return;
    fixture_unregister(deployment);
    if (deployment->pattern)
        cluster_repair(deployment->cluster);
    cluster_destroy(deployment->cluster);
    free(deployment);
}

struct cluster *deployment_cluster(struct deployment *deployment)
{
    return deployment->cluster;
}

size_t deployment_keys_left(struct deployment *deployment)
{
    return cluster_keys_left(deployment->cluster, deployment->pattern, deployment_marks);
}

const char *deployment_key_names(struct deployment *deployment)
{
    return cluster_key_names(deployment->cluster, deployment->pattern, deployment_marks);
}

void deployment_remove_keys(struct deployment *deployment)
{
    static const char script[] = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
    if (!deployment->pattern)
        cluster_flush_all(deployment->cluster);
    for (size_t i = 0; i < cluster_size(deployment->cluster) && deployment->pattern; i++)
        cluster_command(deployment->cluster, i, NULL, 0, "EVAL", script, "0", deployment->pattern, NULL);
}
