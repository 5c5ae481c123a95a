#include "quorum/tally.h"

#include <assert.h>
#include <string.h>

unsigned quorum_majority(unsigned nodes)
{
    return nodes / 2 + 1;
}

void quorum_tally_init(struct quorum_tally *tally, unsigned nodes)
{
    assert(nodes >= 1 && nodes <= QUORUM_NODES_MAX);
    memset(tally, 0, sizeof *tally);
    tally->nodes = (uint8_t)nodes;
    tally->majority = (uint8_t)quorum_majority(nodes);
    tally->voted[QUORUM_PENDING] = quorum_all(nodes);
}

bool quorum_tally_vote(struct quorum_tally *tally, unsigned node, enum quorum_vote vote, bool permanent)
{
    assert(node < tally->nodes);
    assert(vote > QUORUM_PENDING && vote < QUORUM_VOTES);
    quorum_nodes bit = quorum_node(node);
    if (!(tally->voted[QUORUM_PENDING] & bit))
        return false;
    tally->voted[QUORUM_PENDING] &= ~bit;
    tally->voted[vote] |= bit;
    if (permanent)
        tally->permanent |= bit;
    return true;
}

void quorum_tally_grant_late(struct quorum_tally *tally, unsigned node)
{
    assert(node < tally->nodes);
    quorum_nodes bit = quorum_node(node);
    assert(tally->voted[QUORUM_TIMED_OUT] & bit);
    tally->voted[QUORUM_TIMED_OUT] &= ~bit;
    tally->voted[QUORUM_GRANTED] |= bit;
}

enum quorum_vote quorum_tally_vote_of(const struct quorum_tally *tally, unsigned node)
{
    assert(node < tally->nodes);
    enum quorum_vote vote = QUORUM_PENDING;
    while (!(tally->voted[vote] & quorum_node(node)))
        vote++;
    return vote;
}

bool quorum_tally_won(const struct quorum_tally *tally)
{
    return quorum_tally_count(tally, QUORUM_GRANTED) >= tally->majority;
}
