/* Both faces of the library behind one set of functions, so that a test is written once and run with each.
 *
 * Every function waits for the answer: the blocking face by itself, the asynchronous one by turning its loop. What is
 * always true of a result is checked on the way: the status in it is the status that was returned, exactly one
 * callback came, and it did not come from inside the call. */
#ifndef TESTS_SUPPORT_FACE_H
#define TESTS_SUPPORT_FACE_H

#include "redlock/redlock.h"

#include <stdbool.h>

enum face_kind { BLOCKING_FACE, ASYNCHRONOUS_FACE, FACES };

/* Of a loop test's number: the kinds in turn. */
enum face_kind face_of(int i);

struct face;

/* Defaults for tests: locks that outlive any test (ttl 60 s), so that a key that is gone was taken away and did not
 * expire; no renewal; timeouts that a loaded machine does not reach (10 s). */
redlock_options face_options(void);

/* options NULL: face_options(). Ends the test when the client cannot be made. */
struct face *face_open(enum face_kind kind, const char *nodes, const redlock_options *options);
/* The same, ready: every one of the nodes can be asked. */
struct face *face_open_ready(enum face_kind kind, const char *nodes, const redlock_options *options);
/* Closes and frees; the face becomes NULL. */
int face_close(struct face **face, redlock_result *result);

redlock_client *face_client(struct face *face);

int face_ready(struct face *face, int64_t wait_ms, redlock_result *result);
int face_acquire(struct face *face, const char *resource, const redlock_acquire_options *options, redlock_lock **lock,
                 redlock_result *result);
int face_adopt(struct face *face, const char *resource, const redlock_acquire_options *options, const char *token,
               redlock_lock **lock, redlock_result *result);
int face_release_token(struct face *face, const char *resource, const char *token, redlock_result *result);
int face_inspect(struct face *face, const char *resource, redlock_result *result);
int face_extend(struct face *face, redlock_lock *lock, uint32_t ttl_ms, redlock_result *result);
int face_release(struct face *face, redlock_lock **lock, redlock_result *result);
int face_query(struct face *face, const char *resource, redlock_state *state, redlock_result *result);

/* Waits for a predicate while the client lives on. */
bool face_wait(struct face *face, bool (*predicate)(void *arg), void *arg, unsigned timeout_ms);
/* For a time in which nothing is to happen. */
void face_idle(struct face *face, unsigned duration_ms);
/* Every node can be asked. */
bool face_wait_all_ready(struct face *face);

#endif
