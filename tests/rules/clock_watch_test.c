/* Finding the clock that jumped: a late reply or honest drift never counts as a jump, every real jump is found, and
 * the right clock is blamed. */
#include "quorum/clock_watch.h"

#include <stdlib.h>
#include <string.h>

#include "quorum/validity.h"
#include "rules/story.h"
#include "support/test.h"

#define MS          QUORUM_MILLISECOND
#define SECOND      QUORUM_SECOND
#define ONE_PERCENT 10000u

enum { NODES = 5 };

static const quorum_duration patience = 1000 * MS;
static const quorum_time begin = 500000 * SECOND;   /* by our clock */
static int64_t wall = 1700000000 * (int64_t)SECOND; /* the nodes' clocks minus ours */

static struct quorum_clock_watch watch_of(unsigned nodes)
{
    struct quorum_clock_watch watch;
    quorum_clock_init(&watch, nodes, ONE_PERCENT, patience);
    return watch;
}

/* A reply to a TIME sent at `sent`, which took `took`. Half way through, the node's clock was ahead by `offset`.
 * `answering`: the nodes that are expected to reply. */
static struct quorum_clock_actions sample_among(struct quorum_clock_watch *watch, quorum_nodes answering, unsigned node,
                                                quorum_time sent, quorum_duration took, int64_t offset)
{
    const struct quorum_clock_sample taken = {node, sent, sent + took,
                                              (quorum_time)((int64_t)(sent + took / 2) + offset), answering};
    return quorum_clock_step(watch, &taken);
}

static struct quorum_clock_actions sample(struct quorum_clock_watch *watch, unsigned node, quorum_time sent,
                                          quorum_duration took, int64_t offset)
{
    return sample_among(watch, quorum_all(watch->nodes), node, sent, took, offset);
}

static bool is_quiet(struct quorum_clock_actions actions)
{
    return !actions.suspect && !actions.jumped && !actions.own;
}

/* At `begin`, the clocks of all nodes have been known for one second. */
static struct quorum_clock_watch known(unsigned nodes)
{
    struct quorum_clock_watch watch = watch_of(nodes);
    for (quorum_time sent = begin - SECOND; sent <= begin; sent += SECOND)
        for (unsigned i = 0; i < nodes; i++)
            ck_assert(is_quiet(sample(&watch, i, sent, MS, wall)));
    return watch;
}

/* ---------------------------------------------------------------------------------------------------------- no jump */

TEST_CASE(clock_watch, NULL, NULL);

/* Drift also counts while the reply was on its way: 1 % of 7 ms. */
TEST(clock_watch, bounds_of_an_answer)
{
    struct quorum_clock_watch watch = watch_of(1);
    const struct quorum_clock_sample taken = {0, begin, begin + 7 * MS, begin + 100 * MS, quorum_all(1)};
    quorum_clock_step(&watch, &taken);
    ck_assert_int_eq(watch.node[0].offset.low, 93 * (int64_t)MS);
    ck_assert_int_eq(watch.node[0].offset.high, 100 * (int64_t)MS + 70000);
}

/* Between two samples a clock may gain the drift of the interval plus the uncertainty of both replies, 1 ms and 1 %
 * of it. The limit is exact to the nanosecond in both directions. The size of a jump is the least possible: without the
 * uncertainty. */
TEST(clock_watch, drift_between_two_samples_is_no_jump)
{
    static const quorum_duration apart[] = {MS, 100 * MS, SECOND, 30 * SECOND, 3600 * SECOND};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (int way = -1; way <= 1; way += 2) {
            int64_t most = (int64_t)(quorum_drift(apart[i], ONE_PERCENT) + MS) + 10000;
            struct quorum_clock_watch watch = known(NODES);
            ck_assert(is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + way * most)));
            watch = known(NODES);
            ck_assert(!is_quiet(sample(&watch, 0, begin + apart[i], MS, wall + way * (most + 1))));
            ck_assert_int_eq(watch.node[0].size, most + 1 - (int64_t)MS - 10000);
        }
}

