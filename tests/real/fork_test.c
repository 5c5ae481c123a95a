/* A forked child and its parent's client, on real servers: the child frees the client with all its descriptors and goes on
 * with a client of its own, and the parent is not affected. tests/fake/misuse_test.c has all calls of a child. */
#include "real/held.h"

#include "support/file.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child leaves the descriptors open if the client's thread was at work during the fork. */
enum { AT_WORK = 2, FORKS = 50 };

static const char key[] = real_key("fork");

/* Check's assertions must not be used in the child. */
static void require(bool met, const char *what)
{
    if (met)
        return;
    fprintf(stderr, "in the child: not %s\n", what);
    _exit(EXIT_FAILURE);
}

#define require_that(condition) require(condition, #condition)

static void never(redlock_client *client, const redlock_result *given, void *arg)
{
    (void)client;
    (void)given;
    (void)arg;
    require(false, "silent: a callback came");
}

static void free_client(struct face *face)
{
    redlock_client *client = face_client(face);
    struct ev_loop *loop = face_loop(face);
    if (loop) {
        ev_loop_fork(loop);
        require_that(redlock_close_async(&client, NULL, never, NULL) == REDLOCK_OK);
        ev_run(loop, 0); /* returns, because the client left no watcher in the loop */
        ev_loop_destroy(loop);
    } else {
        require_that(redlock_close(&client, NULL, &result) == REDLOCK_OK);
    }
    require_that(client == NULL);
}

static void use_client_of_its_own(enum face_kind kind, const char *parents_token)
{
    struct face *face = face_open_ready(kind, cluster_nodes_string(cluster), NULL);
    redlock_lock *lock;
    require_that(face_acquire(face, key, NULL, &lock, &result) == REDLOCK_HELD);
    require_that(face_acquire(face, real_key("child"), NULL, &lock, &result) == REDLOCK_OK);
    require_that(strcmp(redlock_lock_token(lock), parents_token) != 0);
    require_that(face_release(face, &lock, &result) == REDLOCK_OK);
    require_that(face_close(&face, &result) == REDLOCK_OK);
}

/* Returns the child's exit status. */
static int fork_child(struct face *face, enum face_kind kind, const char *token, size_t descriptors)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        free_client(face);
        if (file_open_descriptors() != descriptors)
            _exit(AT_WORK);
        use_client_of_its_own(kind, token);
        _exit(EXIT_SUCCESS);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "the child ended with %#x", status);
    return WEXITSTATUS(status);
}

REAL_CASE(fork, real_shared_case, NULL);

TEST_ROWS(fork, a_child_frees_the_client_and_makes_one_of_its_own, FACES)
{
    size_t descriptors = file_open_descriptors();
    struct face *face = real_open(_i);
    redlock_lock *lock = held_acquire(face, key, NULL);
    int status = AT_WORK;
    char token[64]; /* the handle's own is freed in the child */
    snprintf(token, sizeof token, "%s", redlock_lock_token(lock));
    ck_assert(real_soon_shows(NULL, key, token));
    for (int i = 0; i < FORKS && status == AT_WORK; i++)
        status = fork_child(face, face_of(_i), token, descriptors);
    ck_assert_int_eq(status, EXIT_SUCCESS);
    ck_assert_int_gt(redlock_validity_ms(lock), 0);
    real_status(face_extend(face, lock, 0, &result), REDLOCK_OK, &result);
    ck_assert(real_shows_everywhere(key, token));
    held_release(face, &lock);
}

REAL_PROGRAM("real_fork")
