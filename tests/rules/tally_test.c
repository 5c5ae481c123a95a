/* The count of votes: for every number of nodes. */
#include "quorum/tally.h"

#include "rules/random.h"
#include "support/test.h"

TEST_CASE(tally, NULL, NULL);

/* Exclusion relies on this, for even numbers of nodes too. */
TEST(tally, two_majorities_share_a_node)
{
    for (unsigned nodes = 1; nodes <= 10; nodes++)
        for (unsigned a = 0; a < 1u << nodes; a++)
            for (unsigned b = 0; b < 1u << nodes; b++)
                if (quorum_count(a) >= quorum_majority(nodes) && quorum_count(b) >= quorum_majority(nodes) && !(a & b))
                    ck_abort_msg("of %u nodes, %x and %x are majorities with no node in common", nodes, a, b);
}

TEST(tally, all_nodes_are_as_many_as_there_are)
{
    ck_assert_uint_eq(quorum_all(0), 0);
    for (unsigned nodes = 1; nodes <= QUORUM_NODES_MAX; nodes++) {
        quorum_nodes expected = 0;
        for (unsigned node = 0; node < nodes; node++)
            expected |= quorum_node(node);
        ck_assert_uint_eq(quorum_all(nodes), expected);
        ck_assert_uint_eq(quorum_count(quorum_all(nodes)), nodes);
        ck_assert_uint_eq(quorum_count(quorum_node(nodes - 1)), 1);
    }
}

TEST(tally, only_a_node_that_timed_out_grants_late)
{
    for (int vote = QUORUM_PENDING; vote < QUORUM_VOTES; vote++) {
        struct quorum_tally tally;
        quorum_tally_init(&tally, 3);
        if (vote != QUORUM_PENDING)
            quorum_tally_vote(&tally, 1, (enum quorum_vote)vote, false);
        ck_assert(quorum_tally_grant_late(&tally, 1) == (vote == QUORUM_TIMED_OUT));
        ck_assert_uint_eq(tally.voted[QUORUM_GRANTED],
                          vote == QUORUM_TIMED_OUT || vote == QUORUM_GRANTED ? quorum_node(1) : 0);
        ck_assert_uint_eq(tally.voted[QUORUM_TIMED_OUT], 0);
    }
}

static void check_tally(const struct quorum_tally *tally, const enum quorum_vote *votes, unsigned nodes)
{
    unsigned count[QUORUM_VOTES] = {0};
    for (unsigned node = 0; node < nodes; node++) {
        count[votes[node]]++;
        for (enum quorum_vote vote = 0; vote < QUORUM_VOTES; vote++)
            if (!!(tally->voted[vote] & quorum_node(node)) != (votes[node] == vote))
                ck_abort_msg("%u nodes: node %u voted %u, and is counted as %u", nodes, node, votes[node], vote);
    }
    for (enum quorum_vote vote = 0; vote < QUORUM_VOTES; vote++) {
        if (quorum_tally_count(tally, vote) != count[vote])
            ck_abort_msg("%u nodes: %u votes of class %u", nodes, count[vote], vote);
        if (quorum_tally_blocked_by(tally, tally->voted[vote]) != (2 * (nodes - count[vote]) <= nodes))
            ck_abort_msg("%u nodes: do %u votes of class %u block a majority?", nodes, count[vote], vote);
    }
    if (quorum_tally_won(tally) != (2 * count[QUORUM_GRANTED] > nodes))
        ck_abort_msg("%u nodes: is it won with %u?", nodes, count[QUORUM_GRANTED]);
    if (quorum_tally_lost(tally) != (2 * (count[QUORUM_GRANTED] + count[QUORUM_PENDING]) <= nodes))
        ck_abort_msg("%u nodes: is it lost with %u, and %u to come?", nodes, count[QUORUM_GRANTED],
                     count[QUORUM_PENDING]);
}

/* A node votes once: its later votes change nothing. */
TEST_ROWS(tally, every_node_votes_at_random, QUORUM_NODES_MAX)
{
    unsigned nodes = (unsigned)_i + 1;
    uint64_t seed = nodes;
    for (int round = 0; round < 200; round++) {
        struct quorum_tally tally;
        enum quorum_vote votes[QUORUM_NODES_MAX] = {QUORUM_PENDING};
        quorum_nodes permanent = 0;
        unsigned classes = 2 + random_below(&seed, QUORUM_VOTES - 1); /* few classes give large counts */
        quorum_tally_init(&tally, nodes);
        check_tally(&tally, votes, nodes);
        for (unsigned i = 0; i < nodes; i++) {
            unsigned node = random_below(&seed, nodes);
            enum quorum_vote vote = 1 + random_below(&seed, classes - 1);
            bool first = votes[node] == QUORUM_PENDING, for_good = random_below(&seed, 2);
            ck_assert(quorum_tally_vote(&tally, node, vote, for_good) == first);
            votes[node] = first ? vote : votes[node];
            permanent |= first && for_good ? quorum_node(node) : 0;
            ck_assert_uint_eq(tally.permanent, permanent);
            check_tally(&tally, votes, nodes);
        }
    }
}

TEST_PROGRAM("quorum/tally")
