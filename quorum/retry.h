/*
 * When to try again: full-jitter exponential backoff. The pause is drawn from a window that grows with the contention
 * met, above a floor of one round's duration (at most a second), so that two contenders with a split vote do not meet
 * again. Never past the deadline.
 */
#ifndef QUORUM_RETRY_H
#define QUORUM_RETRY_H

#include <stdint.h>

#include "quorum/round.h"
#include "quorum/time.h"

/* Zeros at first, except the deadline. */
struct quorum_retry {
    quorum_time deadline;     /* of the wait; QUORUM_NEVER: none */
    enum quorum_verdict last; /* the last attempt's verdict; UNDECIDED before the first */
    unsigned losses;          /* attempts in a row with this verdict */
};

/*
 * The time of the next attempt, after one that took `round` and failed with `verdict`; QUORUM_NEVER if the deadline
 * leaves no time for one. random: 64 random bits.
 */
quorum_time quorum_retry_next(struct quorum_retry *retry, quorum_time now, enum quorum_verdict verdict,
                              quorum_duration round, uint64_t random);

#endif
