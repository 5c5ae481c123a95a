#include "quorum/validity.h"

#include <assert.h>

#define MILLION 1000000u

quorum_duration quorum_drift(quorum_duration ttl, uint32_t drift_ppm)
{
    assert(drift_ppm <= MILLION);
    /* Divide first: a ttl of years times a million would overflow. The second term adds the remainder. */
    quorum_duration rate = ttl / MILLION * drift_ppm + ttl % MILLION * drift_ppm / MILLION;
    return quorum_time_add(rate, QUORUM_DRIFT_FLOOR);
}

quorum_time quorum_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm)
{
    quorum_duration drift = quorum_drift(ttl, drift_ppm);
    return ttl > drift ? quorum_time_add(sent, ttl - drift) : sent;
}

quorum_duration quorum_shortest_ttl(quorum_duration validity, uint32_t drift_ppm)
{
    assert(drift_ppm < MILLION);
    /* One millisecond of ttl yields MILLION - drift_ppm nanoseconds of validity. The result is exact. */
    quorum_duration worth = MILLION - drift_ppm;
    quorum_duration needed = quorum_time_add(validity, QUORUM_DRIFT_FLOOR);
    quorum_duration milliseconds = needed / worth + (needed % worth != 0);
    return milliseconds > QUORUM_NEVER / QUORUM_MILLISECOND ? QUORUM_NEVER : milliseconds * QUORUM_MILLISECOND;
}
