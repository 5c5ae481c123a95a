/* What the tests of held locks share: clients whose locks are renewed, what a holder was told, and outages that last. */
#ifndef TESTS_HELD_H
#define TESTS_HELD_H

#include "real.h"

#include <stdatomic.h>

enum { HELD_NODES = 5, HELD_QUORUM = 3 };

/* Renewal on, the given ttl, nodes given up soon; guard: 0 or 1, with a max_ttl of 2 s. */
redlock_options held_options(uint32_t ttl_ms, uint32_t guard);

/* What its holder was told of a lock. Any thread may look. */
struct held_story {
    atomic_uint failing;
    atomic_uint ending;
    atomic_uint lost;
    atomic_int loss;
    atomic_llong told_ns;         /* when it was told of the loss, by test_now_ns() */
    atomic_llong validity_ms;     /* what was left then */
    atomic_llong ending_validity; /* what was left when its end was announced */
    redlock_lock *lock;           /* the handle that the event named */
};

/* Acquire options that tell it; the callback takes the story as its arg. */
redlock_acquire_options held_acquire_options(struct held_story *story);
void held_event(redlock_lock *lock, int event, int loss, int64_t validity_ms, void *story);

/* A face on the cluster's nodes; ready means that each can be asked. Guarded ones are trusted first, which ends the
 * quarantine of the new servers. */
struct face *held_open(enum face_kind kind, const char *nodes, const redlock_options *options);
struct face *held_open_trusted(enum face_kind kind, const char *nodes, const redlock_options *options);
void held_trust(struct face *face);
/* The i-th kind's, without the guard, on nodes that all answer, however slow the machine is. */
struct face *held_open_patient(int i, struct cluster *cluster, uint32_t ttl_ms, uint32_t renewal_percent);

/* Waits until it is acquired; fails the test if it is not. */
redlock_lock *held_acquire(struct face *face, const char *key, const redlock_acquire_options *options);
void held_release(struct face *face, redlock_lock **lock);
void held_close(struct face *face);

/* What has happened so far has been told: a round trip through the loop, which asks no node. */
void held_settle(struct face *face);

redlock_node_status held_node_status(struct face *face, uint32_t node);

/* Does the node show the key with the lock's token? */
bool held_is_on(struct cluster *cluster, size_t node, const char *key, const redlock_lock *lock);
/* Waits until every one does. */
void held_everywhere(struct face *face, struct cluster *cluster, const char *key, const redlock_lock *lock);

#endif
