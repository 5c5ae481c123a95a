/*
 * Quarantine of nodes that lose data. A server that restarted without its data, was flushed, or took over from another
 * has lost locks and would grant them again. Its marker records since when it has been the same server, by its own
 * clock. It grants no new lock until every lock that it may have lost has expired. The locks that it still holds count.
 */
#ifndef QUORUM_GUARD_H
#define QUORUM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quorum/tally.h"
#include "quorum/time.h"
#include "quorum/witness.h"

/* Part of each quarantine. Half of it is for the clients that still count a promoted node's old master (see witness.h);
 * the rest for the marker's precision, and for requests in flight when it was written. */
#define QUORUM_GUARD_MARGIN QUORUM_SECOND
_Static_assert(2 * QUORUM_CONFIRMED_LASTS <= QUORUM_GUARD_MARGIN, "the margin covers the votes of the old master");

/* As `since`: an operator has vouched that no lock can be lost. */
#define QUORUM_TRUSTED 0

/*
 * The remaining quarantine. since, time: by the node's clock, from one reply. max_ttl: the longest ttl in the
 * deployment, not this client's ttl.
 */
quorum_duration quorum_quarantine(quorum_time since, quorum_time time, quorum_duration max_ttl, uint32_t drift_ppm);

/*
 * What a client knows from its nodes' markers. Clients may differ in max_ttl. The largest value that this client has
 * read from any node counts for every node: the node that forgot the locks has forgotten the marker, and its max_ttl,
 * too. A client that never reached a node that knows a larger value cannot know it.
 */
struct quorum_guard {
    unsigned nodes;
    uint32_t drift_ppm;
    quorum_duration max_ttl; /* the largest one seen, and the client's own */
    quorum_time learned;     /* when it was seen, by this client's clock; 0: it is its own */
    struct quorum_guard_node {
        quorum_time since; /* as the marker says; the node's clock */
        quorum_time time;  /* of the reading, by the node's clock */
        quorum_time received;
        bool changes; /* its master may change: it has witnesses */
        quorum_time
            settled;     /* the master that it has now: its votes for held locks count from then on, by this clock */
        quorum_time end; /* the quarantine's, by this client's clock; 0: none, or nothing read yet */
    } node[QUORUM_NODES_MAX];
};

/* The first bytes of it: what a deployment of that many nodes uses. */
#define QUORUM_GUARD_SIZE(nodes) (offsetof(struct quorum_guard, node) + (nodes) * sizeof(struct quorum_guard_node))

void quorum_guard_init(struct quorum_guard *guard, unsigned nodes, uint32_t drift_ppm, quorum_duration max_ttl);

/* A marker of the deployment has this max_ttl. true: it is larger than all before, so every node's quarantine has
 * become longer, and their markers must say so. */
bool quorum_guard_learn(struct quorum_guard *guard, quorum_duration max_ttl, quorum_time now);

/* Whether grants of these nodes, to a round that sent its first request at `sent`, were counted before the larger max_ttl
 * that puts one of them into quarantine was known. The round must not succeed: another node may complete the majority. */
bool quorum_guard_voids(const struct quorum_guard *guard, quorum_nodes granted, quorum_time sent, quorum_time now);

/*
 * For how long the votes of a promoted master do not count for held locks either. Until then the old master may count for
 * a client that is cut off with it, and grant a lock whose renewal only the new one has seen. A lock that is still valid
 * afterwards has its key on the old master until then. With a little for the clocks.
 */
#define QUORUM_SETTLING (QUORUM_CONFIRMED_LASTS + 100 * QUORUM_MILLISECOND)

/* Whether the node's vote for a held lock counts: it has no witnesses, or its master has settled. adopts: the lock's
 * end is not known, so the old master may have granted it since; the master must be out of quarantine. */
bool quorum_guard_counts_held(const struct quorum_guard *guard, unsigned node, bool adopts, quorum_time now);

/* The node's marker has been read. Counts from the reply: the node read its clock before that, so the quarantine is
 * never too short. */
void quorum_guard_read(struct quorum_guard *guard, unsigned node, quorum_time since, quorum_time time,
                       quorum_time received);

#endif
