/* Real nodes that lose data: their quarantine, its end, and the healing of held locks. attack_test.c has the attacks on
 * exclusion. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/clock.h"
#include "support/fixture.h"
#include "support/server_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The deployment's longest ttl, and the quarantine of a node that lost data: this ttl, its drift, and a second. */
enum { MAX_TTL_MS = 2000, QUARANTINE_MS = 3022, LONG_MAX_TTL_MS = 20000 };

static const char key[] = real_key("guarded");
static redlock_result result;

/* --- Ttls of 2 s and of 20 s --- */

struct attack {
    struct cluster *cluster;
    struct face *holder;
    struct face *attacker;
    redlock_lock *held;
};

static void foreign_set(struct cluster *cluster, size_t node)
{
    char reply[64];

    ck_assert(cluster_command(cluster, node, reply, sizeof(reply), "SET", key, "theirs", "PX", "60000", NULL));
}

/* Acquires the lock on the first three of five nodes, without renewal. The other two do not have the key. */
static void hold_on_three(struct attack *attack)
{
    redlock_acquire_options acquire = REDLOCK_ACQUIRE_OPTIONS_INIT;

    foreign_set(attack->cluster, 3);
    foreign_set(attack->cluster, 4);
    acquire.no_renewal = 1;
    attack->held = held_acquire(attack->holder, key, &acquire);
    for (size_t node = 0; node < HELD_QUORUM; node++)
        ck_assert(held_is_on(attack->cluster, node, key, attack->held));
    cluster_integer(attack->cluster, 3, "DEL", key, NULL);
    cluster_integer(attack->cluster, 4, "DEL", key, NULL);
}

struct heard {
    struct face *face;
    uint32_t node;
    char run_id[48];
};

static bool is_another(void *arg)
{
    struct heard *heard = arg;
    redlock_node_status status = held_node_status(heard->face, heard->node);

    return strcmp(status.state, "ready") == 0 && strcmp(status.run_id, heard->run_id) != 0;
}

static struct heard hear(struct face *face, uint32_t node)
{
    struct heard heard = {.face = face, .node = node};

    snprintf(heard.run_id, sizeof(heard.run_id), "%s", held_node_status(face, node).run_id);
    return heard;
}

/* The holder's lock lives for 20 s. A client whose own locks live for 2 s must not trust the node that lost data sooner
 * for that. */
static void mixed_attack(int i, uint32_t guard)
{
    enum { HOLDERS_TTL_MS = 20000, ATTACKERS_TTL_MS = 2000, SOONER_MS = 3022 };
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    struct attack attack = {.cluster = cluster};
    redlock_options options = held_options(HOLDERS_TTL_MS, guard);
    redlock_lock *stolen = NULL;

    options.max_ttl_ms = HOLDERS_TTL_MS;
    attack.holder = held_open_trusted(face_of(i), cluster_nodes_string(cluster), &options);
    options.ttl_ms = ATTACKERS_TTL_MS;
    attack.attacker = held_open_trusted(face_of(i + 1), cluster_nodes_string(cluster), &options);
    hold_on_three(&attack);
    struct heard heard = hear(attack.attacker, 2);
    cluster_restart(cluster, 2);
    ck_assert(face_wait(attack.attacker, is_another, &heard, REAL_SOON_MS));
    int status = face_acquire(attack.attacker, key, REDLOCK_WAIT_MS(2 * SOONER_MS), &stolen, &result);
    real_status(status, guard ? REDLOCK_TIMED_OUT : REDLOCK_OK, &result);
    ck_assert_int_gt(redlock_validity_ms(attack.held), 0);
    if (guard)
        ck_assert_int_gt(held_node_status(attack.attacker, 2).quarantine_ms, SOONER_MS);
    else
        held_release(attack.attacker, &stolen);
    face_release(attack.holder, &attack.held, &result);
    face_close(&attack.holder, &result);
    face_close(&attack.attacker, &result);
}

START_TEST(a_short_ttl_beside_a_long_one_lets_a_second_holder_in_without_the_guard)
{
    mixed_attack(_i, 0);
}
END_TEST

