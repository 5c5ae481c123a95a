#include "quorum/guard.h"

#include "quorum/validity.h"

quorum_duration quorum_quarantine(quorum_time since, quorum_time time, quorum_duration max_ttl, uint32_t drift_ppm)
{
    if (since == QUORUM_TRUSTED)
        return 0;
    quorum_duration whole =
        quorum_time_add(quorum_time_add(max_ttl, quorum_drift(max_ttl, drift_ppm)), QUORUM_GUARD_MARGIN);
    /* A marker from the future: the clock was set back, so the elapsed time is unknown. */
    return time < since ? whole : quorum_time_until(quorum_time_add(since, whole), time);
}
