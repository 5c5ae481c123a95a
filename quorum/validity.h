/*
 * How long a granted lock may be relied on. The nodes count the ttl from when they executed the request, which is after
 * it was sent: so the holder counts from before the first send, and takes off what the clocks may differ by meanwhile.
 */
#ifndef QUORUM_VALIDITY_H
#define QUORUM_VALIDITY_H

#include <stdint.h>

#include "quorum/time.h"

/* Part of the drift that does not grow with the ttl: the 1 ms precision of a node's expiry, and 1 ms for small ttls. */
#define QUORUM_DRIFT_FLOOR (2 * QUORUM_MILLISECOND)

/* What the clocks of a node and of a client may differ by within one ttl. drift_ppm: their difference in rate, in
 * millionths. */
quorum_duration quorum_drift(quorum_duration ttl, uint32_t drift_ppm);

/* The end of validity of a lock whose first request left at `sent`. `sent` itself when the ttl does not exceed its
 * drift. */
quorum_time quorum_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm);

/*
 * The shortest ttl, in whole milliseconds, that can give `validity` (1 ns or more) when no time is lost: what a caller
 * is told who asked for less. QUORUM_NEVER when none can.
 */
quorum_duration quorum_shortest_ttl(quorum_duration validity, uint32_t drift_ppm);

#endif
