/*
 * Which of a semaphore's slots to try. k permits are k slots, each a separate lock over the quorum; the holder of a
 * slot has a permit. (Counting k permits on each node and requiring a majority admits more than k: with five nodes of
 * three permits each, fifteen in all, five holders may have three each.)
 *
 * A client that wants several permits takes that many slots at once, all or none: if it kept some while it waits for the
 * others, two such clients could wait for each other. A node that does not grant the slots reports which are free. The
 * client tries some at random that are free on a majority, so that clients that arrive together do not collide again.
 */
#ifndef QUORUM_PERMITS_H
#define QUORUM_PERMITS_H

#include <stdbool.h>
#include <stdint.h>

#define QUORUM_PERMITS_MAX 32

struct quorum_permits {
    unsigned nodes, permits, wanted;
    uint32_t slots;                      /* to try, as bits: `wanted` of them */
    uint32_t tried;                      /* slots tried since the last message that one is free */
    uint32_t freed;                      /* slots that messages named since the last attempt */
    uint8_t free_on[QUORUM_PERMITS_MAX]; /* nodes that reported the slot free, in this attempt */
};

/* Starts with this slot, the last one that was free, if known, and those behind it. */
void quorum_permits_init(struct quorum_permits *permits, unsigned nodes, unsigned count, unsigned wanted,
                         unsigned slot);

/* The number of the first of the slots to try. */
unsigned quorum_permits_first(const struct quorum_permits *permits);

/* An attempt starts. */
void quorum_permits_try(struct quorum_permits *permits);

/* A node did not grant them; it reports these slots (bits) as free. */
void quorum_permits_refused(struct quorum_permits *permits, uint64_t free);

/* The attempt failed. true: enough slots are free on a majority, and one of them has not been tried; try them now. */
bool quorum_permits_next(struct quorum_permits *permits, uint64_t random);

/* A node reports that a slot has become free. */
void quorum_permits_freed(struct quorum_permits *permits, unsigned slot);

#endif
