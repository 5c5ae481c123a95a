/* A forked child and its parent's client, on real servers: the child can only free the client, and the parent is not
 * affected. */
#define _GNU_SOURCE
#include "real/real.h"

#include "support/clock.h"
#include "support/file.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 5 };

static const char key[] = real_key("fork");
static redlock_result result;

/* Check's assertions must not be used in the child. */
static void require(bool met, const char *what)
{
    if (met)
        return;
    fprintf(stderr, "in the child: not %s\n", what);
    _exit(EXIT_FAILURE);
}

#define require_that(condition) require(condition, #condition)

static int status_of(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "the child ended with %#x", status);
    return WEXITSTATUS(status);
}

static void wait_for(pid_t child)
{
    ck_assert_int_eq(status_of(child), EXIT_SUCCESS);
}

/* Connections that the node has accepted since it started. The connection of this request counts, so each call adds
 * one. */
static long long connections_of(size_t node)
{
    char reply[16384];

    ck_assert(deployment_command(real_nodes, node, reply, sizeof(reply), "INFO", "stats", NULL));
    const char *at = strstr(reply, "total_connections_received:");
    ck_assert_ptr_nonnull(at);
    return strtoll(strchr(at, ':') + 1, NULL, 10);
}

static redlock_client *client;
static redlock_lock *lock;

static void require_nothing_works(void)
{
    redlock_lock *own = lock, *none = NULL;
    redlock_cancellation *cancellation = NULL;
    redlock_state state;

    require_that(redlock_ready(client, 0, &result) == REDLOCK_INVALID);
    require_that(redlock_acquire(client, key, NULL, &none, &result) == REDLOCK_INVALID);
    require_that(redlock_extend(own, 0, &result) == REDLOCK_INVALID);
    require_that(redlock_release(&own, &result) == REDLOCK_INVALID);
    require_that(redlock_query(client, key, 0, &state, &result) == REDLOCK_INVALID);
    require_that(redlock_ready_async(client, 0, NULL, NULL) == REDLOCK_INVALID);
    require_that(redlock_release_async(&own, NULL, NULL) == REDLOCK_INVALID);
    require_that(own == lock && none == NULL);
    require_that(redlock_cancellation_create(client, &cancellation) == REDLOCK_INVALID);
    require_that(redlock_held_by_me(client, key, 0) == 0);
    require_that(redlock_validity_ms(lock) == 0);
}

/* --- The blocking API --- */

static bool all_ready(void *unused)
{
    (void)unused;
    return redlock_ready(client, 0, &result) == REDLOCK_OK && result.granted == NODES;
}

static void begin_blocking(void)
{
    redlock_options options = face_options();

    real_status(redlock_connect(deployment_nodes(real_nodes), &options, &client, &result), REDLOCK_OK, &result);
    ck_assert(wait_until(all_ready, NULL, REAL_SOON_MS));
    real_status(redlock_acquire(client, key, NULL, &lock, &result), REDLOCK_OK, &result);
    ck_assert(real_soon_everywhere(key, redlock_lock_token(lock)));
}

static void end_blocking(void)
{
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    real_status(redlock_extend(lock, 0, &result), REDLOCK_OK, &result);
    ck_assert(real_shows_everywhere(key, redlock_lock_token(lock)));
    real_status(redlock_release(&lock, &result), REDLOCK_OK, &result);
    real_status(redlock_close(&client, &result), REDLOCK_OK, &result);
}

/* A child leaves the descriptors open if the client's thread was at work during the fork. */
enum { AT_WORK = 2, FORKS = 50 };

static int close_in_child(size_t before)
{
    pid_t child = fork();

    if (child == 0) {
        require_nothing_works();
        require_that(redlock_close(&client, &result) == REDLOCK_OK);
        require_that(client == NULL);
        _exit(file_open_descriptors() == before ? EXIT_SUCCESS : AT_WORK);
    }
    return status_of(child);
}