START_TEST(a_short_ttl_beside_a_long_one_lets_nobody_in)
{
    mixed_attack(_i, 1);
}
END_TEST

/* --- Quarantine, trust, rolling restarts --- */

static bool is_usable_everywhere(void *arg)
{
    struct face *face = arg;

    for (uint32_t i = 0; i < HELD_NODES; i++)
        if (!held_node_status(face, i).usable)
            return false;
    return true;
}

/* Measured by the node's own clock. */
static bool quarantine_is_over(struct cluster *cluster, size_t node)
{
    char marker[256], time[64];
    long long since_ms, seconds, microseconds;

    ck_assert(cluster_command(cluster, node, time, sizeof(time), "TIME", NULL));
    ck_assert_int_eq(sscanf(time, "%lld %lld", &seconds, &microseconds), 2);
    ck_assert(cluster_command(cluster, node, marker, sizeof(marker), "GET", "redlock:marker", NULL));
    ck_assert_msg(sscanf(marker, "2 %*s %*s %*s %*s %lld", &since_ms) == 1, "marker: %s", marker);
    return seconds * 1000 + microseconds / 1000 - since_ms >= QUARANTINE_MS;
}

START_TEST(a_new_deployment_is_in_quarantine_and_says_so)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct face *face = held_open(face_of(_i), cluster_nodes_string(cluster), &options);
    redlock_lock *lock;

    for (uint32_t i = 0; i < HELD_NODES; i++) {
        redlock_node_status status = held_node_status(face, i);
        ck_assert_uint_eq(status.usable, 0);
        ck_assert_int_gt(status.quarantine_ms, 0);
        ck_assert_int_le(status.quarantine_ms, QUARANTINE_MS);
        ck_assert_msg(strstr(status.objection, "in quarantine for") && strstr(status.objection, "it is new"),
                      "objection: %s", status.objection);
        ck_assert_str_eq(status.role, "master");
        ck_assert_str_ne(status.run_id, "");
        ck_assert_str_ne(status.version, "");
    }
    real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_eq(result.refused, HELD_NODES);
    ck_assert_msg(strstr(redlock_result_text(&result), "in quarantine for"), "%s", redlock_result_text(&result));
    real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK, &result);
    size_t over = 0;
    for (size_t i = 0; i < HELD_NODES; i++)
        over += quarantine_is_over(cluster, i);
    ck_assert_uint_ge(over, HELD_QUORUM); /* the acquire waited for the end of the quarantine */
    held_release(face, &lock);
    ck_assert(face_wait(face, is_usable_everywhere, face, REAL_SOON_MS));
    ck_assert_int_eq(held_node_status(face, 0).quarantine_ms, 0);
    held_close(face);
}
END_TEST

/* One client calls redlock_trust(). The others see the trusted marker at their next heartbeat. */
START_TEST(trust_ends_the_quarantine_for_everybody)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);

    options.max_ttl_ms = LONG_MAX_TTL_MS; /* the quarantine lasts far longer than this test, on a busy machine too */
    struct face *face = held_open(face_of(_i), cluster_nodes_string(cluster), &options);
    struct face *other = held_open(face_of(_i + 1), cluster_nodes_string(cluster), &options);
    uint64_t before = test_now_ns();

    held_trust(face);
    redlock_lock *lock = held_acquire(face, key, NULL);
    held_release(face, &lock);
    ck_assert(face_wait(other, is_usable_everywhere, other, REAL_SOON_MS));
    ck_assert_uint_lt(test_now_ns() - before, LONG_MAX_TTL_MS * UINT64_C(1000000));
    lock = held_acquire(other, key, NULL);
    held_release(other, &lock);
    held_close(face);
    held_close(other);
}
END_TEST

static bool has_replica(void *cluster)
{
    char reply[2048];

    return cluster_command(cluster, 0, reply, sizeof(reply), "INFO", "replication", NULL) &&
           strstr(reply, "connected_slaves:1") != NULL;
}

/* A first replica gives the replication history of its master another ID, which the next proof shows: a grant may not
 * count then. But nothing is lost. */
