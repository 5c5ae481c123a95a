/* The votes of one round. Every node is in exactly one class, so a class is a set of nodes, and counting is counting
 * bits. */
#ifndef QUORUM_TALLY_H
#define QUORUM_TALLY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define QUORUM_NODES_MAX 32

/* A set of nodes: bit i is node i. */
typedef uint32_t quorum_nodes;
_Static_assert(QUORUM_NODES_MAX <= 8 * sizeof(quorum_nodes), "a set has a bit for every node");

enum quorum_vote {
    QUORUM_PENDING,     /* no reply yet */
    QUORUM_GRANTED,     /* executed the request */
    QUORUM_HELD,        /* has another holder's key */
    QUORUM_ABSENT,      /* extend, release: does not have our key */
    QUORUM_REFUSED,     /* replied with an error */
    QUORUM_UNREACHABLE, /* not connected, not sent to, or the connection broke */
    QUORUM_TIMED_OUT,   /* silent beyond its timeout */
    QUORUM_UNATTESTED,  /* granted, without proof that the node has lost no earlier grant: see attest.h */
    QUORUM_VOTES        /* the number of classes */
};

struct quorum_tally {
    quorum_nodes voted[QUORUM_VOTES]; /* by class; pairwise disjoint, together all nodes */
    quorum_nodes permanent;           /* refused, or not sent to, for a reason that waiting does not repair */
    uint8_t nodes;                    /* N, 1 to QUORUM_NODES_MAX */
    uint8_t majority;                 /* N/2+1 */
};

void quorum_tally_init(struct quorum_tally *tally, unsigned nodes);

/* Moves a node to a class. A node votes once: a later vote is ignored, and returns false. */
bool quorum_tally_vote(struct quorum_tally *tally, unsigned node, enum quorum_vote vote, bool permanent);

/* Counts the grant of a node that had timed out. */
void quorum_tally_grant_late(struct quorum_tally *tally, unsigned node);

/* The class that a node is in. */
enum quorum_vote quorum_tally_vote_of(const struct quorum_tally *tally, unsigned node);

/* Granted by a majority. */
bool quorum_tally_won(const struct quorum_tally *tally);

unsigned quorum_majority(unsigned nodes);

static inline quorum_nodes quorum_node(unsigned node)
{
    return (quorum_nodes)1 << node;
}

static inline quorum_nodes quorum_all(unsigned nodes)
{
    assert(nodes <= QUORUM_NODES_MAX);
    return nodes == QUORUM_NODES_MAX ? UINT32_MAX : quorum_node(nodes) - 1;
}

static inline unsigned quorum_count(quorum_nodes nodes)
{
    return (unsigned)__builtin_popcount(nodes);
}

static inline unsigned quorum_tally_count(const struct quorum_tally *tally, enum quorum_vote vote)
{
    return quorum_count(tally->voted[vote]);
}

/* A majority is impossible, even if all pending nodes grant. */
static inline bool quorum_tally_lost(const struct quorum_tally *tally)
{
    return quorum_count(tally->voted[QUORUM_GRANTED] | tally->voted[QUORUM_PENDING]) < tally->majority;
}

/* These nodes alone prevent a majority of the others. */
static inline bool quorum_tally_blocked_by(const struct quorum_tally *tally, quorum_nodes nodes)
{
    return tally->nodes - quorum_count(nodes) < tally->majority;
}

#endif
