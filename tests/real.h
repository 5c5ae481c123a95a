/* What the tests against real servers share: the nodes, and a look after each test that nothing is left on them.
 *
 * A case with nodes that live as long as the program (real_shared_case) is fast; one whose tests kill and start servers
 * needs nodes of its own for each test (real_own_case). */
#ifndef TESTS_REAL_H
#define TESTS_REAL_H

#include "support/deployment.h"
#include "support/face.h"

#include <check.h>

enum { REAL_SOON_MS = 20000 };

extern struct deployment *real_nodes;

/* Cases that clean up before each test, and after it wait until no key and no descriptor is left. */
TCase *real_shared_case(Suite *suite, const char *name);
TCase *real_own_case(Suite *suite, const char *name);
/* The same without nodes: the tests make their own cluster. */
TCase *real_bare_case(Suite *suite, const char *name);
/* The test that calls it makes a cluster of its own, which is looked at after the test, too. */
struct cluster *real_cluster(size_t nodes, const struct cluster_options *options);
/* What is open now is the fixtures': more than that is a leak. */
void real_note_descriptors(void);

/* Nothing of a lock is left on any node that answers, soon. Lets the face work meanwhile, if not NULL. */
bool real_nothing_left(struct face *face);

/* Adds a test that takes seconds: all of its `count` runs where each has a process of its own; one where all tests
 * share one, which is about what they leave behind to the next. */
#define real_add_long_test(tcase, test, count) tcase_add_loop_test(tcase, test, 0, real_runs(count))
int real_runs(int count);

/* Runs it; the program's exit status. */
int real_run(Suite *suite, bool needs_control);

/* Fails with the result in words. */
#define real_status(actual, expected, result)                                                                          \
    do {                                                                                                               \
        int real_actual = (actual);                                                                                    \
        ck_assert_msg(real_actual == (expected), "%s, not %s: %s", redlock_status_name(real_actual),                   \
                      redlock_status_name(expected), redlock_result_text(result));                                     \
    } while (0)

/* The name of a resource: a key that cannot be anybody else's. */
#define real_key(name) DEPLOYMENT_PREFIX name

/* Shows every node the key with this value? */
bool real_shows_everywhere(const char *key, const char *value);
/* The same, soon: late grants arrive behind the decision. */
bool real_soon_everywhere(const char *key, const char *value);
/* SET key value NX PX 60000 by somebody else; was it set? */
bool real_foreign_set(size_t node, const char *key, const char *value);
void real_delete(size_t node, const char *key);

#endif
