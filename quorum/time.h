/*
 * Time in the rules: nanoseconds of one monotonic clock that counts suspend. It is always part of the event; no rule
 * reads a clock. Sums saturate, so that "never" stays "never".
 */
#ifndef QUORUM_TIME_H
#define QUORUM_TIME_H

#include <stdint.h>

typedef uint64_t quorum_time;     /* a point in time */
typedef uint64_t quorum_duration; /* between two points */

#define QUORUM_NEVER       UINT64_MAX
#define QUORUM_MICROSECOND UINT64_C(1000)
#define QUORUM_MILLISECOND UINT64_C(1000000)
#define QUORUM_SECOND      UINT64_C(1000000000)

/* The sum; QUORUM_NEVER on overflow. */
static inline quorum_time quorum_time_add(quorum_time moment, quorum_duration duration)
{
    return moment > QUORUM_NEVER - duration ? QUORUM_NEVER : moment + duration;
}

/* The time since `moment`; 0 if it is in the future. */
static inline quorum_duration quorum_time_since(quorum_time moment, quorum_time now)
{
    return now > moment ? now - moment : 0;
}

/* The time until `moment`; 0 if it has passed. */
static inline quorum_duration quorum_time_until(quorum_time moment, quorum_time now)
{
    return moment > now ? moment - now : 0;
}

#endif