/* --------------------------------------------------------------------------------------------------------- verdicts */

/*
 * A story's words are the nodes' replies, from 1000 ms on, when all clocks have been known for two seconds: 3 node 3;
 * 3+ its clock is 5000 ms ahead; 3-70 70 ms back; 3:50 the reply took 50 ms, not 1. Then, at once: ?13 nodes 1 and 3
 * are suspect, !1 node 1 jumped, * our clock stopped; otherwise nothing.
 *   @1001  the next replies are to requests sent at 1001 ms, when the first jump has been seen
 *   F3     another server has node 3's name
 * Each story is played with all clocks the other way round, too.
 */
static const struct story {
    const char *name;
    unsigned nodes;
    quorum_nodes answering; /* the nodes that are connected */
    const char *events;
} stories[] = {
    {"first reply says nothing", 3, 7, "F0 F1 F2 0 1-86400000 2+86400000"},
    {"another server has another clock", 3, 7, "F2 2+3600000 1"},
    {"another server is not suspect", 5, 31, "2+?2 F2 @10000 1"},

    /* Nobody is blamed before the last reply that the verdict needs. */
    {"one of two", 2, 3, "0+?0 @1001 1!0"},
    {"one of three", 3, 7, "2+?2 @1001 1?2 0!2"},
    {"one of four: a majority of three jumped clocks is no longer possible", 4, 15, "0+?0 @1001 1?0 2!0"},
    {"one of five", 5, 31, "3+?3 @1001 0?3 1?3 2!3"},
    {"one of five, two are away", 5, 7, "0+?0 @1001 1?0 2!0"},
    {"one of five, three are away", 5, 3, "0+?0 @1001 1!0"},
    {"one of three, two are away: no node vouches for our clock", 3, 1, "0+!0*"},
    {"two of five", 5, 31, "0+?0 1+?01 @1001 2?01 3?01 4!01"},
    {"two of five, two are away", 5, 7, "0+?0 1+?01 @1001 2!01*"},
    {"one each way", 5, 31, "0+?0 1-?01 @1001 2?01 3?01 4!01"},
    {"two ahead and one back", 5, 31, "0+?0 1+?01 2-?012 @1001 3?012 4!012"},
    {"three of five", 5, 31, "0+?0 1+?01 2+*"},
    {"two of two", 2, 3, "0+?0 1+*"},
    {"the only one", 1, 1, "0+!0*"},

    {"second suspect asks the nodes that are not suspect", 5, 31, "3+?3 @1001 0?3 3+?3 1-?13"},
    {"reply to a request sent before the jump was seen does not vouch", 3, 7, "0+?0 1?0 @1001 2?0"},
    {"late reply vouches if it is narrower than half of the jump", 3, 7, "0+?0 @1001 1:4800?0 2!0"},
    {"late reply that is wider does not", 3, 7, "0+?0 @1001 1:5000?0 2?0"},
    {"late reply that leaves room for the same jump does not", 3, 7, "0+?0 @1001 1+2400:4800?0 2?0"},
    {"node that jumps again is judged anew", 3, 7, "0+?0 @1001 1?0 2!0 @2000 0+10000?0 @2001 1?0 2!0"},
    {"clock that drifted vouches", 3, 7, "0+?0 @1001 1+11?0 2!0"},
    /* Its clock can jump as well, so its reply is awaited. */
    {"node that was not known before the jump does not vouch", 3, 7, "F1 @500 1 @1000 0+?0 @1001 2?0 1!0"},
    {"it does not vouch first either", 3, 7, "F1 @500 1 @1000 0+?0 @1001 1?0 2!0"},
    {"it can jump", 3, 7, "F1 @500 1 @1000 0+?0 @1001 1+*"},
    {"known before the request of the last reply: it vouches", 2, 3, "F1 @1000 1 @1001 0 @2000 0+?0 @2001 1!0"},
    {"known since its last reply was on the way: it does not", 2, 3, "F1 @1000 0:50 @1010 1 @2000 0+?0 @2001 1!0*"},
    {"known since a reply that was on the way: it does not", 2, 3, "F1 @1000 1:50 @1010 0 @2000 0+?0 @2001 1!0*"},
    {"known before the only reply: it vouches", 2, 3, "F0 0 @100 0+?0 @101 1!0"},
    /* A new client on a busy machine: each node's second reply was so late that the first one still gives the better
     * bound. But the second one alone shows the jump, so the nodes need to be known only since before that one. */
    {"node known before the last reply vouches", 5, 31,
     "F0 F1 F2 F3 F4 @0 0 @100 1 @200 2 @300 3 @400 4 @1000 0:50 @1100 1:50 @1200 2:50 @1300 3:50 @1400 4:50 "
     "@2000 0+?0 @2001 2?0 3?0 4!0"},
    /* The last reply took so long that it does not show the jump alone: the better bound does. The node that is known
     * only since that bound cannot vouch. */
    {"jump may precede a last reply that does not show it", 2, 3,
     "F0 F1 @50 0:100 @100 1 @200 0+:11000 @12000 0+?0 @13000 1!0*"},
    {"node known before that bound vouches", 2, 3, "F1 @200 1 @500 0 @1000 0+:11000 @12000 0+?0 @13000 1!0"},
    {"node known before the first reply vouches", 2, 3, "F0 F1 @200 1 @500 0 @1000 0+:11000 @12000 0+?0 @13000 1!0"},
    /* The reply at 500 ms gives a better bound on the other side alone. */
    {"each bound has its own date", 2, 3, "F1 @200 1 @500 0+25:50 @1000 0+:11000 @12000 0+?0 @13000 1!0*"},
    {"bound has the date of its request", 2, 3, "F1 @500 0-25:50 @510 1 @1000 0+:11000 @12000 0+?0 @13000 1!0*"},
    {"step that the drift allows is no jump by itself", 2, 3,
     "F1 @100 0+2 @150 1 @200 0+4 @300 0+6 @400 0+8?0 @401 1!0*"},
    {"node that was never sampled is not awaited", 3, 7, "F0 2+?2 @1001 1!2"},
    /* If this process was stopped, the replies to earlier requests may have arrived unread. */
    {"silent nodes are waited for until a reply to a request after the patience", 5, 31,
     "0+?0 @2000 0+:2000?0 @2001 0+:2000!0*"},
    {"silent nodes are waited for also if one vouches", 5, 31, "0+?0 @1001 1?0 @2000 0+:2000?0 @2001 0+:2000!0"},
    /* The client and one node run on the same machine, which was paused; the other nodes show it. */
    {"node that stopped with us does not outvote the others", 5, 31, "1+?1 @1001 0?1 2+?12 3+*"},
    {"node that jumped the other way before is still blamed", 5, 31, "4-60000?4 @2000 0+?04 1+?014 2+!4*"},
};

