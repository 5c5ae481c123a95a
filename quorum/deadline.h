/*
 * How long to wait for a node's answer. As TCP does for its retransmissions (RFC 6298), the wait follows the measured
 * round trip:
 *
 *     timeout = smoothed round trip + 4 * its mean deviation, between the configured timeout and the silence limit
 *     due     = max(when the request was sent, when the node last answered) + timeout,
 *               and no later than the silence limit after the request was sent
 *
 * A node answers its requests in order. So the wait for one begins when the node answers the one before it: a burst of
 * one's own making is queued, and not lost. The end of the wait says nothing about what the node has done; see round.h.
 */
#ifndef QUORUM_DEADLINE_H
#define QUORUM_DEADLINE_H

#include <stdbool.h>

#include "quorum/time.h"

struct quorum_round_trip {
    quorum_duration smoothed;
    quorum_duration deviation; /* mean */
    bool measured;             /* once at least */
};

struct quorum_patience {
    quorum_duration least; /* the configured timeout */
    quorum_duration most;  /* the silence limit, or a quarter of the ttl; one below `least` counts as `least` */
};

quorum_duration quorum_deadline_timeout(const struct quorum_round_trip *round_trip,
                                        const struct quorum_patience *patience);

/* Takes one more measurement. It counts as twice the present timeout at most: one standstill of a node, or of this
 * process, must not delay for long the discovery of a node that hangs. */
void quorum_deadline_measured(struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                              quorum_duration took);

/* heard: when the node answered last on this connection; 0: it has not. */
quorum_time quorum_deadline_due(const struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                                quorum_time sent, quorum_time heard);

#endif
