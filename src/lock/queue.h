/*
 * A client's own waiters for one resource, or for the same ones. They queue first come, first served; only the first of
 * them stands in the queue on the nodes, for the whole client. A queue is kept for a while after its last waiter,
 * because whoever waited here will soon want to again.
 */
#ifndef RL_QUEUE_H
#define RL_QUEUE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quorum/waiting.h"
#include "redlock/redlock.h"
#include "src/core/timer.h"

struct rl_locks;
struct rl_lease;
struct rl_names;
struct rl_queue;
struct rl_round;
struct rl_vote;

#define RL_QUEUE_BUCKETS 256

/* An operation's place in it. */
struct rl_waiter {
    struct rl_queue *queue; /* NULL: not queued */
    struct rl_waiter *next;
    quorum_time deadline;                                         /* of the operation; QUORUM_NEVER: none */
    unsigned permits;                                             /* of a semaphore */
    void (*slot_called)(struct rl_waiter *waiter, unsigned slot); /* one of its slots is free on a node */
    bool fair;
    bool shared;   /* a reader: competes together with those before it, if all of them are readers */
    uint64_t call; /* the queue's call it has made an attempt for */
    void (*attempt)(struct rl_waiter *waiter); /* its turn: try to take the lock, then tell rl_queue_tried() or leave */
    void (*uncalled)(
        struct rl_waiter *waiter); /* no majority will call it: it has to try by itself, by rl_queue_try() */
};

struct rl_queue {
    struct rl_locks *locks;
    struct rl_queue *next;   /* of the bucket */
    struct rl_lease *lease;  /* has the key; is never sent */
    struct rl_waiter *first; /* competes */
    struct rl_waiter *last;
    struct quorum_waiting rules;
    struct rl_timer timer;            /* the rules' deadline; without waiters: the end of the queue */
    struct rl_round *looking;         /* a look under way; a reference */
    uint64_t ticket;                  /* the first waiter's place on the nodes */
    uint64_t seen;                    /* the largest ticket that was there before */
    uint64_t place[QUORUM_NODES_MAX]; /* where each node has it, as of its last answer; 0: at the ticket */
    uint64_t calls;                   /* how often the first was told to try */
    bool fair;
    bool attempting; /* its waiters are being told to try */
    bool again;      /* and there is a new first one to be told, too */
    bool raised;     /* the ticket has been raised above what a majority had seen */
};

struct rl_queues {
    struct rl_queue *buckets[RL_QUEUE_BUCKETS + 1];
    uint64_t last_ticket;
};

/* The queue for a resource, or NULL: nobody waits, or has waited lately. */
struct rl_queue *rl_queue_find(struct rl_locks *locks, const struct rl_names *names);

/* Joins, at the end. true: it is the first, and to compete at once. Without memory it is not queued, and its queue is
 * NULL. */
bool rl_queue_join(struct rl_locks *locks, const struct rl_names *names, struct rl_waiter *waiter, bool fair);

/* Leaves, with the lock that was won or with NULL. The next one's turn comes. */
void rl_queue_leave(struct rl_waiter *waiter, const struct rl_lease *won);

/* A node that had not yet seen the lock's release queued the waiter, after the other nodes had granted it the lock: the
 * client leaves the queue there, unless another of its waiters has that place by now. */
void rl_queue_leave_late(struct rl_locks *locks, const struct rl_lease *won);

bool rl_queue_is_first(const struct rl_waiter *waiter);

/*
 * The first waiter begins to wait after an attempt that did not stand in the queue, or one that did. held: others had
 * it, or part of it. rest_until: when it would try again by itself; it may be called before.
 */
void rl_queue_tried(struct rl_waiter *waiter, bool held, quorum_time rest_until);

/* The first waiter makes an attempt by itself. */
void rl_queue_try(struct rl_waiter *waiter);

/* A node's answer to an attempt that stands in the queue. */
void rl_queue_answered(struct rl_waiter *waiter, unsigned node, const struct rl_vote *vote, const redisReply *reply);

/* Will a majority of the nodes call it? Else it has to try by itself now and then. */
bool rl_queue_is_called(const struct rl_waiter *waiter);

/* Does anybody of this client wait for the lease's resource? */
bool rl_queue_is_waiting(struct rl_locks *locks, const struct rl_lease *lease);

/* From the listeners: a node says that the lock of this key is free for us; a node's word reaches us, or does not any
 * more. */
void rl_queues_wake(struct rl_locks *locks, unsigned node, unsigned ahead, const char *key, size_t size);
void rl_queues_listening(struct rl_locks *locks, unsigned node, bool listening);

void rl_queues_free(struct rl_locks *locks);

#endif
