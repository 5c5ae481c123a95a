/* Real servers killed, stopped, resumed and restarted, with each way to call: every operation ends in time with the right
 * error text, the failure of a minority has no effect, and no key is left on a node that comes back. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
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

static struct face *open_face(int i)
{
    return face_open_ready(face_of(i), deployment_nodes(real_nodes), NULL);
}

/* Opens a client with short timeouts for nodes that hang. */
static struct face *open_impatient(int i)
{
    redlock_options options = face_options();

    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.silence_limit_ms = REAL_SOON_MS / 4;
    return face_open_ready(face_of(i), deployment_nodes(real_nodes), &options);
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

static void release(struct face *face, redlock_lock **lock)
{
    real_status(face_release(face, lock, &result), REDLOCK_OK, &result);
}

static void close_face(struct face *face)
{
    real_status(face_close(&face, &result), REDLOCK_OK, &result);
}

static void kill_nodes(size_t count)
{
    for (size_t i = 0; i < count; i++)
        deployment_kill(real_nodes, i);
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

/* Kills nodes, waits until the client has noticed, restarts them, and waits until the client uses them again. */
static void restart_nodes(struct face *face, size_t count)
{
    struct outage outage = {face, count};

    kill_nodes(count);
    ck_assert(face_wait(face, is_noticed, &outage, REAL_SOON_MS));
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
}

static void stop_nodes(size_t count)
{
    for (size_t i = 0; i < count; i++)
        deployment_stop(real_nodes, i);
}

static long long calls_of(size_t node, const char *command)
{
    char reply[16384], field[64];

    if (!deployment_command(real_nodes, node, reply, sizeof(reply), "INFO", "commandstats", NULL))
        fixture_fail("INFO on node %zu: %s", node, reply);
    snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(reply, field);
    return at == NULL ? 0 : strtoll(at + strlen(field), NULL, 10);
}

/* --- Killed --- */

START_TEST(a_killed_minority_does_no_harm)
{
    size_t killed = nodes_of(_i, MINORITY);
    struct face *face = open_face(_i);
    redlock_lock *lock;
    redlock_state state;

    kill_nodes(killed);
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
    release(face, &lock);
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    acquire_everywhere(face, &lock);
    release(face, &lock);
    close_face(face);
}
END_TEST

START_TEST(a_killed_majority_is_no_quorum)
{
    size_t killed = nodes_of(_i, QUORUM) + MINORITY;
    struct face *face = open_face(_i);
    redlock_lock *held, *none;
    redlock_state state;

    acquire_everywhere(face, &held);
    kill_nodes(killed);
    real_status(face_extend(face, held, 0, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_int_gt(redlock_validity_ms(held), 0); /* the lock is held until its end all the same */
    real_status(face_acquire(face, real_key("other"), NULL, &none, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_ptr_null(none);
    ck_assert_uint_ge(result.unreachable, QUORUM);
    real_status(face_acquire(face, real_key("other"), REDLOCK_WAIT_MS(100), &none, &result), REDLOCK_TIMED_OUT,
                &result);
    ck_assert_int_eq(result.cause, REDLOCK_NO_QUORUM);
    real_status(face_query(face, key, &state, &result), REDLOCK_NO_QUORUM, &result);
    struct outage outage = {face, killed};
    ck_assert(face_wait(face, is_noticed, &outage, REAL_SOON_MS));
    real_status(face_ready(face, 0, &result), REDLOCK_NO_QUORUM, &result);
    real_status(face_release(face, &held, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert(real_nothing_left(face)); /* on the nodes that are still running */
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    acquire_everywhere(face, &held);
    release(face, &held);
    close_face(face);
}
END_TEST

struct waiter {
    enum face_kind kind;
    atomic_bool begun;
    int status;
    redlock_result result;
};

static void *wait_for_lock(void *arg)
{
    struct waiter *waiter = arg;
    struct face *face = face_open_ready(waiter->kind, deployment_nodes(real_nodes), NULL);
    redlock_lock *lock;

    atomic_store(&waiter->begun, true);
    waiter->status = face_acquire(face, key, REDLOCK_WAIT_MS(REDLOCK_FOREVER), &lock, &waiter->result);
    if (lock != NULL)
        face_release(face, &lock, &waiter->result);
    face_close(&face, NULL);
    return NULL;
}

static bool has_begun(void *waiter)
{
    return atomic_load(&((struct waiter *)waiter)->begun);
}

/* The nodes are killed about when the waiter starts: before its first round, during a round, or between two rounds. */
START_TEST(waiting_outlives_the_loss_of_all_nodes)
{
    struct waiter waiter = {.kind = face_of(_i)};
    pthread_t thread;
    struct face *holder = open_face(_i);
    redlock_lock *lock;

    acquire_everywhere(holder, &lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_lock, &waiter), 0);
    ck_assert(wait_until(has_begun, &waiter, REAL_SOON_MS));
    kill_nodes(NODES);
    face_idle(holder, 50);
    struct outage outage = {holder, NODES};
    ck_assert(face_wait(holder, is_noticed, &outage, REAL_SOON_MS));
    deployment_repair(real_nodes); /* the nodes come back empty, without the lock */
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    real_status(waiter.status, REDLOCK_OK, &waiter.result);
    ck_assert(face_wait_all_ready(holder));
    real_status(face_release(holder, &lock, &result), REDLOCK_LOST, &result);
    close_face(holder);
}
END_TEST

/* --- Stopped --- */

/* When a stopped server resumes, it executes the requests that it got: the acquire, and its undo behind it. */
START_TEST(a_stopped_minority_does_no_harm)
{
    enum { LOCKS = 50 };
    size_t stopped = nodes_of(_i, MINORITY);
    struct face *face = open_face(_i);
    redlock_lock *lock;
    long long before = calls_of(0, "set");

    stop_nodes(stopped);
    for (int i = 0; i < LOCKS; i++) {
        acquire(face, &lock);
        ck_assert_uint_eq(result.timed_out, 0); /* the round did not wait for the stopped node's timeout */
        real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
        release(face, &lock);
        ck_assert_uint_eq(result.timed_out, 0);
    }
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    ck_assert_int_gt(calls_of(0, "set"), before); /* otherwise there was nothing to undo */
    close_face(face);
}
END_TEST

static void assert_bounded(void)
{
    ck_assert_uint_lt(result.elapsed_us, REAL_SOON_MS * 1000u);
}

START_TEST(with_a_stopped_majority_everything_ends)
{
    size_t stopped = nodes_of(_i, QUORUM) + MINORITY;
    struct face *face = open_impatient(_i);
    redlock_lock *held, *none;
    redlock_state state;
    long long before = calls_of(0, "set");
    char names[NODES][128];

    acquire_everywhere(face, &held);
    for (size_t i = 0; i < NODES; i++)
        snprintf(names[i], sizeof(names[i]), "%s", result.node[i].name);
    stop_nodes(stopped);
    real_status(face_acquire(face, real_key("other"), NULL, &none, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.timed_out, QUORUM);
    assert_bounded();
    real_status(face_extend(face, held, 0, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_int_gt(redlock_validity_ms(held), 0);
    assert_bounded();
    /* It waits for the silence limit, which breaks the connections. What follows sends nothing to the stopped nodes. */
    real_status(face_release(face, &held, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.timed_out + result.unreachable, QUORUM);
    assert_bounded();
    real_status(face_query(face, key, &state, &result), REDLOCK_NO_QUORUM, &result);
    assert_bounded();
    real_status(face_acquire(face, real_key("other"), REDLOCK_WAIT_MS(NODE_TIMEOUT_MS), &none, &result),
                REDLOCK_TIMED_OUT, &result);
    assert_bounded();
    real_status(face_close(&face, &result), REDLOCK_NO_QUORUM, &result);
    ck_assert_uint_ge(result.pending_undos, QUORUM);
    const char *text = redlock_result_text(&result);
    for (size_t i = 0; i < stopped; i++)
        ck_assert_msg(strstr(text, names[i]) != NULL, "%s is not named in: %s", names[i], text);
    deployment_repair(real_nodes);
    ck_assert(real_nothing_left(NULL));
    ck_assert_int_gt(calls_of(0, "set"), before + 1);
}
END_TEST

/* The node list, in which the first nodes get a short connect timeout. */
static char *list_with_impatience(size_t impatient)
{
    char *copy = fixture_text("%s", deployment_nodes(real_nodes)), *rest = copy, *address;
    struct bytes list = {0};

    for (size_t i = 0; (address = strsep(&rest, ",")) != NULL; i++) {
        bytes_print(&list, "%sredis://%s", i > 0 ? "," : "", address);
        if (i < impatient)
            bytes_print(&list, "?connect_timeout_ms=%d", NODE_TIMEOUT_MS);
    }
    bytes_append(&list, "", 1);
    free(copy);
    return list.data;
}

START_TEST(a_node_that_hangs_in_the_handshake_is_not_waited_for)
{
    redlock_options options = face_options();
    size_t stopped = nodes_of(_i, QUORUM);
    redlock_lock *lock;

    stop_nodes(stopped);
    char *nodes = list_with_impatience(stopped <= MINORITY ? 0 : stopped);
    struct face *face = face_open(face_of(_i), nodes, &options);
    free(nodes);
    if (stopped <= MINORITY) {
        acquire(face, &lock);
        ck_assert_uint_eq(result.unreachable + result.timed_out, 0);
        release(face, &lock);
    } else {
        real_status(face_ready(face, 2 * NODE_TIMEOUT_MS, &result), REDLOCK_TIMED_OUT, &result);
        real_status(face_acquire(face, key, NULL, &lock, &result), REDLOCK_NO_QUORUM, &result);
        assert_bounded();
    }
    deployment_repair(real_nodes);
    ck_assert(face_wait_all_ready(face));
    acquire_everywhere(face, &lock);
    release(face, &lock);
    close_face(face);
}
END_TEST

/* The client closes the connection to a silent node. When the node is back, the client undoes the requests that it
 * sent, and those that it could not send. */
START_TEST(a_silent_node_is_cleaned_up_when_it_is_back)
{
    redlock_options options = face_options();
    redlock_lock *before, *during, *after;

    options.node_timeout_ms = NODE_TIMEOUT_MS;
    options.connect_timeout_ms = NODE_TIMEOUT_MS;
    options.silence_limit_ms = NODE_TIMEOUT_MS;
    struct face *face = face_open_ready(face_of(_i), deployment_nodes(real_nodes), &options);
    acquire_everywhere(face, &before);
    deployment_stop(real_nodes, 0);
    real_status(face_acquire(face, real_key("during"), NULL, &during, &result), REDLOCK_OK, &result);
    struct outage outage = {face, 1};
    ck_assert(face_wait(face, is_noticed, &outage, REAL_SOON_MS));
    real_status(face_acquire(face, real_key("after"), NULL, &after, &result), REDLOCK_OK, &result);
    ck_assert_int_ne(result.node[0].outcome, REDLOCK_NODE_GRANTED);
    release(face, &before);
    release(face, &during);
    release(face, &after);
    deployment_resume(real_nodes, 0);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    acquire_everywhere(face, &before);
    release(face, &before);
    close_face(face);
}
END_TEST

/* --- Restarted, empty --- */

START_TEST(a_lock_outlives_the_restart_of_a_minority)
{
    struct face *face = open_face(_i);
    redlock_lock *lock;
    redlock_state state;

    acquire_everywhere(face, &lock);
    restart_nodes(face, MINORITY);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    real_status(face_query(face, key, &state, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(state.held_by_me, 1);
    release(face, &lock);
    close_face(face);
}
END_TEST

START_TEST(a_lock_is_lost_with_the_restart_of_a_majority)
{
    struct face *face = open_face(_i);
    redlock_lock *lock;

    acquire_everywhere(face, &lock);
    restart_nodes(face, QUORUM);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_LOST, &result);
    ck_assert_int_eq(redlock_validity_ms(lock), 0);
    real_status(face_release(face, &lock, &result), REDLOCK_LOST, &result);
    close_face(face);
}
END_TEST

/* The restarted server has another run_id, but its old keys. The undo belongs to the node, not to the process. */
START_TEST(what_a_node_kept_on_disk_is_undone_when_it_is_back)
{
    const struct cluster_node_options persistent[3] = {{.persistent = true}, {0}, {0}};
    struct cluster *cluster = real_cluster(3, &(struct cluster_options){.nodes = persistent});
    struct face *face = face_open_ready(face_of(_i), cluster_nodes_string(cluster), NULL);
    redlock_lock *lock;

    do {
        acquire(face, &lock);
        if (cluster_integer(cluster, 0, "EXISTS", key, NULL) == 1)
            break;
        release(face, &lock); /* the other two nodes were faster, and this one had not got the request yet */
    } while (true);
    cluster_kill(cluster, 0);
    release(face, &lock);
    struct outage outage = {face, 1};
    ck_assert(face_wait(face, is_noticed, &outage, REAL_SOON_MS));
    cluster_start(cluster, 0);
    ck_assert(face_wait_all_ready(face));
    ck_assert(real_nothing_left(face));
    close_face(face);
}
END_TEST

/* A node restarts while locks are acquired and released, at any point of its work. */
START_TEST(restarts_in_the_middle_of_anything)
{
    enum { RESTARTS = 10, LOCKS = 20 };
    struct face *face = open_face(_i);
    redlock_lock *lock;

    for (size_t restart = 0; restart < RESTARTS; restart++) {
        deployment_kill(real_nodes, restart % NODES);
        for (int i = 0; i < LOCKS; i++) {
            real_status(face_acquire(face, key, REDLOCK_WAIT_MS(REAL_SOON_MS), &lock, &result), REDLOCK_OK, &result);
            release(face, &lock);
            if (i == LOCKS / 2)
                deployment_repair(real_nodes);
        }
    }
    ck_assert(face_wait_all_ready(face));
    close_face(face);
}
END_TEST

static Suite *faults_suite(void)
{
    Suite *suite = suite_create("real_faults");
    TCase *killed = real_own_case(suite, "killed");
    TCase *stopped = real_shared_case(suite, "stopped");
    TCase *disk = real_bare_case(suite, "disk");

    tcase_add_loop_test(killed, a_killed_minority_does_no_harm, 0, FACES);
    tcase_add_loop_test(killed, a_killed_majority_is_no_quorum, 0, FACES);
    tcase_add_loop_test(killed, waiting_outlives_the_loss_of_all_nodes, 0, FACES);
    tcase_add_loop_test(killed, a_lock_outlives_the_restart_of_a_minority, 0, FACES);
    tcase_add_loop_test(killed, a_lock_is_lost_with_the_restart_of_a_majority, 0, FACES);
    tcase_add_loop_test(killed, restarts_in_the_middle_of_anything, 0, FACES);
    tcase_add_loop_test(stopped, a_stopped_minority_does_no_harm, 0, FACES);
    tcase_add_loop_test(stopped, with_a_stopped_majority_everything_ends, 0, FACES);
    tcase_add_loop_test(stopped, a_node_that_hangs_in_the_handshake_is_not_waited_for, 0, FACES);
    tcase_add_loop_test(stopped, a_silent_node_is_cleaned_up_when_it_is_back, 0, FACES);
    if (!deployment_is_foreign())
        tcase_add_loop_test(disk, what_a_node_kept_on_disk_is_undone_when_it_is_back, 0, FACES);
    return suite;
}

int main(void)
{
    return real_run(faults_suite(), true);
}
