/*
 * Waiting for a lock without polling. The waiter has signed in to a list on each node, and hears there when its turn
 * has come. It tries when a majority is free for it, by what the nodes said or by an expiry it knows; it looks again
 * once a second, in case a word was lost; and it signs out when a majority does not have it on its list, for an entry
 * counts only there.
 */
#ifndef QUORUM_WAITING_H
#define QUORUM_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"

struct quorum_waiting_terms {
    unsigned nodes;
    unsigned width; /* how many at the front may take a free lock: 1 fair, 2 with a stand-in for a waiter that died */
    quorum_duration refresh;  /* between looks */
    quorum_duration stand_in; /* how long the second leaves the lock to the first */
};

struct quorum_waiting {
    struct quorum_waiting_terms terms;
    quorum_nodes listening;                /* nodes whose word would reach us */
    quorum_nodes heard;                    /* nodes whose word has reached us since the last look or attempt was sent */
    quorum_nodes called;                   /* nodes that have called us since then */
    quorum_nodes listed;                   /* nodes that may have us on their list, whatever was asked since */
    quorum_nodes signed_in;                /* nodes that have us on their list, as of the last look or attempt */
    quorum_nodes free;                     /* nodes that let us take it now */
    quorum_nodes second;                   /* nodes where we are to stand in for the first */
    quorum_nodes left;                     /* nodes where it is free, and too many are before us */
    quorum_time free_at[QUORUM_NODES_MAX]; /* when the key there ends, as far as is known */
    quorum_time look_at;                   /* the next look */
    quorum_time stand_in_at;               /* QUORUM_NEVER: too few call for it */
    quorum_time rest_until;                /* no attempt before */
    quorum_time lost_at;                   /* when the last one was lost */
    unsigned losses;                       /* how many, close upon each other */
    quorum_time overtake_at;               /* when nodes send a first waiter to the end that leaves the lock free */
    bool looking;                          /* a look is under way */
    bool trying;                           /* an attempt is under way */
};

enum quorum_waiting_event_type {
    QUORUM_WAITING_LISTENING, /* node: its word reaches us from now on */
    QUORUM_WAITING_DEAF,      /* node: it does not any more */
    QUORUM_WAITING_SIGNED,    /* node has answered a look or an attempt: remaining, ahead */
    QUORUM_WAITING_LOOKED,    /* every node has answered a look, or been counted out */
    QUORUM_WAITING_CALLED,    /* node says that the lock is free there and we are the first (ahead 0), or the second */
    QUORUM_WAITING_TRIED,     /* the attempt was lost */
    QUORUM_WAITING_WOKEN      /* by the clock */
};

#define QUORUM_FREE 0 /* as remaining: no key */

struct quorum_waiting_event {
    enum quorum_waiting_event_type type;
    quorum_time now;
    unsigned node;
    quorum_duration remaining; /* SIGNED: what the key there has left; QUORUM_FREE; QUORUM_NEVER */
    unsigned ahead;            /* SIGNED, CALLED: live waiters before us, counted up to width */
    bool misplaced;            /* TRIED: we are to sign in again, at another place */
    quorum_time rest_until;    /* TRIED: when it would be tried again if nobody called */
    bool in_the_way;           /* TRIED: others hold the lock, or part of it */
};

struct quorum_waiting_actions {
    bool look;     /* ask all nodes that can be asked, which signs us in */
    bool attempt;  /* try to take it */
    bool sign_out; /* from everywhere: too few nodes have us */
};

void quorum_waiting_init(struct quorum_waiting *waiting, const struct quorum_waiting_terms *terms);

/* An attempt is being made that no step has asked for. */
void quorum_waiting_try(struct quorum_waiting *waiting);

struct quorum_waiting_actions quorum_waiting_step(struct quorum_waiting *waiting,
                                                  const struct quorum_waiting_event *event);

quorum_time quorum_waiting_deadline(const struct quorum_waiting *waiting);

/* Of the places that each node has us at, the least that a majority has us at, or before. */
uint64_t quorum_waiting_place(const uint64_t *places, unsigned nodes);

/* A majority would tell us: nobody need try at random. */
bool quorum_waiting_is_called(const struct quorum_waiting *waiting);

#endif
