/*
 * Time as the rules see it: nanoseconds of one monotonic clock that counts suspend. It always comes in with the event;
 * nothing here can read a clock. Sums saturate, so that "never" stays "never".
 */
#ifndef QUORUM_TIME_H
#define QUORUM_TIME_H

#include <stdint.h>

typedef uint64_t quorum_time;     /* a moment */
typedef uint64_t quorum_duration; /* between two of them */

#define QUORUM_NEVER       UINT64_MAX
#define QUORUM_MICROSECOND UINT64_C(1000)
#define QUORUM_MILLISECOND UINT64_C(1000000)
#define QUORUM_SECOND      UINT64_C(1000000000)

/* The moment a duration later; QUORUM_NEVER when it would not fit. */
static inline quorum_time quorum_time_add(quorum_time moment, quorum_duration duration)
{
    return moment > QUORUM_NEVER - duration ? QUORUM_NEVER : moment + duration;
}

/* How long ago a moment was; 0 when it is still to come. */
static inline quorum_duration quorum_time_since(quorum_time moment, quorum_time now)
{
    return now > moment ? now - moment : 0;
}

/* How far off a moment is; 0 when it has passed. */
static inline quorum_duration quorum_time_until(quorum_time moment, quorum_time now)
{
    return moment > now ? moment - now : 0;
}

#endif
