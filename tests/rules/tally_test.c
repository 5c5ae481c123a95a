/* The count of votes: for every number of nodes; for small numbers with every combination of votes. */
#include "quorum/tally.h"

#include "rules/random.h"
#include "support/suite.h"

/* Exclusion relies on this, for even numbers of nodes too. */
START_TEST(two_majorities_share_a_node)
{
    for (unsigned nodes = 1; nodes <= 10; nodes++)
        for (unsigned a = 0; a < 1u << nodes; a++)
            for (unsigned b = 0; b < 1u << nodes; b++)
                if (quorum_count(a) >= quorum_majority(nodes) && quorum_count(b) >= quorum_majority(nodes) && !(a & b))
                    ck_abort_msg("of %u nodes, %x and %x are majorities with no node in common", nodes, a, b);
}
END_TEST

START_TEST(all_nodes_are_as_many_as_there_are)
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
END_TEST

START_TEST(node_votes_once)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, 3);
    ck_assert(quorum_tally_vote(&tally, 1, QUORUM_TIMED_OUT, false));
    for (enum quorum_vote vote = QUORUM_PENDING + 1; vote < QUORUM_VOTES; vote++) {
        struct quorum_tally before = tally;
        ck_assert(!quorum_tally_vote(&tally, 1, vote, true));
        ck_assert_mem_eq(&tally, &before, sizeof tally);
    }
    ck_assert(quorum_tally_vote(&tally, 2, QUORUM_GRANTED, false));
    ck_assert_uint_eq(tally.voted[QUORUM_GRANTED], quorum_node(2));
    ck_assert_uint_eq(tally.voted[QUORUM_TIMED_OUT], quorum_node(1));
    ck_assert_uint_eq(tally.voted[QUORUM_PENDING], quorum_node(0));
}
END_TEST

START_TEST(only_a_node_that_timed_out_grants_late)
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
END_TEST

START_TEST(permanent_is_kept_per_node)
{
    struct quorum_tally tally;
    quorum_tally_init(&tally, 4);
    quorum_tally_vote(&tally, 0, QUORUM_REFUSED, true);
    quorum_tally_vote(&tally, 1, QUORUM_REFUSED, false);
    quorum_tally_vote(&tally, 3, QUORUM_UNREACHABLE, true);
    ck_assert_uint_eq(tally.permanent, quorum_node(0) | quorum_node(3));
    ck_assert_uint_eq(tally.voted[QUORUM_REFUSED], quorum_node(0) | quorum_node(1));
    ck_assert_uint_eq(tally.voted[QUORUM_UNREACHABLE], quorum_node(3));
}
END_TEST

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

START_TEST(every_way_to_vote)
{
    unsigned nodes = (unsigned)_i, ways = 1;
    for (unsigned node = 0; node < nodes; node++)
        ways *= QUORUM_VOTES;
    for (unsigned way = 0; way < ways; way++) {
        struct quorum_tally tally;
        enum quorum_vote votes[QUORUM_NODES_MAX];
        quorum_tally_init(&tally, nodes);
        for (unsigned node = 0, rest = way; node < nodes; node++, rest /= QUORUM_VOTES) {
            votes[node] = rest % QUORUM_VOTES;
            if (votes[node] != QUORUM_PENDING)
                quorum_tally_vote(&tally, node, votes[node], false);
        }
        check_tally(&tally, votes, nodes);
    }
}
END_TEST

START_TEST(many_nodes_vote_at_random)
{
    unsigned nodes = (unsigned)_i;
    uint64_t seed = nodes;
    for (int round = 0; round < 200; round++) {
        struct quorum_tally tally;
        enum quorum_vote votes[QUORUM_NODES_MAX] = {QUORUM_PENDING};
        unsigned classes = 2 + random_below(&seed, QUORUM_VOTES - 1); /* few classes give large counts */
        quorum_tally_init(&tally, nodes);
        check_tally(&tally, votes, nodes);
        for (unsigned i = 0; i < nodes; i++) {
            unsigned node = random_below(&seed, nodes);
            enum quorum_vote vote = 1 + random_below(&seed, classes - 1);
            if (quorum_tally_vote(&tally, node, vote, false) != (votes[node] == QUORUM_PENDING))
                ck_abort_msg("%u nodes: node %u votes again?", nodes, node);
            if (votes[node] == QUORUM_PENDING)
                votes[node] = vote;
            check_tally(&tally, votes, nodes);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum/tally");
    TCase *sets = tcase_create("sets");
    tcase_add_test(sets, two_majorities_share_a_node);
    tcase_add_test(sets, all_nodes_are_as_many_as_there_are);
    suite_add_tcase(suite, sets);

    TCase *votes = tcase_create("votes");
    tcase_add_test(votes, node_votes_once);
    tcase_add_test(votes, only_a_node_that_timed_out_grants_late);
    tcase_add_test(votes, permanent_is_kept_per_node);
    tcase_add_loop_test(votes, every_way_to_vote, 1, 6);
    tcase_add_loop_test(votes, many_nodes_vote_at_random, 1, QUORUM_NODES_MAX + 1);
    suite_add_tcase(suite, votes);
    return run_suite(suite);
}
