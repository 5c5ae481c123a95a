/*
 * A scene for tests of the library against fake nodes: N of them, a loop, and a client on it. What must be true at the
 * end of every test is checked when the scene ends: each operation was answered exactly once, no key of ours is on any
 * node, no descriptor is left, and no log line held a secret.
 *
 *     TCase *tcase = scene_case(suite, "votes", five_nodes);
 */
#ifndef TESTS_FAKE_SCENE_H
#define TESTS_FAKE_SCENE_H

#include <check.h>
#include <ev.h>
#include <stdbool.h>

#include "quorum_suite.h"
#include "redlock/redlock.h"
#include "support/allocator.h"
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"

enum { SCENE_NODES = 7, SCENE_SOON_MS = 10000, SCENE_TIMEOUT_S = 30 };

/* Never in a log line or an error. */
#define SCENE_SECRET "s3cret-word"

struct scene {
    unsigned nodes;
    struct fake_server *node[SCENE_NODES];
    const char *suffix[SCENE_NODES]; /* of the node's URI, "?timeout_ms=20"; NULL: none */
    struct ev_loop *loop;
    redlock_client *client; /* closed at the end if a test has not */
    redlock_options options;
    bool keys_may_stay; /* a test whose nodes cannot be reached at the end */
    unsigned started;
    unsigned told;
};
extern struct scene scene;

void scene_begin(unsigned nodes);
/* The same on other transports than IPv4. */
void scene_begin_on(unsigned nodes, enum fake_transport transport);
void scene_end(void);

/* A case of the suite's whose tests begin with setup, which calls scene_begin(), and end with scene_end(). */
TCase *scene_case(Suite *suite, const char *name, void (*setup)(void));

/* "redis://127.0.0.1:4711?timeout_ms=20,..." Valid until the next call. */
const char *scene_list(void);

/* A client on the loop with scene.options, and every node ready; or without waiting for the nodes. */
void scene_attach(void);
void scene_attach_only(void);
/* A client of the blocking face, with every node ready. Must be closed by the test. */
void scene_connect(void);

/* Until every node can be asked. */
void scene_wait_for_ready(void);
/* Is exactly this number of nodes ready? Takes a turn of the loop or more. */
unsigned scene_ready_nodes(void);

/* --- Turning the loop --- */

bool scene_run(bool (*happened)(void *arg), void *arg);
void scene_turn(void);
/* For a time in which nothing is to happen. */
void scene_idle(unsigned ms);

/* --- Clocks --- */

/* Turns the loop until the clock of every node has been sampled. */
void scene_know_clocks(void);
/* As if our clock had stopped for ten minutes: the first three nodes' clocks jump ahead. Turns the loop until the client
 * has found out. */
void scene_stop_our_clock(void);

/* --- Asking --- */

struct answer {
    unsigned told;  /* how often */
    unsigned place; /* the how manieth of all answers it was */
    redlock_lock *lock;
    redlock_result result;
    redlock_state state;
};

/* Callbacks for an answer as their arg. */
void scene_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *answer);
void scene_told(redlock_client *client, const redlock_result *result, void *answer);
void scene_queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *answer);

/* Starts one; the answer is emptied first. */
void scene_start_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options);
void scene_start_adopt(struct answer *answer, const char *resource, const redlock_acquire_options *options,
                       const char *token);
void scene_start_release_token(struct answer *answer, const char *resource, const char *token);
void scene_start_inspect(struct answer *answer, const char *resource);
void scene_start_extend(struct answer *answer, redlock_lock *lock, uint32_t ttl_ms);
void scene_start_release(struct answer *answer, redlock_lock **lock);
void scene_start_query(struct answer *answer, const char *resource);
void scene_start_close(struct answer *answer);

/* Until it is told; its status. */
int scene_wait(struct answer *answer);

int scene_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options);
int scene_release(struct answer *answer, redlock_lock **lock);
int scene_close(struct answer *answer);
/* A lock that must be granted, after a while at the latest. */
redlock_lock *scene_lock(const char *resource);

#define ck_assert_status(actual, expected)                                                                             \
    do {                                                                                                               \
        int actual_ = (actual), expected_ = (expected);                                                                \
        ck_assert_msg(actual_ == expected_, "%s instead of %s", redlock_status_name(actual_),                          \
                      redlock_status_name(expected_));                                                                 \
    } while (0)

#define ck_assert_answer(told_answer, expected)                                                                        \
    do {                                                                                                               \
        redlock_result *result_ = &(told_answer)->result;                                                              \
        ck_assert_msg(result_->status == (expected), "%s instead of %s: %s", redlock_status_name(result_->status),     \
                      redlock_status_name(expected), redlock_result_text(result_));                                    \
    } while (0)

#define ck_assert_has(text, part) ck_assert_msg(strstr((text), (part)) != NULL, "'%s' lacks '%s'", (text), (part))

/* --- What the nodes were sent --- */

/* SENT_WAIT is a waiter that signs in or looks; an attempt is a SET, or such a waiter that takes the lock when it is
 * free. */
enum sent { SENT_ANY, SENT_SET, SENT_ATTEMPT, SENT_WAIT, SENT_UNDO, SENT_EXTEND, SENT_QUERY, SENT_KILL };

/* The index-th such command that this node has received, and its place among all; NULL: not so many. token NULL: any. */
const struct fake_record *scene_sent(unsigned node, enum sent what, const char *token, unsigned index, unsigned *place);
unsigned scene_count(unsigned node, enum sent what);
/* Turns the loop until the node has received so many. */
void scene_wait_for_sent(unsigned node, enum sent what, unsigned count);
/* Turns the loop until the node has accepted so many connections since it began. */
void scene_wait_for_accepted(unsigned node, unsigned count);
/* The token in an attempt, an undo, an extension. */
const char *scene_token(const struct fake_record *record);

/* Turns the loop until every attempt on the node that was not answered "held" is followed by its undo, on the same
 * connection. */
void scene_assert_undone(unsigned node);

/* --- Other holders --- */

#define SCENE_OTHER "another-holder"
void scene_hold(unsigned node, const char *key);
void scene_let_go(unsigned node, const char *key);
void scene_call_waiters(unsigned node, const char *key); /* as if it had been let go */
bool scene_has_key(unsigned node, const char *key);

#endif
