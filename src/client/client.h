/*
 * src/client is the top floor: what the user calls. redlock_client is the nodes, the locks, the operations in progress,
 * and one handler per loop turn; only this floor knows the struct.
 *
 *   functions.c    the public functions that start an operation, and the three ways to call
 *   operation.[ch] one description for each operation; acquire.c, release.c, query.c ... have one each
 *   call.[ch]      calls of other threads on their way to the loop's thread, which loop_thread.[ch] starts and ends
 *   posted.[ch]    calls by descriptor, and redlock_dispatch(); completions.[ch] and lock_events.[ch]: the way back
 *   lock.c, statistics.c  what only reads a handle or the client; options.[ch] checks what the user passes
 *
 * client.c in: the loop's turn, and what the nodes and the locks report. Out: the floors below do their part of the
 * turn, in an order that is said in src/README.md. What must never happen: a callback inside a call, or in a forked child.
 * Files that form call cycles: loop_thread creates and closes the client, whose turns run the calls that threads have
 * posted; a call starts an operation, whose end finishes the call.
 */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include <ev.h>
#include <pthread.h>
#include <stdbool.h>

#include "quorum/fence.h"
#include "redlock/redlock.h"
#include "src/client/operation.h"
#include "src/core/core.h"
#include "src/lock/locks.h"
#include "src/node/nodes.h"

struct rl_loop_thread;

#define RL_SLOTS_REMEMBERED 256

struct redlock_client {
    struct rl_core core;
    struct rl_nodes *nodes;
    struct rl_locks locks;
    struct rl_operations operations;
    pthread_t thread;                   /* an attached client: the only thread that may call */
    struct rl_loop_thread *loop_thread; /* NULL: an attached client */
    _Atomic(const char *) complaint;    /* of another thread, for the log; static */
    _Atomic(void *) user_data;

    bool in_turn; /* on_prepare() is on the stack: a callback may be running */
    bool dropped; /* in a forked child: freed when the turn ends */

    ev_prepare prepare;
    ev_idle idle; /* active if callbacks are left for the next turn, so that the loop does not sleep before it */
    ev_io timers_watcher;
    ev_io wakeup_watcher;

    struct quorum_fence_clock fence_clock;
    uint8_t slots[RL_SLOTS_REMEMBERED]; /* by the semaphore's hash: the last slot acquired, plus one; 0: none */

    struct rl_timer close_timer; /* closing: wakes the loop to check whether the nodes are done */
    quorum_time closing_since;
    quorum_time closing_due;                    /* closes early then; QUORUM_NEVER: at its end only */
    redlock_cancellation *closing_cancellation; /* NULL: none */
    uint64_t closing_changes;                   /* the cancellation's, when the close was called */
    int closing_early;                          /* the status of a close that ends early; otherwise REDLOCK_OK */
    unsigned closing_owed[REDLOCK_NODES_MAX];   /* undos that each node has not confirmed at the end of the close */
    redlock_callback closed;
    void *closed_arg;
};

/* REDLOCK_INVALID if the client is NULL or is closing, or if this is the wrong process or thread. */
int rl_client_enter(const redlock_client *client);

bool rl_client_in_owner_process(const redlock_client *client);

/* Creates a client on a loop. own_thread: the library runs the loop on its own thread. */
int rl_client_create(struct ev_loop *loop, bool own_thread, const char *nodes, const redlock_options *options,
                     redlock_client **client, redlock_result *result);

/* Frees everything at once and sends nothing: in a forked child, or if the loop has never run. */
void rl_client_destroy(redlock_client *client);

/* The same for an attached client in a forked child; in a callback, after it has returned. */
void rl_client_drop(redlock_client *client);

/* Closes the client in the arguments. The callback of an attached client is its last, with a NULL client. With a loop
 * thread the client stays until rl_client_free(). */
int rl_client_close(const struct rl_arguments *arguments, redlock_callback callback, void *arg);
void rl_client_free(redlock_client *client);

/* The result of a close that has ended. */
void rl_client_fill_close_result(const redlock_client *client, redlock_result *result);

/* What the close does with a lock that is released meanwhile. */
const char *rl_client_close_text(const redlock_client *client);

/* Logs why a call is invalid, on the loop's thread. Any thread; text: static. */
void rl_client_complain(redlock_client *client, const char *text);

#endif