START_TEST(replica_that_connects_costs_no_quarantine)
{
    struct cluster *cluster = real_cluster(HELD_NODES + 1, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    redlock_acquire_options how = REDLOCK_ACQUIRE_OPTIONS_INIT;
    char nodes[256] = "", port[8], reply[256];
    redlock_lock *lock;

    for (size_t i = 0; i < HELD_NODES; i++)
        snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), "%s127.0.0.1:%u", i ? "," : "",
                 cluster_port(cluster, i));
    options.max_ttl_ms = LONG_MAX_TTL_MS;
    struct face *face = held_open_trusted(face_of(_i), nodes, &options);
    snprintf(port, sizeof port, "%u", cluster_port(cluster, 0));
    ck_assert(cluster_command(cluster, HELD_NODES, reply, sizeof reply, "REPLICAOF", "127.0.0.1", port, NULL));
    ck_assert(wait_until(has_replica, cluster, REAL_SOON_MS));
    how.all_answers = 1;
    how.wait_ms = REAL_SOON_MS;
    real_status(face_acquire(face, key, &how, &lock, &result), REDLOCK_OK, &result);
    held_release(face, &lock);
    face_idle(face, 1500); /* at the latest the next heartbeat reads the marker again */
    ck_assert(is_usable_everywhere(face));
    held_close(face);
}
END_TEST

START_TEST(trust_without_the_guard_is_invalid)
{
    struct cluster *cluster = real_cluster(1, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 0);
    struct face *face = held_open(BLOCKING_FACE, cluster_nodes_string(cluster), &options);

    ck_assert_int_eq(redlock_trust(face_client(face), &result), REDLOCK_INVALID);
    ck_assert_msg(strstr(redlock_result_text(&result), "guard"), "%s", redlock_result_text(&result));
    held_close(face);
}
END_TEST

/* Makes a node lose its keys: by a flush, or by a jump of its clock beyond their expiry. The test does this to each
 * node as soon as the previous one is healed, long before a renewal is due. */
static void lose_keys_of(struct cluster *cluster, size_t node, bool jumps)
{
    if (jumps)
        cluster_shift_clock(cluster, node, 3600 * INT64_C(1000000));
    else
        cluster_flush(cluster, node);
}

struct on_node {
    struct cluster *cluster;
    size_t node;
    redlock_lock *lock;
};

static bool is_on_node(void *arg)
{
    struct on_node *on = arg;

    return held_is_on(on->cluster, on->node, key, on->lock);
}

/* After two samples of each clock: in the handshake and in a heartbeat. */
static bool clocks_are_sampled(void *face)
{
    for (uint32_t i = 0; i < HELD_NODES; i++)
        if (!held_node_status(face, i).round_trip_us)
            return false;
    return true;
}

static void heal_each_in_turn(int i, bool jumps)
{
    enum { TTL_MS = 120000 }; /* a renewal is due after about a third of it */
    struct cluster_node_options clocks[HELD_NODES] = {{0}};
    for (size_t node = 0; node < HELD_NODES; node++)
        clocks[node].own_clock = jumps;
    struct cluster *cluster = real_cluster(HELD_NODES, &(struct cluster_options){.nodes = clocks});
    redlock_options options = held_options(TTL_MS, 1);
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);

    options.max_ttl_ms = TTL_MS;
    struct face *face = held_open_trusted(face_of(i), cluster_nodes_string(cluster), &options);
    struct on_node on = {.cluster = cluster, .lock = held_acquire(face, key, &acquire)};
    held_everywhere(face, cluster, key, on.lock);
    ck_assert(face_wait(face, clocks_are_sampled, face, REAL_SOON_MS));
    for (; on.node < HELD_NODES; on.node++) {
        lose_keys_of(cluster, on.node, jumps);
        ck_assert_msg(!is_on_node(&on), "nothing was lost on node %zu", on.node);
        ck_assert_msg(face_wait(face, is_on_node, &on, REAL_SOON_MS), "node %zu is not healed in time", on.node);
    }
    ck_assert_uint_eq(atomic_load(&story.lost), 0);
    held_release(face, &on.lock);
    held_close(face);
}

START_TEST(nodes_flushed_one_after_the_other_are_healed_in_time)
{
    heal_each_in_turn(_i, false);
}
END_TEST

