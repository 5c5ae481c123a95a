#include "quorum/permits.h"

#include <assert.h>
#include <string.h>

#include "quorum/tally.h"

static uint32_t bit(unsigned slot)
{
    return (uint32_t)1 << slot;
}

void quorum_permits_init(struct quorum_permits *permits, unsigned nodes, unsigned count, unsigned slot)
{
    assert(count >= 1 && count <= QUORUM_PERMITS_MAX && slot < count);
    memset(permits, 0, sizeof *permits);
    permits->nodes = nodes;
    permits->permits = count;
    permits->slot = slot;
}

void quorum_permits_try(struct quorum_permits *permits)
{
    memset(permits->free_on, 0, sizeof permits->free_on);
    permits->tried |= bit(permits->slot);
}

void quorum_permits_refused(struct quorum_permits *permits, uint64_t free)
{
    for (unsigned slot = 0; slot < permits->permits; slot++)
        permits->free_on[slot] = (uint8_t)(permits->free_on[slot] + (free >> slot & 1));
}

/* Each slot once: a client must not loop while nodes differ. */
bool quorum_permits_next(struct quorum_permits *permits, uint64_t random)
{
    unsigned candidate[QUORUM_PERMITS_MAX], candidates = 0;
    for (unsigned slot = 0; slot < permits->permits; slot++)
        if (permits->free_on[slot] >= quorum_majority(permits->nodes) && !(permits->tried & bit(slot)))
            candidate[candidates++] = slot;
    if (candidates == 0) {
        permits->tried = 0;
        return false;
    }
    permits->slot = candidate[random % candidates];
    return true;
}

void quorum_permits_freed(struct quorum_permits *permits, unsigned slot)
{
    if (slot >= permits->permits)
        return;
    permits->slot = slot;
    permits->tried = 0;
}
