/* Fencing tokens: when a proposal becomes the token, how it is raised, and what a client proposes next. The simulator
 * (G2) and the model check that tokens are then unique and increase. */
#include "quorum/fence.h"

#include <stdlib.h>

#include "rules/story.h"
#include "support/test.h"

static struct quorum_fence fence;

/* An acquire that proposes 100. 2:99 is the reply of node 2, whose record was 99. Then a majority has confirmed, and:
 * S100 the token is 100; R101 it is raised to 101 in a new round. */
static const struct {
    const char *name;
    unsigned nodes;
    const char *events;
} stories[] = {
    {"proposal above a majority is the token", 5, "0:99 1:98 2:97 S100"},
    {"node that knows the number does not count", 5, "0:0 1:0 2:100 R101 0:100 1:100 2:100 S101"},
    {"larger record beside a majority does not matter", 5, "4:500 0:7 1:7 2:7 S100"},
    {"it is raised above the largest again and again", 5,
     "0:300 1:200 2:0 R301 0:300 1:301 2:400 R401 0:301 1:302 2:303 S401"},
    /* Nodes 0 and 1 have stored 100, not 901. */
    {"what counted for a smaller token does not count for a larger one", 5, "0:1 1:1 2:900 R901 3:2 4:2 2:901 R902"},
};

TEST_CASE(fence, NULL, NULL);

TEST_ROWS(fence, token_follows_story, ROWS(stories))
{
    struct quorum_fence_clock clock = {0};
    unsigned raises = 0;
    char word[WORD_SIZE];
    quorum_fence_init(&fence, stories[_i].nodes, &clock, 100, 0);
    for (const char *events = stories[_i].events; next_word(&events, word);) {
        uint64_t token = strtoull(word + 1, NULL, 10);
        if (word[1] == ':') {
            quorum_fence_answered(&fence, (unsigned)(word[0] - '0'), strtoull(word + 2, NULL, 10));
            continue;
        }
        raises += *word == 'R';
        ck_assert_msg(quorum_fence_confirmed(&fence) == (*word == 'S') && fence.token == token, "%s: %s",
                      stories[_i].name, word);
        ck_assert_uint_eq(fence.raises, raises);
    }
}

/* Its token, which a majority has recorded at once. */
static uint64_t draw(struct quorum_fence_clock *clock, uint64_t wall_us, uint64_t steady_us)
{
    quorum_fence_init(&fence, 1, clock, wall_us, steady_us * QUORUM_MICROSECOND);
    quorum_fence_answered(&fence, 0, 0);
    ck_assert(quorum_fence_confirmed(&fence));
    quorum_fence_answered(&fence, 0, wall_us + 5000); /* too late to matter */
    quorum_fence_learn(clock, &fence);
    return fence.token;
}

static uint64_t propose(const struct quorum_fence_clock *clock, uint64_t wall_us, uint64_t steady_us)
{
    quorum_fence_init(&fence, 1, clock, wall_us, steady_us * QUORUM_MICROSECOND);
    return fence.token;
}

/* Tokens of one client in a row. Setting the wall clock forward or back does not add to the learned lead. */
static const struct {
    uint64_t lead;
    struct {
        uint64_t wall_us, steady_us, token;
    } row[4];
} proposals[] = {
    {0, {{1000, 0, 1000}, {1000, 9000, 1001}, {400, 9000, 1002}, {5000, 9000, 5000}}},
    {5000, {{4000, 10, 5010}, {9000, 20, 9000}, {1000, 30, 9001}, {1000, 5000, 10000}}},
};

TEST_ROWS(fence, tokens_follow_the_wall_clock_and_never_go_back, ROWS(proposals))
{
    struct quorum_fence_clock clock = {.lead = proposals[_i].lead};
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(draw(&clock, proposals[_i].row[i].wall_us, proposals[_i].row[i].steady_us),
                          proposals[_i].row[i].token);
}

/* The nodes refuse a proposal that is more than a day ahead of their clocks. */
TEST(fence, refused_proposal_of_a_wrong_clock_does_not_stay)
{
    struct quorum_fence_clock clock = {0};
    ck_assert_uint_eq(draw(&clock, 1000, 10), 1000);
    ck_assert_uint_eq(propose(&clock, 2 * QUORUM_FENCE_FAR, 20), 2 * QUORUM_FENCE_FAR);
    ck_assert_uint_eq(propose(&clock, 1030, 40), 1030);
}

TEST(fence, a_slow_clock_learns_how_far_it_is_behind)
{
    struct quorum_fence_clock clock = {0};
    propose(&clock, 1000, 10);
    quorum_fence_answered(&fence, 0, 1499);
    ck_assert(!quorum_fence_confirmed(&fence));
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 1490);
    ck_assert_uint_eq(propose(&clock, 1100, 10), 1501); /* in the same microsecond */
    ck_assert_uint_eq(propose(&clock, 1100, 110), 1600);
    quorum_fence_answered(&fence, 0, 1599);
    ck_assert(quorum_fence_confirmed(&fence));
    quorum_fence_learn(&clock, &fence); /* one round was enough */
    ck_assert_uint_eq(clock.lead, 1490);
}

TEST(fence, a_lead_never_shrinks_nor_runs_below_the_steady_clock)
{
    struct quorum_fence_clock clock = {.lead = 5000};
    propose(&clock, 1000, 100);
    quorum_fence_answered(&fence, 0, 5100);
    quorum_fence_confirmed(&fence);
    fence.token = 4000; /* as if a larger token were known to be stored */
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 5000);
    fence.token = 50;
    clock.lead = 0;
    quorum_fence_learn(&clock, &fence);
    ck_assert_uint_eq(clock.lead, 0);
}

TEST(fence, records_beyond_a_day_are_too_far)
{
    ck_assert(quorum_fence_is_near(1000, 0));
    ck_assert(quorum_fence_is_near(1000, 1000));
    ck_assert(quorum_fence_is_near(1000, 1000 + QUORUM_FENCE_FAR));
    ck_assert(!quorum_fence_is_near(1000, 1001 + QUORUM_FENCE_FAR));
}

TEST_PROGRAM("quorum/fence")
