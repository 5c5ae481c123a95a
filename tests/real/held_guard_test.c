/* Real nodes that lose data: their quarantine, its end, and the renewal and healing of held locks; and markers of other
 * deployments or other programs. attack_test.c has the attacks on exclusion. */
#include "real/held.h"

#include "support/fixture.h"

enum { MAX_TTL_MS = 2000, LONG_MAX_TTL_MS = 20000 };

static const char key[] = real_key("guarded");
static struct held_scene scene;
static redlock_options options;

static void begin(void)
{
    options = held_options(MAX_TTL_MS, 1);
}

static void read_marker(size_t node, char marker[256])
{
    ck_assert(cluster_command(cluster, node, marker, 256, "GET", "redlock:marker", NULL));
}

REAL_CASE(healing, real_bare_case, begin);
REAL_CASE(others, real_common_case, begin);

static bool has_replica(void)
{
    char reply[2048];
    return cluster_command(cluster, 0, reply, sizeof reply, "INFO", "replication", NULL) &&
           strstr(reply, "connected_slaves:1") != NULL;
}

/* A first replica gives the replication history of its master another ID, which the next proof shows: a grant may not
 * count then. But nothing is lost. */
TEST(healing, replica_that_connects_costs_no_quarantine)
{
    char port[8], reply[256];
    real_cluster(2, NULL);
    options.max_ttl_ms = LONG_MAX_TTL_MS;
    struct face *face = held_open_trusted(_i, cluster_address(cluster, 0), &options);
    snprintf(port, sizeof port, "%u", cluster_port(cluster, 0));
    ck_assert(cluster_command(cluster, 1, reply, sizeof reply, "REPLICAOF", "127.0.0.1", port, NULL));
    real_until(NULL, has_replica());
    redlock_lock *lock = held_acquire(face, key, REAL_WITH(.all_answers = 1, .wait_ms = REAL_SOON_MS));
    held_release(face, &lock);
    face_idle(face, 1500); /* at the latest the next heartbeat reads the marker again */
    ck_assert(held_all_usable(face));
}

/* --- Healing --- */

static void jump_beyond_expiry(struct cluster *nodes, size_t node)
{
    cluster_shift_clock(nodes, node, 3600 * INT64_C(1000000));
}

/* Ways to lose the keys. A renewal, which would notice it as well, is due after a third of the ttl. */
static const struct {
    const char *name;
    void (*lose)(struct cluster *nodes, size_t node);
    uint32_t guard;
    uint32_t ttl_ms;
} losses[] = {
    {"flushed", cluster_flush, 1, 300000},
    {"clock that jumps", jump_beyond_expiry, 1, 300000},
    {"restarted", cluster_restart, 1, 300000},
    {"flushed, no guard", cluster_flush, 0, 12000}, /* only the renewal notices it */
};
enum { LOCKS = 8, STRUCK = HELD_QUORUM };

struct kept {
    size_t node;
    redlock_lock *locks[LOCKS];
    char names[LOCKS][32];
};

/* Are the keys of each lock on the node, because the client has set them again? */
static bool are_back(void *arg)
{
    const struct kept *kept = arg;
    if (held_statistics(scene.face).healed < (kept->node + 1) * LOCKS)
        return false;
    for (int i = 0; i < LOCKS; i++)
        if (!held_is_on(kept->node, kept->names[i], kept->locks[i]))
            return false;
    return true;
}

/* Each node of a majority is healed before the next one loses its keys. */
TEST_LONG_ROWS(healing, nodes_that_lose_their_keys_one_after_the_other_are_healed_in_time, ROWS(losses))
{
    struct kept kept = {0};
    options = held_options(losses[_i].ttl_ms, losses[_i].guard);
    options.max_ttl_ms = losses[_i].ttl_ms;
    options.renewal_percent = losses[_i].guard ? 33 : 10;
    held_nodes_with_clocks();
    held_begin(&scene, _i, &options);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(kept.names[i], sizeof kept.names[i], real_key("kept%d"), i);
        held_take_everywhere(&scene, kept.names[i]);
        kept.locks[i] = scene.lock;
    }
    real_until(scene.face, held_clocks_known(scene.face));
    for (; kept.node < STRUCK; kept.node++) {
        losses[_i].lose(cluster, kept.node);
        ck_assert_msg(face_wait(scene.face, are_back, &kept, 3 * REAL_SOON_MS), "%s: node %zu is not healed in time",
                      losses[_i].name, kept.node);
    }
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0);
    for (int i = 0; i < LOCKS; i++) {
        held_everywhere(scene.face, kept.names[i], kept.locks[i]);
        held_release(scene.face, &kept.locks[i]);
    }
}

