/*
 * Which of a semaphore's slots to try. k permits are k slots, each a separate lock over the quorum; the holder of a
 * slot has a permit. (Counting k permits on each node and requiring a majority admits more than k: with five nodes of
 * three permits each, fifteen in all, five holders may have three each.)
 *
 * A node that does not grant a slot reports which others are free. The client tries one at random that is free on a
 * majority, so that clients that arrive together do not collide again.
 */
#ifndef QUORUM_PERMITS_H
#define QUORUM_PERMITS_H

#include <stdbool.h>
#include <stdint.h>

#define QUORUM_PERMITS_MAX 32

struct quorum_permits {
    unsigned nodes, permits;
    unsigned slot;                       /* to try, from 0 */
    uint32_t tried;                      /* slots tried since the last message that one is free */
    uint8_t free_on[QUORUM_PERMITS_MAX]; /* nodes that reported the slot free, in this attempt */
};

/* Starts with this slot: the last one that was free, if known. */
void quorum_permits_init(struct quorum_permits *permits, unsigned nodes, unsigned count, unsigned slot);

/* An attempt starts. */
void quorum_permits_try(struct quorum_permits *permits);

/* A node did not grant it; it reports these slots (bits) as free. */
void quorum_permits_refused(struct quorum_permits *permits, uint64_t free);

/* The attempt failed. true: another slot is free on a majority; try it now. */
bool quorum_permits_next(struct quorum_permits *permits, uint64_t random);

/* A node reports that a slot has become free. */
void quorum_permits_freed(struct quorum_permits *permits, unsigned slot);

#endif
