/* Real servers killed, stopped, resumed and restarted, with each way to call: every operation ends in time with the right
 * error text, the failure of a minority has no effect, and no key is left on a node that comes back. */
#define _GNU_SOURCE
#include "real/held.h"

#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5, QUORUM = 3, MINORITY = NODES - QUORUM, NODE_TIMEOUT_MS = 200 };

static redlock_result result;
static const char key[] = real_key("fault");

/* A number of nodes for each API, from 1 to at most `most`: each number comes up. */
static size_t nodes_of(int i, size_t most)
{
    return (size_t)i % most + 1;
}

static void acquire(struct face *face, redlock_lock **lock)
{
    real_status(face_acquire(face, key, NULL, lock, &result), REDLOCK_OK, &result);
    ck_assert_uint_eq(result.attempts, 1);
}

static void acquire_everywhere(struct face *face, redlock_lock **lock)
{
    acquire(face, lock);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(*lock)));
}

static void break_nodes(void (*break_node)(struct deployment *nodes, size_t node), size_t count)
{
    for (size_t i = 0; i < count; i++)
        break_node(real_nodes, i);
}

struct outage {
    struct face *face;
    size_t nodes;
};

static bool is_noticed(void *arg)
{
    const struct outage *outage = arg;
    face_ready(outage->face, 0, &result);
    return result.unreachable >= outage->nodes;
}

static void await_notice(struct face *face, size_t nodes)
{
    struct outage outage = {face, nodes};
    ck_assert(face_wait(face, is_noticed, &outage, REAL_SOON_MS));
}

/* Every node votes again. */
static void repair(struct face *face)
{
    redlock_lock *lock;
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    acquire_everywhere(face, &lock);
    held_release(face, &lock);
}

static long long calls_of(size_t node, const char *command)
{
    char reply[16384], field[64];
    if (!deployment_command(real_nodes, node, reply, sizeof reply, "INFO", "commandstats", NULL))
        fixture_fail("INFO on node %zu: %s", node, reply);
    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *at = strstr(reply, field);
    return at ? strtoll(at + strlen(field), NULL, 10) : 0;
}

/* --- Killed --- */

START_TEST(a_killed_minority_does_no_harm)
{
    size_t killed = nodes_of(_i, MINORITY);
    struct face *face = real_open(_i);
    redlock_lock *lock;
    redlock_state state;
    break_nodes(deployment_kill, killed);
    acquire(face, &lock);
    ck_assert_uint_ge(result.granted, QUORUM);
    ck_assert_uint_eq(result.timed_out, 0);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.held_by_me, 1);
    ck_assert_uint_eq(state.locked_nodes, NODES - killed);
    for (size_t i = 0; i < killed; i++) {
        ck_assert_int_eq(result.node[i].outcome, REDLOCK_NODE_UNREACHABLE);
        ck_assert_str_ne(result.node[i].text, "");
        ck_assert_int_eq(state.node[i].remaining_ms, -1);
    }
    held_release(face, &lock);
    repair(face);
    held_close(face);
}
END_TEST