START_TEST(nodes_that_jump_one_after_the_other_are_healed_in_time)
{
    heal_each_in_turn(_i, true);
}
END_TEST

enum { ROLLED_LOCKS = 20 };

struct rolled {
    struct cluster *cluster;
    size_t node;
    redlock_lock *locks[ROLLED_LOCKS];
    char names[ROLLED_LOCKS][32];
};

static bool are_back(void *arg)
{
    const struct rolled *rolled = arg;

    for (int i = 0; i < ROLLED_LOCKS; i++)
        if (!held_is_on(rolled->cluster, rolled->node, rolled->names[i], rolled->locks[i]))
            return false;
    return true;
}

/* The nodes are restarted empty, one after the other. Each is healed before the next one is restarted. */
START_TEST(a_rolling_restart_loses_no_lock)
{
    enum { TTL_MS = 3 * MAX_TTL_MS };
    struct rolled rolled = {.cluster = real_cluster(HELD_NODES, NULL)};
    redlock_options options = held_options(TTL_MS, 1);
    struct held_story stories[ROLLED_LOCKS];

    options.max_ttl_ms = TTL_MS;
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(rolled.cluster), &options);
    for (int i = 0; i < ROLLED_LOCKS; i++) {
        redlock_acquire_options acquire = held_acquire_options(&stories[i]);
        snprintf(rolled.names[i], sizeof(rolled.names[i]), real_key("roll%d"), i);
        rolled.locks[i] = held_acquire(face, rolled.names[i], &acquire);
    }
    for (rolled.node = 0; rolled.node < HELD_NODES; rolled.node++) {
        cluster_restart(rolled.cluster, rolled.node);
        ck_assert_msg(face_wait(face, are_back, &rolled, REAL_SOON_MS), "not all are back on node %zu", rolled.node);
    }
    for (int i = 0; i < ROLLED_LOCKS; i++) {
        ck_assert_uint_eq(atomic_load(&stories[i].lost), 0);
        ck_assert_int_gt(redlock_validity_ms(rolled.locks[i]), 0);
        held_everywhere(face, rolled.cluster, rolled.names[i], rolled.locks[i]);
        held_release(face, &rolled.locks[i]);
    }
    held_close(face);
}
END_TEST

/* --- Clients that do not agree --- */

static bool has_finding(struct face *face, uint32_t finding)
{
    for (uint32_t i = 0; i < HELD_NODES; i++)
        if (!(held_node_status(face, i).findings & finding))
            return false;
    return true;
}

static bool finds_other_max_ttl(void *face)
{
    return has_finding(face, REDLOCK_FINDING_OTHER_MAX_TTL);
}

static long long marked_max_ttl(struct cluster *cluster, size_t node)
{
    char marker[256];
    long long max_ttl = 0;

    ck_assert(cluster_command(cluster, node, marker, sizeof(marker), "GET", "redlock:marker", NULL));
    ck_assert_msg(sscanf(marker, "2 %*s %*s %*s %*s %*s %*s %lld", &max_ttl) == 1, "marker: %s", marker);
    return max_ttl;
}

START_TEST(the_larger_max_ttl_counts)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);

    options.max_ttl_ms = 2 * MAX_TTL_MS;
    struct face *longer = held_open(face_of(_i + 1), cluster_nodes_string(cluster), &options);
    options.max_ttl_ms = MAX_TTL_MS;
    ck_assert(face_wait(face, finds_other_max_ttl, face, REAL_SOON_MS));
    struct face *late = held_open(face_of(_i), cluster_nodes_string(cluster), &options);
    ck_assert(has_finding(late, REDLOCK_FINDING_OTHER_MAX_TTL)); /* at the handshake */
    ck_assert_int_eq(marked_max_ttl(cluster, 0), 2 * MAX_TTL_MS);
    cluster_flush(cluster, 0);
    ck_assert_str_eq(redlock_finding_name(REDLOCK_FINDING_OTHER_MAX_TTL), "other-max-ttl");
    redlock_lock *lock = held_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS)); /* only a warning: their votes count */
    held_release(face, &lock);
    held_close(face);
    held_close(longer);
    held_close(late);
}
END_TEST

