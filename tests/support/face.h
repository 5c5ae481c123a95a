/* The three ways to call the library behind one set of functions, so that a test is written once and run with each: the
 * blocking functions, the asynchronous ones on a libev loop, and the asynchronous ones with redlock_dispatch().
 *
 * Every function waits for the result: the blocking API does so itself, and for the other two the function runs the
 * loop, or polls the descriptor and dispatches. Each call also checks that the status in the result is the status that was returned, that exactly
 * one callback was called, and that it was not called inside the call that started it. */
#ifndef TESTS_SUPPORT_FACE_H
#define TESTS_SUPPORT_FACE_H

#include "redlock/redlock.h"

#include <stdbool.h>

enum face_kind { BLOCKING_FACE, ASYNCHRONOUS_FACE, DESCRIPTOR_FACE, FACES };

/* The API for the number of a loop test: the three alternate. */
enum face_kind face_of(int i);

struct face;

/* Defaults for tests. Locks outlive any test (ttl 60 s), so that a missing key was deleted and has not expired.
 * There is no renewal. A loaded machine does not reach the timeouts (10 s). */
redlock_options face_options(void);

/* options NULL: face_options(). Ends the test if the client cannot be created. */
struct face *face_open(enum face_kind kind, const char *nodes, const redlock_options *options);
/* The same, and waits until every node is ready for requests. */
struct face *face_open_ready(enum face_kind kind, const char *nodes, const redlock_options *options);
/* Closes the client and frees the face; *face becomes NULL. */
int face_close(struct face **face, redlock_result *result);
/* Returns the last one opened of those that are not closed; NULL: there is none. */
struct face *face_newest(void);

redlock_client *face_client(struct face *face);
/* NULL unless it is an ASYNCHRONOUS_FACE. */
struct ev_loop *face_loop(struct face *face);

int face_ready(struct face *face, int64_t wait_ms, redlock_result *result);
int face_acquire(struct face *face, const char *resource, const redlock_acquire_options *options, redlock_lock **lock,
                 redlock_result *result);
int face_trust(struct face *face, redlock_result *result);
int face_inspect(struct face *face, const char *resource, redlock_result *result);
int face_extend(struct face *face, redlock_lock *lock, uint32_t ttl_ms, redlock_result *result);
int face_downgrade(struct face *face, redlock_lock *lock, redlock_result *result);
int face_release(struct face *face, redlock_lock **lock, redlock_result *result);
int face_query(struct face *face, const char *resource, redlock_state *state, redlock_result *result);

/* Waits for a predicate while the client's loop runs. */
bool face_wait(struct face *face, bool (*predicate)(void *arg), void *arg, unsigned timeout_ms);
/* Lets time pass in which nothing must happen. */
void face_idle(struct face *face, unsigned duration_ms);
/* Waits until every node is ready for requests. */
bool face_wait_all_ready(struct face *face);

#endif