START_TEST(a_child_frees_a_blocking_client)
{
    size_t before = file_open_descriptors();
    int status = AT_WORK;

    begin_blocking();
    long long connections = connections_of(0);
    for (int i = 0; i < FORKS && status == AT_WORK; i++)
        status = close_in_child(before);
    ck_assert_int_eq(status, EXIT_SUCCESS);
    real_status(redlock_extend(lock, 0, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(connections_of(0), connections + 1); /* this request's: the client kept its connection */
    end_blocking();
}
END_TEST

START_TEST(a_child_makes_a_client_of_its_own)
{
    begin_blocking();
    pid_t child = fork();
    if (child == 0) {
        redlock_options options = face_options();
        redlock_client *own;
        redlock_lock *held;
        require_that(redlock_connect(deployment_nodes(real_nodes), &options, &own, NULL) == REDLOCK_OK);
        require_that(redlock_acquire(own, key, NULL, &held, NULL) == REDLOCK_HELD);
        require_that(redlock_acquire(own, real_key("child"), NULL, &held, NULL) == REDLOCK_OK);
        require_that(strcmp(redlock_lock_token(held), redlock_lock_token(lock)) != 0);
        require_that(redlock_release(&held, NULL) == REDLOCK_OK);
        require_that(redlock_close(&own, NULL) == REDLOCK_OK);
        _exit(EXIT_SUCCESS);
    }
    wait_for(child);
    end_blocking();
}
END_TEST

/* The child exits without closing the client: its descriptors are closed with it, and it sends nothing. */
START_TEST(a_child_just_ends)
{
    begin_blocking();
    pid_t child = fork();
    if (child == 0)
        _exit(EXIT_SUCCESS);
    wait_for(child);
    end_blocking();
}
END_TEST

/* --- The asynchronous API --- */

static struct ev_loop *loop;

static void on_acquired(redlock_client *from, redlock_lock *acquired, const redlock_result *given, void *arg)
{
    (void)from;
    (void)arg;
    result = *given;
    lock = acquired;
    ev_break(loop, EVBREAK_ONE);
}

static void on_told(redlock_client *from, const redlock_result *given, void *arg)
{
    (void)from;
    (void)arg;
    result = *given;
    ev_break(loop, EVBREAK_ONE);
}

static void begin_asynchronous(void)
{
    redlock_options options = face_options();

    loop = ev_loop_new(EVFLAG_NOENV);
    real_status(redlock_attach(loop, deployment_nodes(real_nodes), &options, &client, &result), REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_acquire_async(client, key, NULL, on_acquired, NULL), REDLOCK_OK);
    ev_run(loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
}

static void end_asynchronous(void)
{
    ck_assert_int_eq(redlock_extend_async(lock, 0, on_told, NULL), REDLOCK_OK);
    ev_run(loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_release_async(&lock, on_told, NULL), REDLOCK_OK);
    ev_run(loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
    ck_assert_int_eq(redlock_close_async(&client, on_told, NULL), REDLOCK_OK);
    ev_run(loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
    ev_loop_destroy(loop);
}

static void never(redlock_client *from, const redlock_result *given, void *arg)
{
    (void)from;
    (void)given;
    (void)arg;
    require(false, "silent: a callback came");
}

/* An operation is in progress, which belongs to the parent only. */
START_TEST(a_child_frees_an_asynchronous_client)
{
    size_t before = file_open_descriptors();

    begin_asynchronous();
    ck_assert_int_eq(redlock_extend_async(lock, 0, on_told, NULL), REDLOCK_OK);
    pid_t child = fork();
    if (child == 0) {
        require_nothing_works();
        require_that(redlock_close_async(&client, never, NULL) == REDLOCK_OK);
        require_that(client == NULL);
        ev_loop_fork(loop);
        ev_run(loop, EVRUN_NOWAIT);
        ev_loop_destroy(loop);
        require_that(file_open_descriptors() == before);
        _exit(EXIT_SUCCESS);
    }
    wait_for(child);
    ev_run(loop, 0);
    real_status(result.status, REDLOCK_OK, &result);
    end_asynchronous();
}
END_TEST

/* The child frees its parent's client, and continues to use the loop with a new one. */
START_TEST(a_child_uses_the_loop)
{
    begin_asynchronous();
    pid_t child = fork();
    if (child == 0) {
        redlock_options options = face_options();
        ev_loop_fork(loop);
        require_that(redlock_close_async(&client, never, NULL) == REDLOCK_OK);
        require_that(redlock_attach(loop, deployment_nodes(real_nodes), &options, &client, NULL) == REDLOCK_OK);
        require_that(redlock_acquire_async(client, real_key("child"), NULL, on_acquired, NULL) == REDLOCK_OK);
        ev_run(loop, 0);
        require_that(result.status == REDLOCK_OK);
        require_that(redlock_close_async(&client, on_told, NULL) == REDLOCK_OK);
        ev_run(loop, 0);
        require_that(result.status == REDLOCK_OK);
        _exit(EXIT_SUCCESS);
    }
    wait_for(child);
    end_asynchronous();
}
END_TEST

static Suite *fork_suite(void)
{
    Suite *suite = suite_create("real_fork");
    TCase *tcase = real_shared_case(suite, "fork");

    tcase_add_test(tcase, a_child_frees_a_blocking_client);
    tcase_add_test(tcase, a_child_makes_a_client_of_its_own);
    tcase_add_test(tcase, a_child_just_ends);
    tcase_add_test(tcase, a_child_frees_an_asynchronous_client);
    tcase_add_test(tcase, a_child_uses_the_loop);
    return suite;
}

int main(void)
{
    return real_run(fork_suite(), false);
}
