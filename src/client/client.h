/* A client: the nodes, what is under way on them, and the loop turn that moves both. */
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
#include "src/lock/round.h"
#include "src/node/nodes.h"

struct rl_blocking;

#define RL_SLOTS_REMEMBERED 256

struct redlock_client {
    struct rl_core core;
    struct rl_nodes *nodes;
    struct rl_locks locks;
    struct rl_operations operations;
    pthread_t thread; /* the only one that may call */
    volatile unsigned char
        *fork_canary; /* a page that the kernel wipes in a forked child: 1 in the process that made the client */
    struct rl_blocking *blocking; /* the blocking API's half; NULL with the asynchronous API */

    ev_prepare prepare;
    ev_idle idle; /* started when completions are left for the next turn, which must not sleep then */
    ev_io timers_watcher;
    ev_io wakeup_watcher;

    struct quorum_fence_clock fence_clock;
    uint8_t slots[RL_SLOTS_REMEMBERED]; /* the last slot of a semaphore that was acquired, plus one, by hash; 0: none */

    struct rl_timer close_timer; /* closing: the end of a node's time to reply */
    quorum_time closing_since;
    redlock_callback closed;
    void *closed_arg;
};

/* The status of a call: NULL, another process, another thread, closing. */
int rl_client_enter(const redlock_client *client);

/* Whether this is the process that made it, not a forked child. */
bool rl_client_in_owner_process(const redlock_client *client);

/* Makes a client on a loop. own_thread: the loop's thread is ours. */
int rl_client_create(struct ev_loop *loop, bool own_thread, const char *nodes, const redlock_options *options,
                     redlock_client **client, redlock_result *result);

/* Frees everything at once, in a forked child or before the loop has ever run. */
void rl_client_destroy(redlock_client *client);

int rl_client_close(redlock_client *client, redlock_callback callback, void *arg);

/* A node has become usable, or is not any more. */
void rl_client_node_changed(redlock_client *client, struct rl_node *node);

#endif
