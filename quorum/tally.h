/*
 * The votes of one round. Every node is in exactly one class, so a class is a set of nodes, and counting is counting bits.
 */
#ifndef QUORUM_TALLY_H
#define QUORUM_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#define QUORUM_NODES_MAX 32

/* A set of nodes: bit i is node i. */
typedef uint32_t quorum_nodes;

enum quorum_vote {
    QUORUM_PENDING,     /* no answer yet */
    QUORUM_GRANTED,     /* did what was asked */
    QUORUM_HELD,        /* another holder's key is there */
    QUORUM_ABSENT,      /* extend, release: our key is not there */
    QUORUM_REFUSED,     /* answered with an error */
    QUORUM_UNREACHABLE, /* not connected, not asked, or the connection broke */
    QUORUM_TIMED_OUT,   /* silent beyond its timeout */
    QUORUM_UNATTESTED,  /* granted, without proof that the node still remembers what it granted before: see attest.h */
    QUORUM_VOTES        /* how many there are */
};

struct quorum_tally {
    quorum_nodes voted[QUORUM_VOTES]; /* by class; pairwise disjoint, together all nodes */
    quorum_nodes permanent;           /* those that refused, or are not asked, for a reason that waiting does not end */
    uint8_t nodes;                    /* N, 1 to QUORUM_NODES_MAX */
    uint8_t majority;                 /* N/2+1 */
};

void quorum_tally_init(struct quorum_tally *tally, unsigned nodes);

/* Moves a node into a class. A node votes once: what it says after that is ignored, and false returned. */
bool quorum_tally_vote(struct quorum_tally *tally, unsigned node, enum quorum_vote vote, bool permanent);

/* Counts the grant of a node that had been counted as timed out. false: it was in another class. */
bool quorum_tally_grant_late(struct quorum_tally *tally, unsigned node);

unsigned quorum_tally_count(const struct quorum_tally *tally, enum quorum_vote vote);

/* Granted by a majority. */
bool quorum_tally_won(const struct quorum_tally *tally);

/* A majority can no longer grant, whatever the pending nodes answer. */
bool quorum_tally_lost(const struct quorum_tally *tally);

/* More nodes than a minority are in this class: it alone prevents a majority of any other. */
bool quorum_tally_blocked_by(const struct quorum_tally *tally, quorum_nodes nodes);

/* The majority among N nodes, and all nodes as a set. */
unsigned quorum_majority(unsigned nodes);
quorum_nodes quorum_all(unsigned nodes);
unsigned quorum_count(quorum_nodes nodes);

static inline quorum_nodes quorum_node(unsigned node)
{
    return (quorum_nodes)1 << node;
}

#endif