/* --- Clients that do not agree --- */

static bool has_finding(struct face *face, uint32_t finding)
{
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++)
        if (!(held_node_status(face, i).findings & finding))
            return false;
    return true;
}

static long long marked_max_ttl(void)
{
    char marker[256];
    long long max_ttl = 0;
    read_marker(0, marker);
    ck_assert_msg(sscanf(marker, "2 %*s %*s %*s %*s %*s %*s %lld", &max_ttl) == 1, "marker: %s", marker);
    return max_ttl;
}

static void assert_unfit(struct face *face, const char *word)
{
    for (uint32_t i = 0; i < HELD_NODES; i++) {
        redlock_node_status status = held_node_status(face, i);
        ck_assert_uint_eq(status.usable, 0);
        ck_assert_msg(strstr(status.objection, word) != NULL, "objection: %s", status.objection);
    }
    held_refuse(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), REDLOCK_MISCONFIGURED);
    held_result_says(word);
}

/* Only redlock_trust() takes the nodes over. Then a client of the first deployment finds its nodes unfit, and loses its
 * lock before another client can acquire it. */
TEST(others, another_deployment_is_refused_until_it_is_trusted)
{
    char before[256], after[256];
    options.max_ttl_ms = 2 * MAX_TTL_MS;
    held_begin(&scene, _i, &options);
    held_take(&scene, key);
    read_marker(0, before);
    options.max_ttl_ms = MAX_TTL_MS;
    options.deployment = "another";
    struct face *other = held_open(_i, NULL, &options);
    ck_assert(has_finding(other, REDLOCK_FINDING_OTHER_DEPLOYMENT));
    assert_unfit(other, "deployment");
    read_marker(0, after);
    ck_assert_str_eq(before, after);
    ck_assert_uint_eq(atomic_load(&scene.story.lost), 0);
    held_trust(other);
    ck_assert_int_eq(marked_max_ttl(), MAX_TTL_MS); /* the old deployment's value no longer counts */
    real_until(scene.face, has_finding(scene.face, REDLOCK_FINDING_OTHER_DEPLOYMENT));
    redlock_lock *lock = held_acquire(other, key, REDLOCK_WAIT_MS(REAL_SOON_MS));
    ck_assert_int_eq(redlock_validity_ms(scene.lock), 0);
    held_release(other, &lock);
    held_close(other);
    face_release(scene.face, &scene.lock, &result);
    face_close(&scene.face, &result);
}

/* --- Markers that are none --- */

/* What another program has written to the marker's key. quorum_marker has texts that are nearly a marker. */
static const char *const contents[] = {
    "redis.call('SET', KEYS[1], string.rep('x', 1048576))",
    "redis.call('SET', KEYS[1], '\\0\\255\\r\\n$-1\\r\\n')",
    "redis.call('HSET', KEYS[1], 'field', 'value')",
    "redis.call('ZADD', KEYS[1], 9999999999999, 'token')",
};

static void digest(char text[64])
{
    ck_assert(cluster_command(cluster, 0, text, 64, "EVAL", "return redis.sha1hex(redis.call('DUMP', KEYS[1]))", "1",
                              "redlock:marker", NULL));
}

static bool is_taken(struct face *face)
{
    return held_node_status(face, 0).findings & REDLOCK_FINDING_MARKER_TAKEN;
}

/* A client with an open connection finds the content, and so does a new client. redlock_trust() does not overwrite it. */
TEST_LONG_ROWS(others, content_that_is_no_marker_costs_the_vote_and_stays, ROWS(contents))
{
    char before[64], after[64];
    struct face *face = held_open_trusted(_i, NULL, &options);
    cluster_integer(cluster, 0, "DEL", "redlock:marker", NULL);
    cluster_command(cluster, 0, NULL, 0, "EVAL", contents[_i], "1", "redlock:marker", NULL);
    digest(before);
    real_until(face, is_taken(face));
    held_trust(face);
    struct face *const faces[] = {face, held_open(_i, NULL, &options)};
    for (int k = 0; k < 2; k++) {
        redlock_lock *lock = held_acquire(faces[k], key, NULL);
        redlock_node_status status = held_node_status(faces[k], 0);
        ck_assert(is_taken(faces[k]) && !status.usable && strstr(status.objection, "marker key"));
        ck_assert_str_eq(status.marker_why, "taken");
        ck_assert_int_ne(result.node[0].outcome, REDLOCK_NODE_GRANTED);
        held_release(faces[k], &lock);
    }
    digest(after);
    ck_assert_str_eq(before, after);
    cluster_integer(cluster, 0, "DEL", "redlock:marker", NULL);
    real_until(face, !is_taken(face));
}

REAL_PROGRAM("held_guard")
