/*
 * Which of a semaphore's slots to try. k permits are k slots, each a lock of its own over the quorum; who has one of
 * them has a permit. (k permits counted on each node, and a majority, admit more than k: of five nodes with three
 * permits each, fifteen in all, five holders may have three each.)
 *
 * A node that does not grant a slot says which others are free there. Of those that are free on a majority one is tried
 * next, at random, so that many who come at once do not meet again.
 */
#ifndef QUORUM_PERMITS_H
#define QUORUM_PERMITS_H

#include <stdbool.h>
#include <stdint.h>

#define QUORUM_PERMITS_MAX 32

struct quorum_permits {
    unsigned nodes, permits;
    unsigned slot;                       /* to be tried, from 0 */
    uint32_t tried;                      /* slots, since the last word from outside that one is free */
    uint8_t free_on[QUORUM_PERMITS_MAX]; /* nodes that answered the attempt under way so */
};

/* Begins with this slot: the one that was free last, as far as is known. */
void quorum_permits_init(struct quorum_permits *permits, unsigned nodes, unsigned count, unsigned slot);

/* An attempt begins. */
void quorum_permits_try(struct quorum_permits *permits);

/* A node did not grant it; these slots (bits) are free there. */
void quorum_permits_refused(struct quorum_permits *permits, uint64_t free);

/* The attempt was lost. true: another slot is free on a majority: try it now. */
bool quorum_permits_next(struct quorum_permits *permits, uint64_t random);

/* A node says that a slot has become free. */
void quorum_permits_called(struct quorum_permits *permits, unsigned slot);

#endif
