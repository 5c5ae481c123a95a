/*
 * How long to wait for a node's reply. As in TCP's retransmissions (RFC 6298), the timeout follows the measured round
 * trip:
 *
 *     timeout = smoothed round trip + 4 * its mean deviation, between the configured timeout and the silence limit
 *     due     = max(when the request was sent, when the node last replied) + timeout,
 *               and no later than the silence limit after the request was sent
 *
 * A node executes its requests in order. So the timeout of one starts when the node replies to the one before it: a
 * burst of requests is queued, not lost. A timeout does not show whether the node executed the request; see round.h.
 */
#ifndef QUORUM_DEADLINE_H
#define QUORUM_DEADLINE_H

#include <stdbool.h>

#include "quorum/time.h"

struct quorum_round_trip {
    quorum_duration smoothed;
    quorum_duration deviation; /* mean */
    bool measured;             /* at least once */
};

struct quorum_patience {
    quorum_duration least; /* the configured timeout */
    quorum_duration most;  /* the silence limit, or a quarter of the ttl; one below `least` counts as `least` */
};

quorum_duration quorum_deadline_timeout(const struct quorum_round_trip *round_trip,
                                        const struct quorum_patience *patience);

/* Adds a measurement, which counts as twice the present timeout at most: one pause of a node, or of this process, must
 * not delay the detection of a hanging node for long. */
void quorum_deadline_measured(struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                              quorum_duration took);

/* heard: the node's last reply on this connection; 0: none yet. */
quorum_time quorum_deadline_due(const struct quorum_round_trip *round_trip, const struct quorum_patience *patience,
                                quorum_time sent, quorum_time heard);

#endif