/* The nodes come back empty. */
START_TEST(a_killed_majority_is_no_quorum_and_takes_the_lock_with_it)
{
    size_t killed = nodes_of(_i, QUORUM) + MINORITY;
    struct face *face = real_open(_i);
    redlock_lock *held, *none;
    redlock_state state;
    acquire_everywhere(face, &held);
    break_nodes(deployment_kill, killed);
    real_status(face_extend(face, held, 0, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_int_gt(redlock_validity_ms(held), 0); /* the lock is held until its end all the same */
    real_status(face_acquire(face, real_key("other"), NULL, &none, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_ptr_null(none);
    ck_assert_uint_ge(result.unreachable, QUORUM);
    real_status(face_acquire(face, real_key("other"), REDLOCK_WAIT_MS(100), &none, &result), REDLOCK_TIMED_OUT,
                &result);
    ck_assert_int_eq(result.cause, REDLOCK_NO_QUORUM);
    real_status(face_query(face, key, &state, &result), REDLOCK_NO_QUORUM, &result);
    await_notice(face, killed);
    real_status(face_ready(face, 0, &result), REDLOCK_NO_QUORUM, &result);
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    real_status(face_extend(face, held, 0, &result), REDLOCK_LOST, &result);
    ck_assert_int_eq(redlock_validity_ms(held), 0);
    real_status(face_release(face, &held, &result), REDLOCK_LOST, &result);
    repair(face);
    held_close(face);
}
END_TEST

/* --- Stopped --- */

/* When a stopped server resumes, it executes the requests that it got: the acquire, and its undo behind it. */
START_TEST(a_stopped_minority_does_no_harm)
{
    enum { LOCKS = 50 };
    struct face *face = real_open(_i);
    redlock_lock *lock;
    long long before = calls_of(0, "set");
    break_nodes(deployment_stop, nodes_of(_i, MINORITY));
    for (int i = 0; i < LOCKS; i++) {
        acquire(face, &lock);
        ck_assert_uint_eq(result.timed_out, 0); /* the round did not wait for the stopped node's timeout */
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        real_status(face_release(face, &lock, &result), REDLOCK_OK, &result);
        ck_assert_uint_eq(result.timed_out, 0);
    }
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    ck_assert_int_gt(calls_of(0, "set"), before); /* otherwise there was nothing to undo */
    held_close(face);
}
END_TEST

static void ends_with(int actual, int expected)
{
    real_status(actual, expected, &result);
    ck_assert_uint_lt(result.elapsed_us, REAL_SOON_MS * 1000u);
}

START_TEST(with_a_stopped_majority_everything_ends)
{
    size_t stopped = nodes_of(_i, QUORUM) + MINORITY;
    redlock_options options = face_options();
    redlock_lock *held, *none;
    redlock_state state;
    long long before = calls_of(0, "set");
    char names[NODES][128];
    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.silence_limit_ms = REAL_SOON_MS / 4;
    struct face *face = face_open_ready(face_of(_i), deployment_nodes(real_nodes), &options);
    acquire_everywhere(face, &held);
    for (size_t i = 0; i < NODES; i++)
        snprintf(names[i], sizeof names[i], "%s", result.node[i].name);
    break_nodes(deployment_stop, stopped);
    ends_with(face_acquire(face, real_key("other"), NULL, &none, &result), REDLOCK_NO_QUORUM);
    ck_assert_uint_ge(result.timed_out, QUORUM);
    ends_with(face_extend(face, held, 0, &result), REDLOCK_NO_QUORUM);
    ck_assert_int_gt(redlock_validity_ms(held), 0);
    /* It waits for the silence limit, which breaks the connections. What follows sends nothing to the stopped nodes. */
    ends_with(face_release(face, &held, &result), REDLOCK_NO_QUORUM);
    ck_assert_uint_ge(result.timed_out + result.unreachable, QUORUM);
    ends_with(face_query(face, key, &state, &result), REDLOCK_NO_QUORUM);
    ends_with(face_acquire(face, real_key("other"), REDLOCK_WAIT_MS(NODE_TIMEOUT_MS), &none, &result),
              REDLOCK_TIMED_OUT);
    real_status(face_close(&face, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.pending_undos, QUORUM);
    const char *text = redlock_result_text(&result);
    for (size_t i = 0; i < stopped; i++)
        ck_assert_msg(strstr(text, names[i]), "%s is not named in: %s", names[i], text);
    deployment_repair(real_nodes);
    ck_assert(real_nothing_left(NULL));
    ck_assert_int_gt(calls_of(0, "set"), before + 1);
}
END_TEST

/* --- Restarted --- */

/* The restarted server has another run_id, but its old keys. The undo belongs to the node, not to the process. */
START_TEST(what_a_node_kept_on_disk_is_undone_when_it_is_back)
{
    const struct cluster_node_options persistent[3] = {{.persistent = true}, {0}, {0}};
    struct cluster *cluster = real_cluster(3, &(struct cluster_options){.nodes = persistent});
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(cluster), NULL);
    redlock_lock *lock;
    acquire(face, &lock);
    held_everywhere(face, cluster, key, lock);
    cluster_kill(cluster, 0);
    held_release(face, &lock);
    await_notice(face, 1);
    cluster_start(cluster, 0);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    held_close(face);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_faults");
    TCase *killed = real_own_case(suite, "killed");
    TCase *stopped = real_shared_case(suite, "stopped");
    TCase *disk = real_bare_case(suite, "disk");
    tcase_add_loop_test(killed, a_killed_minority_does_no_harm, 0, FACES);
    tcase_add_loop_test(killed, a_killed_majority_is_no_quorum_and_takes_the_lock_with_it, 0, FACES);
    tcase_add_loop_test(stopped, a_stopped_minority_does_no_harm, 0, FACES);
    tcase_add_loop_test(stopped, with_a_stopped_majority_everything_ends, 0, FACES);
    if (!deployment_is_foreign())
        tcase_add_loop_test(disk, what_a_node_kept_on_disk_is_undone_when_it_is_back, 0, FACES);
    return real_run(suite, true);
}