static quorum_nodes nodes_of(const char *digits)
{
    quorum_nodes nodes = 0;
    for (size_t i = 0; i < strspn(digits, "0123456789"); i++)
        nodes |= quorum_node((unsigned)(digits[i] - '0'));
    return nodes;
}

/* What a word says that follows. */
static struct quorum_clock_actions actions_of(const char *word)
{
    const char *suspect = strchr(word, '?'), *jumped = strchr(word, '!');
    return (struct quorum_clock_actions){.suspect = suspect ? nodes_of(suspect + 1) : 0,
                                         .jumped = jumped ? nodes_of(jumped + 1) : 0,
                                         .own = strchr(word, '*')};
}

/* A story, and how far each clock is ahead. */
struct run {
    const struct story *story;
    struct quorum_clock_watch watch;
    int64_t ahead[NODES];
    quorum_time now;
    quorum_nodes suspect;
    int own; /* 1 or -1: our clock stopped, and the others seem ahead or back */
};

static void hear(struct run *run, const char *word, int way)
{
    unsigned node = (unsigned)(word[0] - '0');
    int64_t sign = word[1] == '+' ? way : word[1] == '-' ? -way : 0;
    int64_t size = sign && word[2] >= '0' && word[2] <= '9' ? strtoll(word + 2, NULL, 10) : 5000;
    const char *took = strchr(word, ':');
    run->ahead[node] = sign * size * (int64_t)MS;
    struct quorum_clock_actions expected = actions_of(word),
                                actions = sample_among(&run->watch, run->story->answering, node, run->now,
                                                       took ? strtoull(took + 1, NULL, 10) * MS : MS,
                                                       wall + run->ahead[node]);
    if (expected.suspect & ~run->suspect & quorum_node(node))
        expected.ask = quorum_all(run->story->nodes) & ~expected.suspect;
    ck_assert_msg(actions.suspect == expected.suspect && actions.jumped == expected.jumped &&
                      actions.own == expected.own && actions.ask == expected.ask,
                  "%s: %s: ask %x suspect %x jumped %x own %d", run->story->name, word, actions.ask, actions.suspect,
                  actions.jumped, actions.own);
    run->suspect = actions.suspect;
    if (actions.own)
        run->own = (int)sign;
}

