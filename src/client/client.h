/* A client: the nodes, what is under way on them, and the loop turn that moves both. */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "quorum/clock_watch.h"
#include "quorum/fence.h"
#include "quorum/permits.h"
#include "redlock/redlock.h"
#include "src/client/blocking.h"
#include "src/client/operation.h"
#include "src/client/statistics.h"
#include "src/core/random.h"
#include "src/core/timer.h"
#include "src/core/wakeup.h"
#include "src/link/adapter.h"
#include "src/link/tls.h"
#include "src/lock/lease.h"
#include "src/lock/queue.h"
#include "src/lock/renewal.h"
#include "src/lock/round.h"
#include "src/node/node.h"

struct rl_blocking;
struct rl_proof;

#define RL_SLOTS_REMEMBERED 256

struct redlock_client {
    redlock_allocator allocator;
    redlock_options options; /* strings are the client's own */
    struct ev_loop *loop;
    pthread_t thread;              /* the one that may call */
    volatile unsigned char *birth; /* a page that is wiped in a forked child: 1 in the process that made the client */
    struct rl_blocking *blocking;  /* the blocking face's half; NULL in the asynchronous face */

    struct rl_writes writes;
    struct rl_timers timers;
    struct rl_random random;
    char channel
        [RL_CHANNEL_SIZE]; /* where it is called as a waiter, and its name in queues: the prefix and 16 random digits */
    struct rl_wakeup *wakeup;
    struct rl_tls *tls; /* NULL when no node needs it */
    ev_prepare prepare;
    ev_idle idle; /* started when completions are left for the next turn, which must not sleep then */
    ev_io timers_watcher;
    ev_io wakeup_watcher;

    struct rl_operations operations;
    struct rl_leases leases;
    struct rl_queues queues;
    struct rl_timer renewal_timer; /* renewals have gathered long enough */
    unsigned renewal_turn;         /* which node the next of many renewals ask first */
    redlock_statistics statistics;
    struct quorum_clock_watch clock_watch;
    quorum_time stood_still; /* when our clock was last found to have; 0: never */
    struct quorum_fence_clock fence_clock;
    uint8_t slots[RL_SLOTS_REMEMBERED]; /* which slot of a semaphore was had last, and one; by hash */
    struct rl_round *coming;            /* rounds that wait for a node to become usable */
    struct rl_round *undoing;           /* rounds with undos to be sent soon */
    struct rl_timer undo_timer;
    quorum_nodes unproven;         /* nodes that were sent grants since the last proof */
    struct rl_proof *spare_proofs; /* kept for the next ones */
    struct rl_round *spare_rounds; /* kept for the next ones */
    unsigned spare_count;

    struct rl_lease *unreleased;   /* no memory to release them so far */
    struct rl_timer release_timer; /* when to try again */
    struct rl_timer close_timer;   /* closing: when a node's time to answer is over */

    bool closing;
    bool forked; /* being freed in a child: nothing is sent, nobody is called */
    quorum_time closing_since;
    unsigned pending_undos; /* given up in closing */
    redlock_callback closed;
    void *closed_arg;

    unsigned nodes_count;
    struct rl_node nodes[];
};

/* The status of a call: NULL, another process, another thread, closing. */
int rl_client_enter(const redlock_client *client);

/* In the process that made it? */
bool rl_client_is_at_home(const redlock_client *client);

/* Makes a client on a loop. own_thread: the loop's thread is ours. */
int rl_client_create(struct ev_loop *loop, bool own_thread, const char *nodes, const redlock_options *options,
                     redlock_client **client, redlock_result *result);

/* Frees everything at once, in a forked child or before the loop has ever run. */
void rl_client_destroy(redlock_client *client);

int rl_client_close(redlock_client *client, redlock_callback callback, void *arg);

/* A node has become usable, or is not any more. */
void rl_client_node_changed(redlock_client *client, struct rl_node *node);

bool rl_logs(const redlock_client *client, int level);
void rl_log(redlock_client *client, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline void *rl_client_allocate(redlock_client *client, size_t size)
{
    return client->allocator.allocate(size, client->allocator.user);
}

static inline void rl_client_free(redlock_client *client, void *memory)
{
    client->allocator.release(memory, client->allocator.user);
}

#endif
