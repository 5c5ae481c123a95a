/* Clients of nodes that all reply, and threads that wait for a lock. */
#ifndef TESTS_REAL_CLIENTS_H
#define TESTS_REAL_CLIENTS_H

#include "real/held.h"

#include <pthread.h>

enum { CLIENTS_TTL_MS = 20000 };

/* Opens the i-th kind of face, without the guard, for nodes that all reply, with timeouts for a slow machine. */
struct face *clients_open(int i);
struct face *clients_open_with(int i, uint32_t ttl_ms, uint32_t renewal_percent);

/* Waits until the command's reply about the key is such a number on every node. face NULL: runs no loop meanwhile. */
void clients_await(struct face *face, const char *command, const char *key, long long least, long long most);
/* Waits until the resource has as many waiters on every node. */
void clients_await_waiters(struct face *face, const char *resource, int least);
/* Fails if a node has a key of the resource's queue that would outlive its waiters: each expires 12 s after its last use. */
void clients_assert_queue_expires(const char *resource);
/* Waits until every node has this many subscribers of the library's channels. */
void clients_await_subscribers(long long least, long long most);

/* A thread that acquires with the blocking API. */
struct waiter {
    pthread_t thread;
    redlock_client *client;
    const char *resource;
    redlock_acquire_options options;
    redlock_lock *lock;
    redlock_result result;
    uint64_t got_ns, released_ns; /* when the acquire returned, and when the release began */
    atomic_bool ended;
};

/* Waits without a limit, unless the options say how long. */
void waiter_start(struct waiter *waiter, struct face *face, const char *resource, redlock_acquire_options options);
/* Joins the thread. Returns the acquire's status; the second function fails unless it is REDLOCK_OK. */
int waiter_join(struct waiter *waiter);
void waiter_finish(struct waiter *waiter);
void waiter_release(struct waiter *waiter);
void waiter_finish_and_release(struct waiter *waiter);
/* The same for several that wait for each other, in the order in which they acquire. */
void waiters_finish_and_release(struct waiter *waiters, size_t count);

#endif
