/* Whole numbers of 128 bits: what the rules compute with care in 64 bits, a test computes without. */
#ifndef TESTS_QUORUM_WIDE_H
#define TESTS_QUORUM_WIDE_H

#include "quorum/time.h"

__extension__ typedef unsigned __int128 wide;

/* The nearest that fits into a quorum_time. */
static inline quorum_time narrow(wide value)
{
    return value < QUORUM_NEVER ? (quorum_time)value : QUORUM_NEVER;
}

/* The share of a ttl that drift takes, by the formula of the manual: ttl x rate + 2 ms. */
static inline wide wide_drift(quorum_duration ttl, uint32_t drift_ppm)
{
    return (wide)ttl * drift_ppm / 1000000 + 2 * QUORUM_MILLISECOND;
}

/* sent + ttl - drift, and never before sent. */
static inline quorum_time wide_validity_end(quorum_time sent, quorum_duration ttl, uint32_t drift_ppm)
{
    wide drift = wide_drift(ttl, drift_ppm);
    return narrow((wide)sent + (ttl > drift ? ttl - drift : 0));
}

#endif
