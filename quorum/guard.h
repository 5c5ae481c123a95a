/*
 * Quarantine of nodes that lose data. A server that restarted without its data, was flushed, or took over from another
 * has lost locks and would grant them again. Its marker records since when it has been the same server, by its own
 * clock. It grants no new lock until every lock that it may have lost has expired. The locks that it still holds count.
 */
#ifndef QUORUM_GUARD_H
#define QUORUM_GUARD_H

#include <stdint.h>

#include "quorum/time.h"

/* For the marker's precision, and for requests in flight when it was written. */
#define QUORUM_GUARD_MARGIN QUORUM_SECOND

/* As `since`: an operator has vouched that no lock can be lost. */
#define QUORUM_TRUSTED 0

/*
 * The remaining quarantine. since, time: by the node's clock, from one reply. max_ttl: the longest ttl in the
 * deployment, not this client's ttl.
 */
quorum_duration quorum_quarantine(quorum_time since, quorum_time time, quorum_duration max_ttl, uint32_t drift_ppm);

#endif
