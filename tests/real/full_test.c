/* Nodes at their memory limit: held locks are renewed and released, and no new lock is granted. */
#include "real/clients.h"

enum { NODES = 3, TTL_MS = 6000, NODE_TIMEOUT_MS = 2000 };

static const char key[] = real_key("full");

static void set_limit(const char *maxmemory)
{
    real_command(NODES, "CONFIG", "SET", "maxmemory", maxmemory, NULL);
}

static struct face *open_another(int i, uint32_t guard)
{
    redlock_options options = held_options(TTL_MS, guard);
    options.renewal_percent = 10;
    options.node_timeout_ms = NODE_TIMEOUT_MS; /* a renewal that fails is an error here */
    options.silence_limit_ms = 2 * NODE_TIMEOUT_MS;
    if (guard)
        options.max_ttl_ms = 10 * TTL_MS;
    return held_open_trusted(i, NULL, &options);
}

static struct face *open_face(int i, uint32_t guard)
{
    real_cluster(NODES, NULL);
    return open_another(i, guard);
}

/* The kinds of locks, each with a different script. */
static const redlock_name also = {real_key("full-too"), 0}, also_fenced = {real_key("full-three"), 0},
                          also_read = {real_key("full-four"), 0};
static const struct {
    const char *resource;
    redlock_acquire_options options;
} kinds[] = {
    {real_key("full"), {.fence = 0}},
    {real_key("fenced"), {.fence = 1}},
    {real_key("read"), {.shared = 1}},
    {real_key("several"), {.also = &also, .also_count = 1}},
    {real_key("several-fenced"), {.also = &also_fenced, .also_count = 1, .fence = 1}},
    {real_key("permits"), {.permits = 3, .permits_wanted = 2}},
    {real_key("several-read"), {.shared = 1, .fence = 1, .also = &also_read, .also_count = 1}},
};

REAL_CASE(full, real_bare_case, NULL);

TEST(full, locks_on_full_nodes_are_renewed_and_released)
{
    struct face *face = open_face(_i, 0);
    redlock_lock *locks[ROWS(kinds)];
    redlock_acquire_options options[ROWS(kinds)];
    for (int i = 0; i < ROWS(kinds); i++) {
        options[i] = kinds[i].options;
        options[i].struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options);
        options[i].wait_ms = REAL_SOON_MS;
        locks[i] = held_acquire(face, kinds[i].resource, &options[i]);
    }
    set_limit("1");
    held_await_more(face, HELD_COUNTER(renewed), 2 * ROWS(kinds));
    ck_assert_uint_eq(held_statistics(face).renewals_failed, 0);
    for (int i = 0; i < ROWS(kinds); i++) {
        options[i].wait_ms = 0;
        options[i].also_count = 0;
        held_refuse(face, real_key("other"), &options[i], REDLOCK_NO_QUORUM);
        ck_assert_uint_ge(result.refused, NODES / 2 + 1);
        held_release(face, &locks[i]);
        clients_await(face, "EXISTS", kinds[i].resource, 0, 0);
    }
    set_limit("0");
}

/* --- Waiting --- */

static long long live_waiters(size_t node)
{
    static const char script[] =
        "local time, count = redis.call('TIME'), 0 "
        "for _, entry in ipairs(redis.call('HVALS', KEYS[1])) do "
        "local ends = string.match(entry, '^(%d+%.%d) ') "
        "if ends and tonumber(ends) >= time[1] * 1000 + time[2] / 1000 then count = count + 1 end end return count";
    return cluster_integer(cluster, node, "EVAL", script, "1", real_key("full") ":redlock:alive", NULL);
}

/* A full node refuses new entries, and keeps those that it has alive. */
TEST(full, waiters_keep_their_places_on_full_nodes)
{
    enum { WAITERS = 2, LIFE_MS = 3000 };
    struct face *face = open_face(BLOCKING_FACE, 0);
    redlock_lock *lock = held_acquire(face, key, NULL);
    struct waiter waiters[WAITERS];
    held_everywhere(face, key, lock);
    for (int i = 0; i < WAITERS; i++) {
        waiter_start(&waiters[i], open_another(BLOCKING_FACE, 0), key, *REAL_WITH(.wait_ms = REDLOCK_FOREVER));
        clients_await_waiters(face, key, i + 1);
    }
    set_limit("1");
    face_idle(face, LIFE_MS + LIFE_MS / 3);
    for (size_t node = 0; node < NODES; node++)
        ck_assert_int_eq(live_waiters(node), WAITERS);
    set_limit("0");
    held_release(face, &lock);
    for (int i = 0; i < WAITERS; i++)
        waiter_finish_and_release(&waiters[i]);
}

/* --- The marker --- */

static unsigned full_nodes(struct face *face)
{
    unsigned full = 0;
    for (uint32_t i = 0; i < NODES; i++)
        full += (held_node_status(face, i).findings & REDLOCK_FINDING_FULL) != 0;
    return full;
}

static void assert_first_connections(struct face *face)
{
    char text[65536], line[128];
    ck_assert_int_eq(redlock_metrics(face_client(face), text, sizeof text, NULL), REDLOCK_OK);
    for (size_t i = 0; i < NODES; i++) {
        snprintf(line, sizeof line, "redlock_node_connections_total{node=\"%s\"} 1\n", cluster_address(cluster, i));
        ck_assert_msg(strstr(text, line), "not '%s' in %s", line, text);
    }
}

/* A full node with an intact marker has no finding. A full node without its marker grants nothing and reports why;
 * it keeps its connection and renews held locks. */
TEST(full, full_node_without_marker_grants_nothing_and_renews)
{
    struct face *face = open_face(_i, 1);
    redlock_lock *lock = held_acquire(face, key, NULL);
    set_limit("1");
    held_await_more(face, HELD_COUNTER(renewed), 1);
    ck_assert_uint_eq(full_nodes(face), 0);
    for (size_t i = 0; i < NODES; i++)
        ck_assert_int_eq(cluster_integer(cluster, i, "DEL", "redlock:marker", NULL), 1);
    real_until(face, full_nodes(face) == NODES);
    held_refuse(face, real_key("other"), NULL, REDLOCK_NO_QUORUM);
    held_result_says("maxmemory");
    held_await_more(face, HELD_COUNTER(renewed), 1);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    set_limit("0");
    real_until(face, full_nodes(face) == 0);
    ck_assert_int_gt(held_node_status(face, 0).quarantine_ms, 0);
    assert_first_connections(face);
    held_release(face, &lock);
}

REAL_PROGRAM("real_full")
