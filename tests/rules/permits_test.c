/* Which slot of a semaphore an attempt tries: the next slot that is free on a majority, each once, until a message
 * reports a free slot. */
#include "quorum/permits.h"

#include "rules/random.h"
#include "support/test.h"

enum { NODES = 5, QUORUM = 3 };

static struct quorum_permits permits;

static void refused_by(unsigned nodes, uint64_t free)
{
    for (unsigned i = 0; i < nodes; i++)
        quorum_permits_refused(&permits, free);
}

TEST_CASE(permits, NULL, NULL);

TEST(permits, slot_that_is_free_on_a_majority_is_tried_next)
{
    for (unsigned free_nodes = QUORUM - 1; free_nodes <= QUORUM; free_nodes++) {
        quorum_permits_init(&permits, NODES, 3, 0);
        quorum_permits_try(&permits);
        refused_by(free_nodes, 2);
        quorum_permits_refused(&permits, 4);
        ck_assert_int_eq(quorum_permits_next(&permits, 12345), free_nodes == QUORUM);
        ck_assert_uint_eq(permits.slot, free_nodes == QUORUM);
    }
}

TEST(permits, answers_to_an_earlier_attempt_do_not_count)
{
    quorum_permits_init(&permits, NODES, 3, 0);
    quorum_permits_try(&permits);
    refused_by(NODES, 2);
    quorum_permits_try(&permits);
    ck_assert(!quorum_permits_next(&permits, 0));
}

TEST(permits, each_slot_is_tried_once)
{
    uint64_t random = 1;
    for (unsigned count = 1; count <= QUORUM_PERMITS_MAX; count++) {
        unsigned tries = 1;
        quorum_permits_init(&permits, NODES, count, count / 2);
        ck_assert_uint_eq(permits.slot, count / 2);
        quorum_permits_try(&permits);
        refused_by(NODES, UINT64_MAX);
        while (quorum_permits_next(&permits, next_random(&random))) {
            tries++;
            ck_assert_uint_lt(permits.slot, count);
            quorum_permits_try(&permits);
            refused_by(NODES, UINT64_MAX);
        }
        ck_assert_uint_eq(tries, count);
        refused_by(NODES, UINT64_MAX);
        ck_assert_int_eq(quorum_permits_next(&permits, 0), 1); /* a later attempt begins anew */
    }
}

TEST(permits, clients_that_start_together_try_different_slots)
{
    unsigned chosen[8] = {0};
    uint64_t random = 3;
    for (unsigned i = 0; i < 8000; i++) {
        quorum_permits_init(&permits, NODES, 8, 0);
        quorum_permits_try(&permits);
        refused_by(NODES, 0xfe);
        ck_assert(quorum_permits_next(&permits, next_random(&random)));
        chosen[permits.slot]++;
    }
    ck_assert_uint_eq(chosen[0], 0);
    for (unsigned slot = 1; slot < 8; slot++)
        ck_assert_uint_gt(chosen[slot], 900);
}

TEST(permits, slot_that_was_freed_is_tried_next)
{
    quorum_permits_init(&permits, NODES, 3, 0);
    quorum_permits_try(&permits);
    quorum_permits_freed(&permits, 2);
    ck_assert_uint_eq(permits.slot, 2);
    ck_assert_uint_eq(permits.tried, 0);
    quorum_permits_freed(&permits, 3); /* there is no slot 3 */
    ck_assert_uint_eq(permits.slot, 2);
}

TEST_PROGRAM("quorum/permits")
