/*
 * Waiting for a lock without continuous polling, first come, first served. The waiter has an entry in a queue on each
 * node, which notifies it when its turn has come. Only the first waiter takes a free lock: it tries when a majority is
 * free for it, by the nodes' messages or by an expiry it knows. It
 * polls once a second (a look), in case a message was lost. It leaves all queues if a majority does not have its entry,
 * because an entry counts only on a majority.
 *
 * A client of another library publishes nothing when it releases. While such a client holds the lock, the waiter makes
 * attempts at growing intervals, which begin anew with each holder, and at short ones when a holder has had the lock for
 * about as long as the one before. A holder is foreign by the form of its token; or because it follows another one, and
 * no message said that the lock was free. And the waiter makes one attempt shortly before its deadline.
 *
 * All waiters of a client share an allowance of looks and attempts. Behind foreign holders they poll within it.
 */
#ifndef QUORUM_WAITING_H
#define QUORUM_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

/* What a client's waiters have sent, counted as time; zeros at first. */
struct quorum_polling {
    quorum_time spent_until;
};

struct quorum_waiting_terms {
    unsigned nodes;
    struct quorum_polling *polling; /* the client's */
    quorum_duration refresh;        /* between looks */
    quorum_duration margin;         /* much longer than messages of several nodes about one release differ */
    quorum_duration patience;       /* after the first node has handed the lock over, for a majority */
    quorum_duration watch;    /* before the first attempt behind a foreign holder; doubles with each. When the holder is
                                 likely to change, a quarter of it */
    quorum_time last_attempt; /* the attempt before the deadline; QUORUM_NEVER: none */
    quorum_time deadline; /* behind a foreign holder each next attempt is made after half of the time that is left */
};

struct quorum_waiting {
    struct quorum_waiting_terms terms;
    quorum_nodes listening;                /* nodes whose messages reach us */
    quorum_nodes heard;                    /* nodes whose message arrived since the last look or attempt was sent */
    quorum_nodes notified;                 /* nodes that have notified us since then */
    quorum_nodes listed;                   /* nodes that may have our entry, by any request since */
    quorum_nodes enqueued;                 /* nodes that have our entry, as of the last look or attempt */
    quorum_nodes free;                     /* nodes that would grant it to us now */
    quorum_nodes left;                     /* nodes where it is free, but another waiter is ahead of us */
    quorum_time free_at[QUORUM_NODES_MAX]; /* when the node's key expires, if known */
    quorum_time look_at;                   /* the next look */
    quorum_time rest_until;                /* no attempt before this */
    quorum_time lost_at;                   /* when the last attempt failed */
    unsigned losses;                       /* failed attempts in quick succession */
    uint64_t holder[QUORUM_NODES_MAX];     /* the last holder seen there; 0: none yet */
    quorum_nodes first;                    /* nodes whose last reply had no waiter ahead of us */
    quorum_nodes messaged;                 /* nodes whose message arrived since their last reply */
    quorum_nodes unannounced;              /* nodes whose holder followed another one without a message */
    quorum_nodes foreign;                  /* nodes where a foreign client holds the lock */
    quorum_nodes changed;                  /* nodes whose holder is another one, by the last replies */
    quorum_nodes succeeded;                /* nodes where another foreign holder has followed, by the last replies */
    quorum_duration pause;                 /* grows with the looks behind one holder */
    quorum_time changed_at;                /* when the present foreign holder was first seen */
    quorum_duration tenure;                /* how long the one before had the lock; 0: not known */
    bool watching;                         /* foreign holders have too many nodes: attempts take the place of looks */
    bool probing;                          /* the attempt in progress, or the last one, took the place of a look */
    quorum_time overtake_at;               /* when nodes move a first waiter that leaves the lock free to the tail */
    quorum_nodes handed;                   /* nodes that have handed the lock over, by a poll */
    quorum_nodes told;                     /* the same, by a message */
    quorum_time give_up_at; /* when the nodes that handed the lock over count as too few; QUORUM_NEVER: no node */
    bool looking;           /* a look is in progress */
    bool trying;            /* an attempt is in progress */
};

