/*
 * A scene for tests of the library against fake nodes: N nodes, a loop, and a client on the loop. scene_end() checks
 * what must be true after every test: each operation had exactly one callback, no key of ours is on any node, no
 * descriptor is open, and no log line contained a password.
 *
 *     SCENE_CASE(votes, scene_five_nodes);
 */
#ifndef TESTS_FAKE_SCENE_H
#define TESTS_FAKE_SCENE_H

#include <check.h>
#include <ev.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "redlock/redlock.h"
#include "support/allocator.h"
#include "support/clock.h"
#include "support/fake_server.h"
#include "support/fixture.h"
#include "support/raw_client.h"
#include "support/test.h"

enum { SCENE_NODES = 5, SCENE_SOON_MS = 10000, SCENE_TIMEOUT_S = 100 };

/* A password that must not appear in a log line or an error. */
#define SCENE_SECRET TEST_SECRET

struct scene {
    unsigned nodes;
    struct fake_server *node[SCENE_NODES];
    const char *prefix;              /* begin of each node's URI on TCP; NULL: "redis://" */
    const char *suffix[SCENE_NODES]; /* end of the node's URI, "?timeout_ms=20"; NULL: none */
    struct ev_loop *loop;
    redlock_client *client;    /* scene_end() closes it if the test has not */
    redlock_client *connected; /* the same if it has its own thread, also while it is being closed */
    redlock_cancellation *cancellation;
    redlock_options options;
    bool keys_may_stay; /* set by a test whose nodes are unreachable at its end */
    bool was_cut_off;   /* a node, by scene_cut_off() */
    unsigned started;   /* operations */
    unsigned completed; /* callbacks */
};
extern struct scene scene;

void scene_begin(unsigned nodes);
void scene_end(void);

/* Setups of a case that need nothing more. */
void scene_one_node(void);
void scene_three_nodes(void);
void scene_five_nodes(void);
/* A case whose tests begin with setup, which calls scene_begin(), and end with scene_end(). */
#define SCENE_CASE(name, setup) TEST_CASE_WITHIN(name, setup, scene_end, SCENE_TIMEOUT_S)

/* A waiter's offer, as a node has received it. */
struct scene_offer {
    char value[64];
    unsigned long long ttl_ms, number;
};

/* Reads the last offer that the node has received. false: none. */
bool scene_read_offer(unsigned node, struct scene_offer *offer);
/* Notifies the waiters of the key with this message, or of the key itself that it is free. */
void scene_publish(unsigned node, const char *key, const char *message);
/* Hands the lock over as the release script does, on this node alone. shown: the proof. */
void scene_hand_over(unsigned node, const char *key, const struct scene_offer *offer, const char *shown);

/* "redis://127.0.0.1:4711?timeout_ms=20,..." Valid until the next call. */
const char *scene_list(void);

/* The client will use this allocator. */
struct test_allocator *scene_count_memory(void);
/* Attaches a client to the loop, with scene.options. scene_attach() waits until every node is ready. */
void scene_attach(void);
void scene_attach_only(void);
/* Creates a client with its own thread, for the blocking API and redlock_dispatch(), and waits until every node is
 * ready. */
void scene_connect(void);
/* Creates the client's scene.cancellation, which scene_end() destroys. */
redlock_cancellation *scene_cancellation(void);

/* Waits until every node is ready. */
void scene_wait_for_ready(void);
/* Returns the number of ready nodes. Turns the loop at least once. */
unsigned scene_ready_nodes(void);

redlock_statistics scene_statistics(void);
/* Has the client logged this text, other than for debugging, or as an undo? For any thread. */
bool scene_is_logged(const char *text);

/* --- Turning the loop --- */

void scene_turn(void);
/* Turns the loop until the condition holds. ..._or() has a text for the failure. No test passes because the time is
 * over, so it may be long. */
