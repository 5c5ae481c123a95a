/* Clients that hold locks: the nodes, options with renewal, and records of a lock's events. */
#ifndef TESTS_REAL_HELD_H
#define TESTS_REAL_HELD_H

#include "real/real.h"

#include <stdatomic.h>
#include <stddef.h>

enum { HELD_NODES = 5, HELD_QUORUM = 3 };

extern struct cluster *cluster; /* the nodes of the running test */
extern redlock_result result;   /* of its last call */

/* Options with renewal, this ttl, and short limits for silent nodes. guard: 0 or 1, with a max_ttl of 2 s. */
redlock_options held_options(uint32_t ttl_ms, uint32_t guard);

/* The events that the holder of a lock has received. Any thread may read it. */
struct held_story {
    atomic_uint failing;
    atomic_uint lost;
    atomic_int loss;
    atomic_llong lost_ns;     /* time of the LOST event, by test_now_ns() */
    atomic_llong validity_ms; /* validity that the LOST event reported */
    redlock_lock *lock;       /* the handle that the event named */
};

/* Acquire options with held_event() as the event callback. Its arg is the story, in which it records the events. */
redlock_acquire_options held_acquire_options(struct held_story *story);
void held_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *story);

/* A client with a lock whose events the story records. */
struct held_scene {
    struct face *face;
    struct held_story story;
    redlock_acquire_options acquire; /* with the story */
    redlock_lock *lock;
};

/* Starts HELD_NODES servers whose clocks cluster_shift_clock() can shift. */
void held_nodes_with_clocks(void);
/* Opens the i-th kind of face, as held_open_trusted() does. */
void held_begin(struct held_scene *scene, int i, const redlock_options *options);
/* Acquires the lock; held_take_everywhere() waits until each node has it. */
void held_take(struct held_scene *scene, const char *key);
void held_take_everywhere(struct held_scene *scene, const char *key);

/* Opens the i-th kind of face on the nodes (NULL: those of the cluster, and if there is none, HELD_NODES new ones), and
 * waits until each is ready. The case closes it. With the guard on, held_open_trusted() also calls redlock_trust(), which
 * ends the quarantine of new servers. */
struct face *held_open(int i, const char *nodes, const redlock_options *options);
struct face *held_open_trusted(int i, const char *nodes, const redlock_options *options);
void held_trust(struct face *face);

/* Waits until the lock is acquired; fails the test if it is not. */
redlock_lock *held_acquire(struct face *face, const char *key, const redlock_acquire_options *options);
/* Fails unless the acquire ends with this status, without a lock. */
void held_refuse(struct face *face, const char *key, const redlock_acquire_options *options, int status);
/* Fails unless the last result's text has these words. */
void held_result_says(const char *words);
/* Leaves `result` as it is, as the next two do. */
void held_release(struct face *face, redlock_lock **lock);
/* For clients that must be closed before the test ends. Starts the nodes that are down, if there is something to undo. */
void held_close(struct face *face);
void held_close_all(void);

/* Waits until all earlier events have been reported. Makes a round trip through the loop and sends no request. */
void held_settle(struct face *face);

redlock_node_status held_node_status(struct face *face, uint32_t node);
redlock_statistics held_statistics(struct face *face);
/* Waits until a counter of redlock_statistics, named by its offset, has grown by this much. */
void held_await_more(struct face *face, size_t counter, uint64_t more);
#define HELD_COUNTER(name) offsetof(redlock_statistics, name)

/* Conditions for real_until(). */
bool held_is_lost(const struct held_story *story);
bool held_all_usable(struct face *face);
bool held_clocks_known(struct face *face); /* two samples of each clock: in the handshake and in a heartbeat */

/* Does the node have the key with the lock's token? */
bool held_is_on(size_t node, const char *key, const redlock_lock *lock);
/* Waits until every node has it. */
void held_everywhere(struct face *face, const char *key, const redlock_lock *lock);

#endif
