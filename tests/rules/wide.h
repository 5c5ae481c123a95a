/* 128 bit integers: a test computes with them, without overflow, the results that the rules compute in 64 bits. */
#ifndef TESTS_RULES_WIDE_H
#define TESTS_RULES_WIDE_H

#include "quorum/time.h"

__extension__ typedef unsigned __int128 wide;

/* The nearest value that fits into a quorum_time. */
static inline quorum_time narrow(wide value)
{
    return value < QUORUM_NEVER ? (quorum_time)value : QUORUM_NEVER;
}

/* The drift allowance of a ttl, by the formula in the manual: ttl x rate + 2 ms. */
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