#define scene_until_or(condition, ...)                                                                                 \
    do {                                                                                                               \
        uint64_t until_ = test_deadline_ns(6 * SCENE_SOON_MS);                                                         \
        while (!(condition)) {                                                                                         \
            ck_assert_msg(test_now_ns() < until_, __VA_ARGS__);                                                        \
            scene_turn();                                                                                              \
        }                                                                                                              \
    } while (0)
#define scene_until(condition) scene_until_or(condition, "waited in vain until: %s", #condition)
/* Turns the loop for this time, in which nothing is expected to happen. */
void scene_idle(unsigned ms);

/* --- Threads --- */

pthread_t scene_thread(void *(*run)(void *arg), void *arg);
void *scene_join(pthread_t thread);

/* fork(2) while no node's thread allocates: unlike malloc(3)'s, AddressSanitizer's locks stay taken in the child. The
 * other threads of the test must not allocate either; Check's assertions do. */
pid_t scene_fork(void);

/* --- Operations --- */

struct answer {
    unsigned callbacks; /* that it had */
    unsigned place;     /* position of its callback among all callbacks of the scene, from 1 */
    redlock_lock *lock;
    redlock_result result;
    redlock_state state;
};

/* Callbacks that fill the struct answer passed as arg. */
void scene_acquired(redlock_client *client, redlock_lock *lock, const redlock_result *result, void *answer);
void scene_completed(redlock_client *client, const redlock_result *result, void *answer);
void scene_queried(redlock_client *client, const redlock_state *state, const redlock_result *result, void *answer);

/* The events of a lock: an event callback whose argument is a struct scene_events. */
struct scene_events {
    unsigned count, lost;
    int event[4], loss[4]; /* of the first ones */
};
void scene_note_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *events);

/* For a call that has no function below:
 *     scene_started(&answer, redlock_trust_async(scene.client, NULL, scene_completed, scene_cleared(&answer))); It returns
 * the answer. */
struct answer *scene_cleared(struct answer *answer);
struct answer *scene_started(struct answer *answer, int status);

/* Each clears the answer, starts an operation, and returns the answer: scene_wait(scene_start_query(&answer, "stock")).
 * ..._then() has a callback of the test, which calls the usual one. */
struct answer *scene_start_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options);
struct answer *scene_start_acquire_then(struct answer *answer, const char *resource,
                                        const redlock_acquire_options *options, redlock_acquire_callback callback);
struct answer *scene_start_ready(struct answer *answer, int64_t wait_ms);
struct answer *scene_start_ready_then(struct answer *answer, int64_t wait_ms, redlock_callback callback);
struct answer *scene_start_adopt(struct answer *answer, const char *resource, const redlock_acquire_options *options,
                                 const char *token);
struct answer *scene_start_release_token(struct answer *answer, const char *resource, const char *token);
struct answer *scene_start_extend(struct answer *answer, redlock_lock *lock, uint32_t ttl_ms);
struct answer *scene_start_release(struct answer *answer, redlock_lock **lock);
struct answer *scene_start_query(struct answer *answer, const char *resource);
struct answer *scene_start_close(struct answer *answer);

/* Turns the loop, or dispatches, until the operation has ended; returns its status. */
int scene_wait(struct answer *answer);

int scene_acquire(struct answer *answer, const char *resource, const redlock_acquire_options *options);
int scene_release(struct answer *answer, redlock_lock **lock);
int scene_close(struct answer *answer);
/* Starts acquires of the locks "lock-0", "lock-1" ... */
void scene_start_acquires(struct answer *answers, unsigned count, const redlock_acquire_options *options);
/* The name of one of them; valid until the next call. */
const char *scene_name(unsigned i);
/* Acquires a lock; fails the test if it is not granted within SCENE_SOON_MS. */
redlock_lock *scene_lock(const char *resource);
/* Acquires a lock like scene_lock(), and releases it. */
void scene_lock_and_release(const char *resource);

/* Acquire options: the defaults, except for these fields. They live until the end of the enclosing block. */
#define SCENE_WITH(...) REDLOCK_ACQUIRE_WITH(__VA_ARGS__)

