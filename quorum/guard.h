/*
 * Nodes that forget. A server that restarted without its memory, was flushed, or took over from another has forgotten
 * locks and would grant them again. It carries a marker that says since when it has been the same, by its own clock;
 * until every lock it may have forgotten has ended, it grants no new one. What it still holds counts all the same.
 */
#ifndef QUORUM_GUARD_H
#define QUORUM_GUARD_H

#include <stdint.h>

#include "quorum/time.h"

/* For the marker's own precision, and for what was under way when it was written. */
#define QUORUM_GUARD_MARGIN QUORUM_SECOND

/* since, meaning that an operator has vouched that no lock can be forgotten. */
#define QUORUM_TRUSTED 0

/*
 * How much longer the node must not grant. since, time: of the node's own clock, from one answer; max_ttl: the longest
 * lock that anybody in the deployment takes, not the asking client's own ttl.
 */
quorum_duration quorum_quarantine(quorum_time since, quorum_time time, quorum_duration max_ttl, uint32_t drift_ppm);

#endif
