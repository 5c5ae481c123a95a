#include "quorum/validity.h"

#include <assert.h>

#define MILLION 1000000u

quorum_duration quorum_drift(quorum_duration ttl, uint32_t drift_ppm)
{
    assert(drift_ppm <= MILLION);
    /* Divided first: a ttl of years times a million would not fit. What that loses is put back by the remainder's term. */
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
    quorum_duration ttl = (validity + QUORUM_DRIFT_FLOOR) / QUORUM_MILLISECOND * QUORUM_MILLISECOND;
    while (quorum_validity_end(0, ttl, drift_ppm) < validity || ttl == 0) {
        quorum_duration missing = validity - quorum_validity_end(0, ttl, drift_ppm);
        /* Never less than what is missing, so the sum converges in a few steps from below, in whole milliseconds. */
        ttl += (missing / QUORUM_MILLISECOND + 1) * QUORUM_MILLISECOND;
    }
    return ttl;
}