#define ck_assert_status(actual, expected)                                                                             \
    do {                                                                                                               \
        int actual_ = (actual), expected_ = (expected);                                                                \
        ck_assert_msg(actual_ == expected_, "%s instead of %s", redlock_status_name(actual_),                          \
                      redlock_status_name(expected_));                                                                 \
    } while (0)

#define ck_assert_answer(checked, expected)                                                                            \
    do {                                                                                                               \
        redlock_result *result_ = &(checked)->result;                                                                  \
        ck_assert_msg(result_->status == (expected), "%s instead of %s: %s", redlock_status_name(result_->status),     \
                      redlock_status_name(expected), redlock_result_text(result_));                                    \
    } while (0)

#define ck_assert_has(text, part) ck_assert_msg(strstr((text), (part)) != NULL, "'%s' lacks '%s'", (text), (part))

/* --- Commands that the nodes received --- */

/* SENT_WAIT: a waiter's script, which enqueues it or polls. SENT_ATTEMPT: a SET, or a waiter's script that acquires the
 * lock if it is free. SENT_UNDO: a release or undo of one exclusive lock; SENT_FREE: of any other. */
enum sent { SENT_ANY, SENT_SET, SENT_ATTEMPT, SENT_WAIT, SENT_UNDO, SENT_FREE, SENT_EXTEND, SENT_QUERY, SENT_KILL };

/* Returns the index-th such command that the node has received, with its position among all its commands; NULL if there
 * are fewer. token NULL: any token. */
const struct fake_record *scene_sent(unsigned node, enum sent what, const char *token, unsigned index, unsigned *place);
unsigned scene_count(unsigned node, enum sent what);
/* The number that all nodes together have received. */
unsigned scene_count_all(enum sent what);
/* Turns the loop until the node has received count such commands. */
void scene_wait_for_sent(unsigned node, enum sent what, unsigned count);
/* Turns the loop until the node has accepted count connections since it was started. */
void scene_wait_for_accepted(unsigned node, unsigned count);
/* Returns the token of an attempt, an undo or an extension. */
const char *scene_token(const struct fake_record *record);

/* Of a script's call: the index of the first argument behind the keys. */
size_t scene_first_argument(const struct resp_command *command);

/* Turns the loop until every attempt that these nodes received is followed by its undo, on the same connection. */
void scene_assert_undone_on(unsigned first, unsigned end);

/* --- Other holders --- */

#define SCENE_OTHER "ffffffffffffffffffffffffffffffffffffffff"
void scene_hold(unsigned node, const char *key);

/* --- Several nodes: from first to end - 1 --- */

void scene_each(unsigned first, unsigned end, void (*act)(struct fake_server *node));
void scene_add_rule(unsigned first, unsigned end, const struct fake_rule *rule);
/* The nodes keep their replies to this command (NULL: to any) until scene_calm(). */
void scene_hold_replies(unsigned first, unsigned end, const char *command);
/* Ends all that was done to the nodes: rules, replies that are held back, a pause, a closed port. */
void scene_calm(unsigned first, unsigned end);
void scene_hold_on(unsigned first, unsigned end, const char *key);
void scene_let_go_on(unsigned first, unsigned end, const char *key);
/* Turns the loop until what these nodes have not replied to is overdue, as if their timeouts had passed. */
void scene_time_out(unsigned first, unsigned end);
/* Turns the loop until these nodes have replied to all that they were sent. */
void scene_wait_for_replies(unsigned first, unsigned end);
/* As fake_server_refuse(). */
void scene_refuse(unsigned first, unsigned end, const char *command, unsigned count, const char *error);
/* Breaks their connections and refuses new ones, and turns the loop until the client has noticed. */
void scene_cut_off(unsigned first, unsigned end);
void scene_assert_key(unsigned first, unsigned end, const char *key, bool is_there);
void scene_wait_for_no_key(unsigned first, unsigned end, const char *key);
void scene_wait_for_sent_to(unsigned first, unsigned end, enum sent what, unsigned count);

void scene_call_waiters(unsigned node, const char *key); /* notifies the waiters as a release does */
bool scene_has_key(unsigned node, const char *key);

#endif