enum quorum_waiting_event_type {
    QUORUM_WAITING_LISTENING, /* node: its messages reach us from now on */
    QUORUM_WAITING_DEAF,      /* node: they do not any more */
    QUORUM_WAITING_ENQUEUED,  /* node has replied to a look or an attempt: remaining, ahead */
    QUORUM_WAITING_LOOKED,    /* every node has replied to a look, or timed out */
    QUORUM_WAITING_NOTIFIED,  /* node notifies us: the lock is free, and we are the first waiter */
    QUORUM_WAITING_HANDED,    /* node has handed the lock over to us, and a majority has not: polled */
    QUORUM_WAITING_TRIED,     /* the attempt failed */
    QUORUM_WAITING_WOKEN      /* the deadline has passed */
};

#define QUORUM_FREE 0 /* as remaining: no key */

struct quorum_waiting_event {
    enum quorum_waiting_event_type type;
    quorum_time now;
    unsigned node;
    quorum_duration remaining; /* ENQUEUED: the key's remaining ttl; QUORUM_FREE; QUORUM_NEVER */
    bool polled;               /* HANDED: the reply to a poll says so, not a message */
    bool behind;               /* ENQUEUED: a live waiter is ahead of us */
    uint64_t holder;           /* ENQUEUED: a number for the holder's token; 0: none */
    bool is_ours;              /* ENQUEUED: that token has the form of ours */
    bool misplaced;            /* TRIED: enter the queue again, at another place */
    quorum_time rest_until;    /* TRIED: when to try again without a message */
    bool in_the_way;           /* TRIED: another client holds the lock, or part of it */
};

struct quorum_waiting_actions {
    bool look;           /* send a look to all usable nodes, which enters their queues */
    bool withdraw;       /* too few nodes have handed the lock over: give it back, before the attempt */
    quorum_nodes silent; /* with withdraw: nodes that have handed it over without a message: subscribe anew there */
    bool attempt;        /* try to acquire */
    bool dequeue;        /* leave the queue on all nodes: too few have our entry */
};

void quorum_waiting_init(struct quorum_waiting *waiting, const struct quorum_waiting_terms *terms);

/* The same for the next waiter for the lock: it keeps what is known of foreign holders. */
void quorum_waiting_renew(struct quorum_waiting *waiting, const struct quorum_waiting_terms *terms);

/* An attempt starts that no step has requested. */
void quorum_waiting_try(struct quorum_waiting *waiting);

struct quorum_waiting_actions quorum_waiting_step(struct quorum_waiting *waiting,
                                                  const struct quorum_waiting_event *event);

quorum_time quorum_waiting_deadline(const struct quorum_waiting *waiting);

/* A waiter that no majority can notify polls. While each poll shows another holder, it is likely to find the lock free, or
 * to be the one that all wait for. */
bool quorum_waiting_sees_changes(const struct quorum_waiting *waiting);

/* The time of a poll that is planned for `moment`: later if the client's allowance is used up, at most a refresh interval
 * from now. */
quorum_time quorum_waiting_poll_at(const struct quorum_waiting *waiting, quorum_time now, quorum_time moment);

/* How long to wait for a majority after the first node has handed the lock over. Nodes that handed it over to different
 * waiters leave none a majority, and until then the lock is lost to all. */
quorum_duration quorum_waiting_patience(quorum_duration round_trip, quorum_duration margin, quorum_duration timeout);

/* When a waiter that begins now makes its attempt before the deadline: early enough for an attempt that takes a node's
 * whole timeout, and not in the first half of a short wait. */
quorum_time quorum_waiting_last_attempt(quorum_time now, quorum_time deadline, quorum_duration timeout);

/* The smallest of the nodes' values that is not below those of a majority: of our places in their queues, the one that
 * a majority has not put us behind; of their round trips, that of a majority. */
uint64_t quorum_waiting_least(const uint64_t *values, unsigned nodes);

/*
 * A lock that each release hands over is never free, and a client of another library never gets it. So some releases
 * only wake the first waiter: on average one in 64 round trips of the holders' time, which costs one round trip. The
 * holder that releases draws: no node, and no holder, knows when the others left the lock free, and where the nodes do so
 * at different releases, no majority is free at once. held: for how long this holder had the lock.
 */
bool quorum_waiting_leaves_free(quorum_duration held, quorum_duration round_trip, uint64_t random);

/* A majority can notify us: it has our entry, and our subscription has been up since the entry was refreshed. While the
 * subscription is down a node may drop the entry. No need to try at random. */
bool quorum_waiting_can_be_notified(const struct quorum_waiting *waiting);

#endif
