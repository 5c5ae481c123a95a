/* Marker keys whose content is no marker: binary, huge, of another type, of a newer version, with impossible
 * numbers. The node has no vote, the finding gives the reason, and the client leaves the key unchanged and keeps
 * reading it. */
#include "real/held.h"

#include "support/fixture.h"

enum { NODES = 3, TTL_MS = 2000 };

static struct held_scene scene;

#define SET "redis.call('SET', KEYS[1], "

static const struct {
    const char *name;
    const char *script; /* writes the content to KEYS[1] */
} contents[] = {
    {"1 MiB", SET "string.rep('x', 1048576))"},
    {"512 bytes of a marker", SET "'2 ab 0 0 0 1 1 2000 3 new ab ' .. string.rep('d ', 256))"},
    {"binary", SET "'\\0\\255\\r\\n$-1\\r\\n')"},
    {"a hash", "redis.call('HSET', KEYS[1], 'field', 'value')"},
    {"a list", "redis.call('RPUSH', KEYS[1], 'value')"},
    {"a sorted set, as readers have", "redis.call('ZADD', KEYS[1], 9999999999999, 'token')"},
    {"a newer version's", SET "'3 ab 0 0 0 1 1 2000 3 new ab default')"},
    {"a word short", SET "'2 ab 0 0 0 1 1 2000 3 new default')"},
    {"a line too long", SET "'2 ab 0 0 0 1 1 2000 3 new ab default\\n')"},
    {"max_ttl beyond all numbers", SET "'2 ab 0 0 0 1 1 ' .. string.rep('9', 30) .. ' 3 new ab default')"},
    {"number of nodes beyond all numbers", SET "'2 ab 0 0 0 1 1 2000 ' .. string.rep('9', 30) .. ' new ab default')"},
    {"since beyond all numbers", SET "'2 ab 0 0 0 ' .. string.rep('9', 30) .. ' 1 2000 4 new ab default')"},
};

/* Runs the script with the marker key. */
static char *on_marker(const char *script)
{
    char reply[256] = "";
    ck_assert(cluster_command(cluster, 0, reply, sizeof reply, "EVAL", script, "1", "redlock:marker", NULL));
    ck_assert_msg(strncmp(reply, "ERR", 3) != 0, "%s", reply);
    return fixture_text("%s", reply);
}

static char *digest(void)
{
    return on_marker("return redis.sha1hex(redis.call('DUMP', KEYS[1]) or '')");
}

static bool is_taken(struct face *face)
{
    return held_node_status(face, 0).findings & REDLOCK_FINDING_MARKER_TAKEN;
}

/* The node has no vote, and the other nodes make a majority. */
static void assert_no_vote(struct face *face)
{
    redlock_lock *lock;
    redlock_node_status status = held_node_status(face, 0);
    ck_assert_uint_eq(status.usable, 0);
    ck_assert_msg(strstr(status.objection, "marker key") != NULL, "objection: %s", status.objection);
    ck_assert_str_eq(status.marker_why, "taken");
    lock = held_acquire(face, real_key("marked"), NULL);
    ck_assert_int_ne(result.node[0].outcome, REDLOCK_NODE_GRANTED);
    held_release(face, &lock);
    ck_assert_int_eq(cluster_integer(cluster, 0, "EXISTS", real_key("marked"), NULL), 0);
}

REAL_CASE(content, real_bare_case, NULL);

/* A client with an open connection finds the content, and so does a new client. redlock_trust() does not overwrite it. */
TEST_LONG_ROWS(content, content_that_is_no_marker_costs_the_vote, ROWS(contents))
{
    redlock_options options = held_options(TTL_MS, 1);
    real_cluster(NODES, NULL);
    held_begin(&scene, _i, &options);
    cluster_integer(cluster, 0, "DEL", "redlock:marker", NULL);
    free(on_marker(contents[_i].script));
    char *before = digest();
    real_until(scene.face, is_taken(scene.face));
    held_trust(scene.face);
    assert_no_vote(scene.face);
    struct face *late = held_open(_i, NULL, &options);
    ck_assert_msg(is_taken(late), "%s: not found by a new client", contents[_i].name);
    assert_no_vote(late);
    held_close(late);
    char *after = digest();
    ck_assert_str_eq(before, after);
    cluster_integer(cluster, 0, "DEL", "redlock:marker", NULL);
    real_until(scene.face, !is_taken(scene.face));
    held_close(scene.face);
    free(before);
    free(after);
}

REAL_FAULTS_PROGRAM("real_marker")
