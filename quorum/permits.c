#include "quorum/permits.h"

#include <assert.h>
#include <string.h>

#include "quorum/tally.h"

static uint32_t bit(unsigned slot)
{
    return (uint32_t)1 << slot;
}

/* The lowest of the slots; none: 0. */
static uint32_t lowest(uint32_t slots)
{
    return slots & ~(slots - 1);
}

/* One of the slots at random. Goes on to the next random number. */
static uint32_t pick(uint32_t slots, uint64_t *random)
{
    assert(slots);
    for (uint64_t skipped = *random % quorum_count(slots); skipped > 0; skipped--)
        slots &= ~lowest(slots);
    *random = (*random ^ *random >> 31) * 0x9e3779b97f4a7c15u;
    *random ^= *random >> 29;
    return lowest(slots);
}

/* Adds some of these slots, while more are wanted. */
static void add(struct quorum_permits *permits, uint32_t slots)
{
    for (slots &= ~permits->slots; slots && quorum_count(permits->slots) < permits->wanted; slots &= ~lowest(slots))
        permits->slots |= lowest(slots);
}

void quorum_permits_init(struct quorum_permits *permits, unsigned nodes, unsigned count, unsigned wanted, unsigned slot)
{
    assert(count >= 1 && count <= QUORUM_PERMITS_MAX && slot < count && wanted >= 1 && wanted <= count);
    memset(permits, 0, sizeof *permits);
    permits->nodes = nodes;
    permits->permits = count;
    permits->wanted = wanted;
    for (unsigned i = 0; i < wanted; i++)
        permits->slots |= bit((slot + i) % count);
}

unsigned quorum_permits_first(const struct quorum_permits *permits)
{
    return quorum_count(lowest(permits->slots) - 1);
}

void quorum_permits_try(struct quorum_permits *permits)
{
    memset(permits->free_on, 0, sizeof permits->free_on);
    permits->tried |= permits->slots;
    permits->freed = 0;
}

void quorum_permits_refused(struct quorum_permits *permits, uint64_t free)
{
    for (unsigned slot = 0; slot < permits->permits; slot++)
        permits->free_on[slot] = (uint8_t)(permits->free_on[slot] + (free >> slot & 1));
}

static uint32_t free_on_majority(const struct quorum_permits *permits)
{
    uint32_t slots = 0;
    for (unsigned slot = 0; slot < permits->permits; slot++)
        slots |= permits->free_on[slot] >= quorum_majority(permits->nodes) ? bit(slot) : 0;
    return slots;
}

/* With one that has not been tried, so no slots are tried twice: a client must not loop while nodes differ. */
bool quorum_permits_next(struct quorum_permits *permits, uint64_t random)
{
    uint32_t candidates = free_on_majority(permits);
    if (quorum_count(candidates) < permits->wanted || !(candidates & ~permits->tried)) {
        permits->tried = 0;
        return false;
    }
    permits->slots = pick(candidates & ~permits->tried, &random);
    while (quorum_count(permits->slots) < permits->wanted)
        permits->slots |= pick(candidates & ~permits->slots, &random);
    return true;
}

/* The others that it takes with this slot are the likeliest to be free. */
void quorum_permits_freed(struct quorum_permits *permits, unsigned slot)
{
    if (slot >= permits->permits)
        return;
    uint32_t before = permits->slots;
    permits->freed |= bit(slot);
    permits->tried = 0;
    permits->slots = bit(slot);
    add(permits, permits->freed);
    add(permits, free_on_majority(permits));
    add(permits, before);
    add(permits, UINT32_MAX >> (QUORUM_PERMITS_MAX - permits->permits));
}
