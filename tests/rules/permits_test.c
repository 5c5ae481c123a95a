/* Which slots of a semaphore an attempt tries: those that are free on a majority, with one that has not been tried, until a
 * message reports a free slot. */
#include "quorum/permits.h"

#include "quorum/tally.h"
#include "rules/random.h"
#include "support/test.h"

enum { NODES = 5, QUORUM = 3, MOST = 5 };

static struct quorum_permits permits;

static void refused_by(unsigned nodes, uint64_t free)
{
    for (unsigned i = 0; i < nodes; i++)
        quorum_permits_refused(&permits, free);
}

TEST_CASE(permits, NULL, NULL);

TEST(permits, no_slots_are_tried_twice)
{
    uint64_t random = 1;
    for (unsigned count = 1; count <= QUORUM_PERMITS_MAX; count++)
        for (unsigned wanted = 1; wanted <= count; wanted++) {
            unsigned tries = 1;
            uint32_t all = UINT32_MAX >> (QUORUM_PERMITS_MAX - count), tried;
            quorum_permits_init(&permits, NODES, count, wanted, count / 2);
            ck_assert_uint_eq(quorum_count(permits.slots), wanted);
            ck_assert(permits.slots >> (count / 2) & 1);
            ck_assert_int_eq(quorum_permits_first(&permits), __builtin_ctz(permits.slots));
            tried = permits.slots;
            quorum_permits_try(&permits);
            refused_by(NODES, UINT64_MAX);
            while (quorum_permits_next(&permits, next_random(&random))) {
                tries++;
                ck_assert_uint_ne(permits.slots & ~tried, 0);
                tried |= permits.slots;
                quorum_permits_try(&permits);
                refused_by(NODES, UINT64_MAX);
            }
            ck_assert_uint_eq(tried, all);
            ck_assert_uint_le(tries, count - wanted + 1);
            refused_by(NODES, UINT64_MAX);
            ck_assert_int_eq(quorum_permits_next(&permits, 0), 1); /* a later attempt begins anew */
        }
}

static void choose(unsigned count, unsigned wanted, uint32_t free, uint32_t tried)
{
    enum { DRAWS = 120 };
    bool chosen[1 << MOST] = {false};
    uint64_t random = 5;
    bool can = quorum_count(free) >= wanted && free & ~tried;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        quorum_permits_init(&permits, NODES, count, wanted, 0);
        refused_by(NODES, UINT64_MAX);
        quorum_permits_try(&permits);       /* replies to an earlier attempt do not count */
        refused_by(QUORUM - 1, UINT64_MAX); /* every slot is free on a minority */
        quorum_permits_refused(&permits, free);
        permits.tried = tried;
        ck_assert_int_eq(quorum_permits_next(&permits, next_random(&random)), can);
        if (!can)
            return;
        chosen[permits.slots] = true;
    }
    for (uint32_t slots = 0; slots < 1u << count; slots++)
        ck_assert_int_eq(chosen[slots], quorum_count(slots) == wanted && !(slots & ~free) && slots & ~tried);
}

/* Every number of permits up to five, and of wanted ones; all slots that may be free, or have been tried. */
TEST(permits, any_free_slots_may_be_chosen_and_no_others)
{
    for (unsigned count = 1; count <= MOST; count++)
        for (unsigned wanted = 1; wanted <= count; wanted++)
            for (uint32_t free = 0; free < 1u << count; free++)
                for (uint32_t tried = 0; tried < 1u << count; tried++)
                    choose(count, wanted, free, tried);
}

/* Every order of two messages, with every slot that was free before. */
TEST(permits, slots_that_were_freed_or_free_are_tried_together)
{
    for (unsigned first = 0; first < MOST; first++)
        for (unsigned second = 0; second < MOST; second++)
            for (unsigned free = 0; free < MOST; free++) {
                uint32_t freed = 1u << first | 1u << second;
                quorum_permits_init(&permits, NODES, MOST, 2, 0);
                quorum_permits_try(&permits);
                refused_by(QUORUM, 1u << free);
                quorum_permits_freed(&permits, first);
                ck_assert_uint_eq(permits.slots, 1u << first | (first != free ? 1u << free : first > 0 ? 1 : 2));
                quorum_permits_freed(&permits, second);
                if (first != second)
                    ck_assert_uint_eq(permits.slots, freed);
                ck_assert_uint_eq(quorum_count(permits.slots), 2);
                quorum_permits_try(&permits); /* it may have failed because the first one is taken by now */
                quorum_permits_freed(&permits, second);
                ck_assert(permits.slots >> second & 1);
                ck_assert_uint_eq(quorum_count(permits.slots), 2);
                ck_assert_uint_eq(permits.freed, 1u << second);
                ck_assert_uint_eq(permits.tried, 0);
                quorum_permits_freed(&permits, MOST); /* there is no such slot */
                ck_assert_uint_eq(permits.freed, 1u << second);
            }
}

TEST_PROGRAM("quorum/permits")
