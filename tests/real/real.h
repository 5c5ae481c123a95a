/*
 * Shared by the tests against real servers: the nodes, and after each test the end of its clients, and the check that no key
 * is left on the nodes. Cases whose nodes live as long as the program are fast (real_shared_case). Tests that kill and start
 * servers need separate nodes for each test (real_own_case).
 */
#ifndef TESTS_REAL_REAL_H
#define TESTS_REAL_REAL_H

#include "support/clock.h"
#include "support/cluster.h"
#include "support/delay_proxy.h"
#include "support/face.h"
#include "support/test.h"

#include <check.h>

enum { REAL_SOON_MS = 20000 };

/* Cases that clean up before each test. After it they close the faces that it has left open, and wait until no key and no
 * descriptor is left. They start five servers, or take those that $REDLOCK_TEST_NODES names. */
TCase *real_shared_case(Suite *suite, const char *name);
/* The same with new servers in any case. */
TCase *real_common_case(Suite *suite, const char *name);
TCase *real_own_case(Suite *suite, const char *name);
/* A case without nodes: its tests start their own clusters. */
TCase *real_bare_case(Suite *suite, const char *name);
/* False: REDLOCK_TEST_NODES names servers, and there is no REDLOCK_NODE_CONTROL to stop or kill them. */
bool real_can_fail_nodes(void);
/* Starts a cluster for the calling test. The check after the test covers it, too. */
struct cluster *real_cluster(size_t nodes, const struct cluster_options *options);
/* Starts one of nodes that are all alike. */
void real_cluster_of(size_t nodes, struct cluster_node_options each);
/* Records the number of open descriptors. A larger number at the end of the test is a leak. */
void real_note_descriptors(void);

/* Opens the i-th kind of face on the nodes, with face_options(), and waits until every node is ready. The case closes it. */
struct face *real_open(int i);

/* Waits until no key is left on any node that replies. Runs the face's loop meanwhile, if face is not NULL. */
bool real_nothing_left(struct face *face);

/* Adds a test of something that is the same for each face: it runs with one face, and the faces take turns from test to
 * test. If all tests share one process, each runs with another face than if each has its own. */
void real_add_test(TCase *tcase, const TTest *test);

/* A case for TEST(), TEST_ROWS() and TEST_LONG_ROWS(). `create` is one of the functions above, `setup` what they do not do
 * before each test, or NULL. A test without rows gets a face in turn as _i. */
#define REAL_CASE(name, create, setup) REAL_CASE_WITH(name, create, setup, NULL, 0)
/* The same for tests that run as long as the environment asks for. ctest has a limit for the program. */
#define REAL_LONG_CASE(name, create, setup) REAL_CASE_WITH(name, create, setup, NULL, 86400)
#define REAL_CASE_WITH(name, create, setup, teardown, timeout_s)                                                       \
    static struct test_case case_##name = {#name, setup, teardown, timeout_s, create, real_add_test, NULL}

/* The number in the environment variable, or the usual one. */
unsigned real_setting(const char *variable, unsigned usual);

/* Runs the suite, and returns the program's exit status. needs_control: the tests kill or stop nodes, also those that run
 * already. */
int real_run(Suite *suite, bool needs_control);
/* The main function of a program. */
#define REAL_PROGRAM(name)                                                                                             \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return real_run(registered_suite(name), false);                                                                \
    }

/* Fails unless the status is the expected one, and prints the result as text. */
#define real_status(actual, expected, result)                                                                          \
    do {                                                                                                               \
        int real_actual = (actual);                                                                                    \
        ck_assert_msg(real_actual == (expected), "%s, not %s: %s", redlock_status_name(real_actual),                   \
                      redlock_status_name(expected), redlock_result_text(result));                                     \
    } while (0)

/* Acquire options with these fields: REAL_WITH(.ttl_ms = 500, .fence = 1). */
#define REAL_WITH(...)                                                                                                 \
    (&(redlock_acquire_options){.struct_size = REDLOCK_STRUCT_SIZE(redlock_acquire_options), __VA_ARGS__})

/* Waits until the condition is true, and runs the face's loop meanwhile, if face is not NULL. */
#define real_until(face, condition)                                                                                    \
    do {                                                                                                               \
        uint64_t real_deadline = test_deadline_ns(3 * REAL_SOON_MS);                                                   \
        while (!(condition)) {                                                                                         \
            ck_assert_msg(test_ms_left(real_deadline) > 0, "waited in vain until: %s", #condition);                    \
            real_turn(face);                                                                                           \
        }                                                                                                              \
    } while (0)
void real_turn(struct face *face);

/* The name of a resource, as a key that no other program uses. */
#define real_key(name) CLUSTER_PREFIX name

/* Whether the key has this value on every node. */
bool real_shows_everywhere(const char *key, const char *value);
/* SET key value NX PX 60000 by another client. Returns whether the key was set. */
bool real_foreign_set(size_t node, const char *key, const char *value);
/* Sends the command to the first nodes. Ends the test if one does not reply. */
void real_command(size_t nodes, ...) __attribute__((sentinel));
/* An integer that every node is to reply. */
struct real_number {
    const char *words[5]; /* the command, ended by NULL */
    long long least, most;
};
/* Whether it does: for face_wait() and wait_until(). */
bool real_all_reply(void *number);
/* How often the node has executed the command, e.g. "set". */
long long real_calls(size_t node, const char *command);

#endif
