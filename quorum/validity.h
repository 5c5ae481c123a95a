/*
 * The validity of a granted lock. The nodes count the ttl from the execution of the request, which is after it was
 * sent. So the holder counts from before the first send, and subtracts the drift of the clocks in that time.
 */
#ifndef QUORUM_VALIDITY_H
#define QUORUM_VALIDITY_H

#include <stdint.h>

#include "quorum/time.h"

/* The constant part of the drift: the 1 ms precision of a node's expiry, and 1 ms for small ttls. */
#define QUORUM_DRIFT_FLOOR (2 * QUORUM_MILLISECOND)

/* How much the clocks of a node and a client may differ within one ttl. drift_ppm: their difference in rate, in parts
 * per million. */
quorum_duration quorum_drift(quorum_duration ttl, uint32_t drift_ppm);

/* The end of validity of a lock whose first request left at `sent`; `sent` itself if the ttl does not exceed its
 * drift. */
quorum_time quorum_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm);

/*
 * The shortest ttl, in whole milliseconds, that can provide `validity` (1 ns or more) if acquiring takes no time; for
 * the error text about a shorter one. QUORUM_NEVER if there is none.
 */
quorum_duration quorum_shortest_ttl(quorum_duration validity, uint32_t drift_ppm);

#endif