static void assert_unfit(struct face *face, uint32_t nodes, const char *word)
{
    redlock_lock *lock;

    for (uint32_t i = 0; i < nodes; i++) {
        redlock_node_status status = held_node_status(face, i);
        ck_assert_uint_eq(status.usable, 0);
        ck_assert_msg(strstr(status.objection, word) != NULL, "objection: %s", status.objection);
    }
    real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_MISCONFIGURED, &result);
    ck_assert_msg(strstr(redlock_result_text(&result), word) != NULL, "%s", redlock_result_text(&result));
}

START_TEST(another_deployment_is_refused)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    char before[256], after[256];

    cluster_command(cluster, 0, before, sizeof(before), "GET", "redlock:marker", NULL);
    options.deployment = "another";
    struct face *other = held_open(face_of(_i), cluster_nodes_string(cluster), &options);
    ck_assert(has_finding(other, REDLOCK_FINDING_OTHER_DEPLOYMENT));
    assert_unfit(other, HELD_NODES, "deployment");
    cluster_command(cluster, 0, after, sizeof(after), "GET", "redlock:marker", NULL);
    ck_assert_str_eq(before, after); /* the marker is not taken over */
    redlock_lock *lock = held_acquire(face, key, NULL);
    held_release(face, &lock);
    held_close(face);
    held_close(other);
}
END_TEST

START_TEST(another_number_of_nodes_is_refused)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct face *face = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    char *three =
        fixture_text("%s,%s,%s", cluster_address(cluster, 0), cluster_address(cluster, 1), cluster_address(cluster, 2));
    struct face *other = held_open(face_of(_i), three, &options);

    ck_assert_uint_eq(held_node_status(other, 0).findings & REDLOCK_FINDING_OTHER_DEPLOYMENT,
                      REDLOCK_FINDING_OTHER_DEPLOYMENT);
    assert_unfit(other, 3, "number of nodes");
    held_close(face);
    held_close(other);
    free(three);
}
END_TEST

/* --- Taking nodes over --- */

static const char *first_of(struct cluster *cluster, size_t nodes)
{
    static char list[1024];

    list[0] = '\0';
    for (size_t i = 0; i < nodes; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i > 0 ? "," : "",
                 cluster_address(cluster, i));
    return list;
}

/* Uses the nodes and closes the client, as a deployment whose clients have been stopped: the lock is released, the
 * markers stay. */
static void use_and_stop(int i, const char *nodes, const redlock_options *options)
{
    struct face *face = held_open_trusted(face_of(i), nodes, options);
    redlock_lock *lock = held_acquire(face, key, NULL);

    held_release(face, &lock);
    held_close(face);
}

static void assert_taken_over(struct face *face)
{
    held_trust(face);
    ck_assert(face_wait_all_ready(face)); /* without a quarantine */
    for (uint32_t i = 0; i < redlock_nodes(face_client(face)); i++)
        ck_assert_uint_eq(held_node_status(face, i).findings, 0);
    redlock_lock *lock = held_acquire(face, key, NULL);
    held_release(face, &lock);
}

/* The number of nodes changes while all clients are stopped. redlock_trust() takes the nodes over, so the operator does
 * not have to delete a marker. */
START_TEST(trust_takes_the_nodes_over_when_their_number_changes)
{
    static const size_t numbers[][2] = {{3, 5}, {5, 3}};
    const size_t *number = numbers[_i];
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);

    options.max_ttl_ms = 2 * LONG_MAX_TTL_MS; /* the old deployment's value no longer counts */
    use_and_stop(_i, first_of(cluster, number[0]), &options);
    options.max_ttl_ms = LONG_MAX_TTL_MS;
    struct face *face = held_open(face_of(_i), first_of(cluster, number[1]), &options);
    assert_unfit(face, 3, "number of nodes");
    uint64_t before = test_now_ns();
    assert_taken_over(face);
    ck_assert_uint_lt(test_now_ns() - before, LONG_MAX_TTL_MS * UINT64_C(1000000));
    ck_assert_int_eq(marked_max_ttl(cluster, 0), LONG_MAX_TTL_MS);
    held_close(face);
}
END_TEST

