/*
 * The local queues: a client's waiters for one resource, or one set of them, first come, first served. Only the first
 * waiter has an entry in the nodes' queues, for the whole client. Readers have a separate queue and a separate
 * entry: the nodes decide between them and the client's writers, as between those of several clients. A queue is
 * kept for a second after its last waiter, and while this client holds the lock, because the next acquire is likely to
 * wait, too.
 *
 * Hand-over: the release of a lock gives it to the next waiter. A waiter's entry on a node carries an offer: the value
 * that the node may set the key to, with the waiter's ttl. The node's release script does so, and publishes the grant.
 * The waiter counts these grants as votes of a separate round. Its lease never gets a request, so it is undone only as
 * a whole: after that no grant for it counts, and the waiter's next offer has another token.
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

struct rl_handed;
struct rl_locks;
struct rl_held_by;
struct rl_lease;
struct rl_names;
struct rl_queue;
struct rl_round;
struct rl_vote;

#define RL_QUEUE_BUCKETS 256

/* The shortest ttl of a lock that is handed over: five times the validity that a hand-over may cost. */
#define RL_HANDOVER_TTL_MS 1000

/* An operation's place in a queue. */
struct rl_waiter {
    struct rl_queue *queue; /* NULL: not queued */
    struct rl_waiter *next;
    struct rl_waiter *previous;
    quorum_time deadline;                                        /* the operation's; QUORUM_NEVER: none */
    unsigned permits, wanted;                                    /* of a semaphore, and of them */
    void (*slot_freed)(struct rl_waiter *waiter, unsigned slot); /* one of its slots is free on a node */
    quorum_duration ttl;                                         /* a node may hand the lock over; 0: it may not */
    quorum_duration minimum_validity;
    /* A majority has handed the lock over, to the round's lease. */
    void (*handed)(struct rl_waiter *waiter, struct rl_round *round);
    bool shared;   /* a reader: tries together with the other readers */
    uint64_t turn; /* the queue's `turns` at its last attempt */
    /* Its turn: try to take the lock, then call rl_queue_tried() or rl_queue_leave(). */
    void (*attempt)(struct rl_waiter *waiter);
    /* No majority can wake it: it must try by itself, by rl_queue_try(). */
    void (*must_poll)(struct rl_waiter *waiter);
};

struct rl_queue {
    struct rl_locks *locks;
    struct rl_queue *next;     /* in the bucket */
    struct rl_queue *next_due; /* in the list of those whose first waiter is to have its turn */
    struct rl_lease *lease;    /* provides the key; it is never acquired */
    struct rl_waiter *first;   /* tries to take the lock */
    struct rl_waiter *last;
    struct rl_waiter *cursor; /* the next reader to try in this turn; NULL: none */
    struct quorum_waiting rules;
    struct rl_timer timer;            /* the rules' deadline; without waiters: the end of the queue */
    struct rl_round *offer;           /* counts the nodes that hand the lock over; a reference, or NULL */
    struct rl_held_by *held_by;       /* the holder that the nodes name; NULL: none does */
    struct rl_round *looking;         /* the look in progress; a reference */
    uint64_t ticket;                  /* the first waiter's ticket on the nodes */
    uint64_t seen;                    /* the largest ticket that a node had seen before */
    uint64_t place[QUORUM_NODES_MAX]; /* by node: a later place, as of its last reply; 0: the ticket */
    uint64_t turns;                   /* the number of turns of the first waiter */
    bool known;      /* waiters have queued here; false: the first attempt of the only ones so far is in progress */
    bool standing;   /* the first waiter has had its turn: the rules are its own, and nodes may have its entry */
    bool due;        /* in the list */
    bool attempting; /* waiters are making attempts */
    bool raised;     /* the ticket has been raised above `seen` */
    bool hot;        /* the last waiter that got the lock was handed it: the next one will find it held */
};

struct rl_queues {
    struct rl_queue *due;                           /* the first waiter of each has left in this turn of the loop */
    struct rl_queue *buckets[RL_QUEUE_BUCKETS + 1]; /* see queue_table.h */
    uint64_t last_ticket;
    struct quorum_polling polling;
};

/*
 * Adds a waiter at the tail. true: it is the first, and must try at once; the first attempt of a queue that is not known
 * yet does not go through the nodes' queues. Without memory it is not queued, and its queue is NULL.
 */
bool rl_queue_join(struct rl_locks *locks, const struct rl_names *names, struct rl_waiter *waiter);

/* Removes a waiter, with the round that it won or NULL. attempt: its last round, which gets the holder that the nodes
 * have named since; or NULL. The next waiter gets its turn at the end of this turn of the
 * loop: thousands may leave together, in any order. */
void rl_queue_leave(struct rl_waiter *waiter, const struct rl_round *won, struct rl_round *attempt);

/* Gives the new first waiters their turns. Call it before the loop sleeps; it may leave some to the next turn. */
void rl_queues_flush(struct rl_locks *locks);

/* The rules of a first waiter that has had its turn; otherwise NULL. */
const struct quorum_waiting *rl_queue_rules(const struct rl_waiter *waiter);

/* A node that this lock was released on has waiters: the client's next acquire is queued behind them. */
void rl_queue_expect(const struct rl_lease *released);

/*
 * The first waiter's attempt has failed, and it waits. held: other clients had the lock, or part of it. rest_until:
 * when it would try again by itself; it may be woken before.
 */
void rl_queue_tried(struct rl_waiter *waiter, bool held, quorum_time rest_until);

/* The first waiter makes an attempt by itself. */
void rl_queue_try(struct rl_waiter *waiter);

/* A node's reply to an attempt from the queue. */
void rl_queue_answered(struct rl_waiter *waiter, unsigned node, const struct rl_vote *vote, const redisReply *reply);

/* A majority of the nodes can wake the waiter. Otherwise it must try by itself now and then. */
bool rl_queue_can_be_notified(const struct rl_waiter *waiter);

/* From the listeners: a node notifies this client that the lock of this key is free; a node's messages reach this
 * client from now on, or no longer do. */
void rl_queues_wake(struct rl_locks *locks, unsigned node, const char *key, size_t size);
void rl_queues_listening(struct rl_locks *locks, unsigned node, bool listening);

/* The request, which enqueues the first waiter, carries its offer, if the waiter can be handed the lock. */
void rl_handover_offer(struct rl_queue *queue, struct rl_round *request);

/* A node says that it has handed a lock over to this client. Only a grant of the client's own outstanding offer, or of a
 * lock that it holds by one, has an effect: any user who may publish can send any other. */
void rl_handover_take(struct rl_locks *locks, unsigned node, const struct rl_handed *handed);

void rl_queues_free(struct rl_locks *locks);

#endif
