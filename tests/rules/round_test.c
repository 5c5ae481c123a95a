/* What round_exhaustive_test.c leaves out: our own clock when it stopped, the last moment of a validity, and hand-overs. */
#include "quorum/round.h"

#include "support/test.h"

#define MS QUORUM_MILLISECOND

static const quorum_time begin = 1000 * QUORUM_SECOND;

/* ttl 1 s, drift 1 % + 2 ms: valid for 988 ms from the first send. A lock that is extended is valid for 500 ms more. */
static const quorum_duration validity = 988 * MS;
static const quorum_duration left = 500 * MS;

static struct quorum_terms terms_for(enum quorum_kind kind, unsigned nodes)
{
    return (struct quorum_terms){.kind = kind,
                                 .nodes = nodes,
                                 .ttl = QUORUM_SECOND,
                                 .drift_ppm = 10000,
                                 .minimum_validity = 1,
                                 .validity_end = kind == QUORUM_ACQUIRE || kind == QUORUM_ADOPT ? 0 : begin + left};
}

TEST_CASE(round, NULL, NULL);

/* ------------------------------------------------------------------------------------------------------------- time */

static struct quorum_actions vote(struct quorum_round *round, unsigned node, enum quorum_vote vote, quorum_time now,
                                  quorum_time stopped)
{
    const struct quorum_event event = {
        .type = QUORUM_VOTED, .now = now, .node = node, .vote = vote, .stopped = stopped};
    return quorum_round_step(round, &event);
}

static struct quorum_round begun(const struct quorum_terms *terms)
{
    const struct quorum_event event = {.type = QUORUM_START, .now = begin, .usable = quorum_all(terms->nodes)};
    struct quorum_round round;
    quorum_round_init(&round, terms);
    quorum_round_step(&round, &event);
    return round;
}

/* One node grants at this time, perhaps after its timeout; when the client learned that its clock had stopped; and the end of
 * validity, 0 if the grant was too late. */
static const struct {
    enum quorum_kind kind;
    quorum_duration ttl, minimum_validity, granted;
    quorum_time stopped;
    quorum_duration end;
    enum quorum_verdict verdict;
} moments[] = {
    {QUORUM_ACQUIRE, QUORUM_SECOND, 700 * MS, 288 * MS, 0, 988 * MS, QUORUM_WON},
    {QUORUM_ACQUIRE, QUORUM_SECOND, 700 * MS, 288 * MS + 1, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 988 * MS - 1, 0, 988 * MS, QUORUM_WON},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 988 * MS, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 500 * MS - 1, 0, 988 * MS, QUORUM_WON},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 500 * MS, 0, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, 100 * MS, 1, MS, 0, 500 * MS, QUORUM_WON}, /* an extension never shortens */
    /* The nodes may have let the lock expire while our clock stopped. A round that began afterwards is not affected. */
    {QUORUM_ACQUIRE, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_ACQUIRE, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 2 * MS, begin - 1, 988 * MS, QUORUM_WON},
    {QUORUM_ADOPT, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_LOST_TOO_SLOW},
    {QUORUM_RELEASE, QUORUM_SECOND, 1, 2 * MS, begin, 0, QUORUM_WON},
    /* A late confirmation counts while its validity is ahead. */
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 988 * MS - 1, 0, 988 * MS, QUORUM_LOST_NO_QUORUM},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 988 * MS, 0, 0, QUORUM_LOST_NO_QUORUM},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 60 * MS, begin - 1, 988 * MS, QUORUM_LOST_NO_QUORUM},
    {QUORUM_EXTEND, QUORUM_SECOND, 1, 60 * MS, begin, 0, QUORUM_LOST_NO_QUORUM},
};

