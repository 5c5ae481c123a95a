#include "quorum/retry.h"

#include <assert.h>

/* Measured best: 0-5 ms for 8 contenders, 0-20 ms for 32; beyond 100 ms the lock is free while all clients sleep. */
static const quorum_duration contended_first = 5 * QUORUM_MILLISECOND;
static const quorum_duration contended_last = 80 * QUORUM_MILLISECOND;
/* More frequent attempts do not bring nodes back sooner. */
static const quorum_duration broken_first = 20 * QUORUM_MILLISECOND;
static const quorum_duration broken_last = 640 * QUORUM_MILLISECOND;
/* A round during a suspend may have taken hours by this clock: do not pause for as long again. */
static const quorum_duration longest_floor = QUORUM_SECOND;
/* Below this time until the deadline another attempt is useless. */
static const quorum_duration shortest_rest = QUORUM_MILLISECOND;

static quorum_duration window(const struct quorum_retry *retry)
{
    quorum_duration first = retry->last == QUORUM_LOST_HELD ? contended_first : broken_first;
    quorum_duration last = retry->last == QUORUM_LOST_HELD ? contended_last : broken_last;
    for (unsigned loss = 1; loss < retry->losses && first < last; loss++)
        first *= 2;
    return first;
}

quorum_time quorum_retry_next(struct quorum_retry *retry, quorum_time now, enum quorum_verdict verdict,
                              quorum_duration round, uint64_t random)
{
    assert(verdict != QUORUM_UNDECIDED && verdict != QUORUM_WON && verdict != QUORUM_LOST_CANCELLED);
    retry->losses = verdict == retry->last ? retry->losses + 1 : 1;
    retry->last = verdict;
    quorum_duration floor = round < longest_floor ? round : longest_floor;
    quorum_time earliest = quorum_time_add(now, floor);
    quorum_duration rest = quorum_time_until(retry->deadline, earliest);
    if (rest < shortest_rest)
        return QUORUM_NEVER;
    /* Cut the window at the deadline: a client that waits a second must not give up after half of it. */
    quorum_duration width = window(retry);
    return earliest + random % (width < rest ? width : rest);
}
