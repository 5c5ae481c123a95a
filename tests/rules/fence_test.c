/* Fencing tokens: when a proposal becomes the token, how it is raised, and what a client proposes next. The simulator
 * (G2) and the model check that tokens are then unique and increase. */
#include "quorum/fence.h"

#include <stdlib.h>

#include "rules/story.h"
#include "support/test.h"

static struct quorum_fence fence;

/*
 * Acquires of one client. A word is:
 *   P100@7  an acquire begins when the wall clock reads 100 us and the steady clock 7 us
 *   =100    it proposes 100
 *   2:99    node 2 replies that its record was 99
 *   S100    a majority has confirmed: the token is 100    R101  it is raised to 101, in a new round
 *   L9      the client learns from it: its wall clock is 9 us behind the nodes' records, above the steady clock
 *   C9      it has learned that from another acquire meanwhile
 */
static const struct {
    const char *name;
    unsigned nodes;
    uint64_t lead;
    const char *events;
} stories[] = {
    {"proposal above a majority is the token", 5, 0, "P100@0 0:99 1:98 2:97 S100"},
    {"and above more than a majority", 5, 0, "P100@0 0:99 1:98 2:97 3:96 S100"},
    {"node that knows the number does not count", 5, 0, "P100@0 0:0 1:0 2:100 R101 0:100 1:100 2:100 S101"},
    {"larger record beside a majority does not matter", 5, 0, "P100@0 4:500 0:7 1:7 2:7 S100"},
    {"it is raised above the largest again and again", 5, 0,
     "P100@0 0:300 1:200 2:0 R301 0:300 1:301 2:400 R401 0:301 1:302 2:303 S401"},
    /* Nodes 0 and 1 have stored 100, not 901. */
    {"what counted for a smaller token does not count for a larger one", 5, 0,
     "P100@0 0:1 1:1 2:900 R901 3:2 4:2 2:901 R902"},
    {"tokens follow the wall clock and never go back", 1, 0,
     "P1000@0 0:0 S1000 0:6000 L0 P1000@9000 0:0 S1001 L0 P400@9000 0:0 S1002 L0 P5000@9000 =5000"},
    {"setting the wall clock does not add to the learned lead", 1, 5000,
     "P4000@10 0:0 S5010 L5000 P9000@20 0:0 S9000 L5000 P1000@30 0:0 S9001 L5000 P1000@5000 =10000"},
    /* The nodes refuse a proposal that is more than a day ahead of their clocks. */
    {"refused proposal of a wrong clock does not stay", 1, 0,
     "P1000@10 0:0 S1000 L0 P172800000000@20 =172800000000 P1030@40 =1030"},
    {"lead never shrinks", 1, 0, "P100@0 0:3000 R3001 C5000 0:0 S3001 L5000"},
    {"token below the steady clock is no lead", 1, 0, "P1@100 0:50 R51 0:0 S51 L0"},
    {"slow clock learns how far it is behind", 1, 0,
     "P1000@10 0:1499 R1500 L1490 P1100@10 =1501 P1100@110 0:1599 S1600 L1490"},
};

TEST_CASE(fence, NULL, NULL);

TEST_ROWS(fence, token_follows_story, ROWS(stories))
{
    struct quorum_fence_clock clock = {.lead = stories[_i].lead};
    unsigned raises = 0;
    char word[WORD_SIZE], *rest;
    for (const char *events = stories[_i].events; next_word(&events, word);) {
        uint64_t number = strtoull(word + 1, &rest, 10);
        bool holds = fence.token == number;
        if (*word == 'P') {
            quorum_fence_init(&fence, stories[_i].nodes, &clock, number,
                              strtoull(rest + 1, NULL, 10) * QUORUM_MICROSECOND);
            raises = 0;
            continue;
        }
        if (word[1] == ':') {
            quorum_fence_answered(&fence, (unsigned)(*word - '0'), strtoull(word + 2, NULL, 10));
            continue;
        }
        if (*word == 'C') {
            clock.lead = number;
            continue;
        }
        if (*word == 'L') {
            quorum_fence_learn(&clock, &fence);
            holds = clock.lead == number;
        } else if (*word != '=') {
            raises += *word == 'R';
            holds = quorum_fence_confirmed(&fence) == (*word == 'S') && fence.token == number;
        }
        ck_assert_msg(holds && fence.raises == raises, "%s: %s", stories[_i].name, word);
    }
}

TEST(fence, records_beyond_a_day_are_too_far)
{
    ck_assert(quorum_fence_is_near(1000, 0));
    ck_assert(quorum_fence_is_near(1000, 1000));
    ck_assert(quorum_fence_is_near(1000, 1000 + QUORUM_FENCE_FAR));
    ck_assert(!quorum_fence_is_near(1000, 1001 + QUORUM_FENCE_FAR));
}

TEST_PROGRAM("quorum/fence")