static bool finds_other_deployment(void *face)
{
    return has_finding(face, REDLOCK_FINDING_OTHER_DEPLOYMENT);
}

/* A client that was not stopped finds its nodes unfit. It loses its lock before another client can acquire it. */
START_TEST(who_was_left_behind_is_unfit)
{
    struct cluster *cluster = real_cluster(HELD_NODES, NULL);
    redlock_options options = held_options(MAX_TTL_MS, 1);
    struct held_story story;
    redlock_acquire_options acquire = held_acquire_options(&story);
    struct face *forgotten = held_open_trusted(face_of(_i), cluster_nodes_string(cluster), &options);
    redlock_lock *lock = held_acquire(forgotten, key, &acquire), *mine;

    options.deployment = "another";
    struct face *face = held_open(face_of(_i), cluster_nodes_string(cluster), &options);
    held_trust(face);
    ck_assert(face_wait(forgotten, finds_other_deployment, forgotten, REAL_SOON_MS));
    real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &mine, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    held_release(face, &mine);
    face_release(forgotten, &lock, &result);
    held_close(face);
    face_close(&forgotten, &result);
}
END_TEST

/* --- Without permission --- */

#define LOCKER "user default on nopass ~* &* +@all "

START_TEST(a_node_that_does_not_let_itself_be_asked_has_no_vote)
{
    static const char *const withheld[] = {"-info\n", "-time\n", "resetkeys ~test:*\n"};
    struct cluster_node_options nodes[HELD_NODES] = {{0}};
    char *acl = fixture_text("%s%s", LOCKER, withheld[_i]);
    redlock_options options = held_options(MAX_TTL_MS, 1);

    for (size_t i = 0; i < HELD_QUORUM; i++)
        nodes[i].acl = acl;
    struct cluster *cluster = real_cluster(HELD_NODES, &(struct cluster_options){.nodes = nodes});
    struct face *face = held_open(ASYNCHRONOUS_FACE, cluster_nodes_string(cluster), &options);
    for (uint32_t i = 0; i < HELD_NODES; i++)
        ck_assert_int_eq(!!(held_node_status(face, i).findings & REDLOCK_FINDING_NOT_PERMITTED), i < HELD_QUORUM);
    assert_unfit(face, HELD_QUORUM, "lacks a permission");
    held_close(face);
    free(acl);
}
END_TEST

static Suite *guard_suite(void)
{
    Suite *suite = suite_create("held_guard");
    TCase *attack = real_bare_case(suite, "attack");
    TCase *quarantine = real_bare_case(suite, "quarantine");
    TCase *healing = real_bare_case(suite, "healing");
    TCase *others = real_bare_case(suite, "others");

    real_add_test(attack, a_short_ttl_beside_a_long_one_lets_a_second_holder_in_without_the_guard);
    real_add_test(attack, a_short_ttl_beside_a_long_one_lets_nobody_in);
    real_add_test(quarantine, a_new_deployment_is_in_quarantine_and_says_so);
    real_add_test(quarantine, trust_ends_the_quarantine_for_everybody);
    real_add_test(quarantine, replica_that_connects_costs_no_quarantine);
    tcase_add_test(quarantine, trust_without_the_guard_is_invalid);
    real_add_test(quarantine, a_rolling_restart_loses_no_lock);
    real_add_test(healing, nodes_flushed_one_after_the_other_are_healed_in_time);
    real_add_test(healing, nodes_that_jump_one_after_the_other_are_healed_in_time);
    real_add_test(others, the_larger_max_ttl_counts);
    real_add_test(others, another_deployment_is_refused);
    real_add_test(others, another_number_of_nodes_is_refused);
    real_add_long_test(others, trust_takes_the_nodes_over_when_their_number_changes, 2);
    real_add_test(others, who_was_left_behind_is_unfit);
    if (server_program_has(SERVER_CHANNEL_ACL))
        real_add_long_test(others, a_node_that_does_not_let_itself_be_asked_has_no_vote, 3);
    return suite;
}

int main(void)
{
    return real_run(guard_suite(), true);
}
