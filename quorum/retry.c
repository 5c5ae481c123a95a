#include "quorum/retry.h"

#include <assert.h>
#include <string.h>

/* Measured best: 0-5 ms for 8 contenders, 0-20 ms for 32; beyond 100 ms the lock lies free while all sleep. */
static const quorum_duration contended_first = 5 * QUORUM_MILLISECOND;
static const quorum_duration contended_last = 80 * QUORUM_MILLISECOND;
/* Nodes come back in their own time: asking more often only costs. */
static const quorum_duration broken_first = 20 * QUORUM_MILLISECOND;
static const quorum_duration broken_last = 640 * QUORUM_MILLISECOND;

void quorum_retry_init(struct quorum_retry *retry, quorum_time deadline)
{
    memset(retry, 0, sizeof *retry);
    retry->deadline = deadline;
}

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
    assert(verdict != QUORUM_UNDECIDED && verdict != QUORUM_WON);
    retry->losses = verdict == retry->last ? retry->losses + 1 : 1;
    retry->last = verdict;
    retry->round = round;
    quorum_time next = quorum_time_add(quorum_time_add(now, round), random % window(retry));
    return next < retry->deadline ? next : QUORUM_NEVER;
}
