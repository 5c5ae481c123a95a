/* Shared by the tests of redlock(1): trusted nodes, and a check after each test that no key is left on them. */
#ifndef TESTS_COMMAND_SCENE_H
#define TESTS_COMMAND_SCENE_H

#include "program.h"
#include "real/held.h"

#include <check.h>

/* The exit statuses that redlock(1) documents. */
enum { NOT_OBTAINED = 1, USAGE = 64, NO_QUORUM = 69, SYSTEM = 71, LOST = 75, MISCONFIGURED = 78 };

/* Cases without nodes, with five nodes that serve all tests of the program, and with five for each test. The nodes are
 * trusted before the test, for program_setting, with timeouts that a loaded machine does not reach. */
TCase *scene_no_nodes(Suite *suite, const char *name);
TCase *scene_shared_nodes(Suite *suite, const char *name);
TCase *scene_own_nodes(Suite *suite, const char *name);

extern struct test_case case_no_nodes, case_shared_nodes, case_own_nodes;

/* Ends the quarantine of these nodes. */
void scene_trust(const char *nodes);
/* Starts a cluster for the calling test, whose programs use it, with patience. each: of every node; NULL: ordinary. */
void scene_cluster(size_t nodes, const struct cluster_node_options *each);

/* SET of the key by another client, on every node; and its removal. */
void scene_hold(const char *key);
void scene_delete(const char *key);
/* Number of nodes that have the key. */
size_t scene_held_on(const char *key);
/* Waits until the remaining ttl of the key has increased this many times. Fails the test if it does not soon. */
void scene_await_renewals(const char *key, unsigned count);

/* Writes a file that only its owner can read. Returns its path. It is removed at the end of the test. Call it before
 * a node is killed, because it counts the open descriptors. */
const char *scene_file(const char *text);
/* A config file without TLS or passwords, with long timeouts, or with short ones for nodes that do not reply. */
#define SCENE_PATIENCE "timeout = 10s\nconnect-timeout = 10s\n"
#define SCENE_HASTE    "timeout = 1s\n"

/* Returns the output of `jq -r filter` for the program's output, without its last newline. It is valid until the end
 * of the test. An independent program thus decides whether the output is JSON. */
const char *scene_json(struct program *program, const char *filter);

#define json_is(program, filter, expected)                                                                             \
    do {                                                                                                               \
        const char *json_actual = scene_json(program, filter);                                                         \
        ck_assert_msg(strcmp(json_actual, expected) == 0, "%s is '%s', not '%s', in %.4000s", filter, json_actual,     \
                      expected, program_output(program));                                                              \
    } while (0)

#endif