/* After the verdict the clocks continue from their offsets. If our own clock is to blame, nodes that have not replied
 * yet show the jump, too. The clocks are far ahead of ours, and then behind it. */
TEST_ROWS(clock_watch, watch_follows_story, 2 * ROWS(stories))
{
    const struct story *story = &stories[_i / 2];
    wall = _i % 2 ? -400000 * (int64_t)SECOND : 1700000000 * (int64_t)SECOND;
    for (int way = -1; way <= 1; way += 2) {
        struct run run = {.story = story, .watch = known(story->nodes), .now = begin + SECOND};
        char word[WORD_SIZE];
        for (const char *events = run.story->events; next_word(&events, word);) {
            if (*word == '@')
                run.now = begin + strtoull(word + 1, NULL, 10) * MS;
            else if (*word == 'F')
                quorum_clock_forget(&run.watch, (unsigned)(word[1] - '0'));
            else
                hear(&run, word, way);
        }
        for (unsigned i = 0; i < story->nodes && !run.suspect; i++) {
            int64_t ahead = run.ahead[i] ? run.ahead[i] : run.own * 5000 * (int64_t)MS;
            ck_assert_msg(is_quiet(sample(&run.watch, i, run.now + 20 * SECOND, MS, wall + ahead)), "%s: node %u",
                          story->name, i);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- any number */

TEST(clock_watch, any_number_may_be_answered)
{
    static const quorum_time times[] = {0, 1, begin, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            struct quorum_clock_watch watch = known(NODES);
            quorum_clock_forget(&watch, 0);
            const struct quorum_clock_sample first = {0, begin, begin + MS, times[i], quorum_all(NODES)};
            const struct quorum_clock_sample second = {0, begin + SECOND, begin + SECOND + MS, times[j],
                                                       quorum_all(NODES)};
            ck_assert(is_quiet(quorum_clock_step(&watch, &first)));
            struct quorum_clock_actions actions = quorum_clock_step(&watch, &second);
            /* The times are far out of range, or the clock stops, or it jumps. */
            quorum_nodes expected = i > 2 && j > 2 ? 0 : quorum_node(0);
            ck_assert_msg(actions.suspect == expected, "from %lu to %lu", times[i], times[j]);
        }
}

/* No interval is too long: the allowed drift is bounded before it is added. */
TEST(clock_watch, any_time_may_have_passed)
{
    struct quorum_clock_watch watch;
    quorum_clock_init(&watch, QUORUM_NODES_MAX, 500000, patience);
    ck_assert(is_quiet(sample(&watch, 0, begin, MS, wall)));
    ck_assert(is_quiet(sample(&watch, 0, (quorum_time)INT64_MAX / 2, MS, wall)));
}

TEST_PROGRAM("quorum/clock_watch")