TEST_ROWS(round, grant_counts_until_its_last_moment, ROWS(moments))
{
    const bool late = moments[_i].verdict == QUORUM_LOST_NO_QUORUM;
    struct quorum_terms terms = terms_for(moments[_i].kind, 1);
    terms.ttl = moments[_i].ttl;
    terms.minimum_validity = moments[_i].minimum_validity;
    struct quorum_round round = begun(&terms);
    if (late)
        vote(&round, 0, QUORUM_TIMED_OUT, begin + 50 * MS, 0);
    struct quorum_actions actions = vote(&round, 0, QUORUM_GRANTED, begin + moments[_i].granted, moments[_i].stopped);
    bool undoes = terms.kind == QUORUM_ACQUIRE && moments[_i].verdict != QUORUM_WON;
    ck_assert_int_eq(actions.decided, !late);
    ck_assert_int_eq(actions.confirmed, late && moments[_i].end);
    ck_assert_uint_eq(actions.undo, undoes);
    ck_assert_int_eq(round.verdict, moments[_i].verdict);
    ck_assert_uint_eq(round.validity_end, moments[_i].end ? begin + moments[_i].end : 0);
}

/* ------------------------------------------------------------------------------------------------------- hand-overs */

static struct quorum_actions hand_over(struct quorum_round *round, unsigned node, quorum_time since,
                                       quorum_time stopped)
{
    const struct quorum_event event = {
        .type = QUORUM_HANDED, .now = begin + 300 * MS, .node = node, .since = since, .stopped = stopped};
    return quorum_round_step(round, &event);
}

/* Since when nodes 4, 1 and 2 have handed the lock over. */
TEST(round, handed_over_lock_is_valid_from_the_earliest_grant)
{
    static const struct {
        quorum_time since[3], stopped;
        enum quorum_verdict verdict;
    } rows[] = {{{begin + 100 * MS, begin, begin + 200 * MS}, begin - 1, QUORUM_WON},
                {{begin, begin - QUORUM_SECOND, begin}, begin - 2 * QUORUM_SECOND, QUORUM_LOST_TOO_SLOW},
                {{begin, begin, begin}, begin + MS, QUORUM_LOST_TOO_SLOW}};
    static const unsigned nodes[] = {4, 1, 2};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
        struct quorum_round round;
        quorum_round_init(&round, &terms);
        bool won = rows[i].verdict == QUORUM_WON;
        for (unsigned j = 0; j < 3; j++) {
            struct quorum_actions actions = hand_over(&round, nodes[j], rows[i].since[j], rows[i].stopped);
            ck_assert_int_eq(actions.decided, j == 2);
            ck_assert_uint_eq(actions.undo, j == 2 && !won ? 0x16 : 0);
        }
        ck_assert_int_eq(round.verdict, rows[i].verdict);
        struct quorum_actions late = hand_over(&round, 3, begin - 100 * MS, rows[i].stopped);
        ck_assert(!late.decided && !late.undo);
        ck_assert_uint_eq(round.validity_end, won ? begin + validity : 0);
    }
}

TEST(round, node_hands_over_once)
{
    struct quorum_terms terms = terms_for(QUORUM_ACQUIRE, 5);
    struct quorum_round round;
    quorum_round_init(&round, &terms);
    for (unsigned i = 0; i < 4; i++)
        ck_assert(!hand_over(&round, i % 2, begin, 0).decided);
}

/* Three of five nodes grant: only an acquire that waits for the others has a majority and no result. */
TEST(round, acquire_that_waits_for_all_nodes_settles_behind_its_majority)
{
    static const struct {
        enum quorum_kind kind;
        bool all_answers, settling;
    } rows[] = {{QUORUM_ACQUIRE, true, true}, {QUORUM_ACQUIRE, false, false}, {QUORUM_LOOK, false, false}};
    for (int i = 0; i < ROWS(rows); i++) {
        struct quorum_terms terms = terms_for(rows[i].kind, 5);
        terms.all_answers = rows[i].all_answers;
        struct quorum_round round = begun(&terms);
        for (unsigned node = 0; node < 3; node++) {
            ck_assert(!quorum_round_is_settling(&round));
            vote(&round, node, QUORUM_GRANTED, begin + MS, 0);
        }
        ck_assert_int_eq(quorum_round_is_settling(&round), rows[i].settling);
    }
}

TEST_PROGRAM("quorum/round")
